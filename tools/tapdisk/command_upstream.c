/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands of the old wire, with upstream's answers to the byte: which
 * errno, which cookie.  Sectors are the wire's 512 bytes.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <json-c/json.h>
#include "poll/host.h"
#include "poll/log.h"
#include "tools/ctl/messages.h"
#include "tools/tapdisk/command.h"
#include "tools/tapdisk/nbd_server.h"
#include "tools/tapdisk/stats.h"

#define SECTOR 512
#define INFO_CDROM 1 /* VDISK_CDROM */
#define GREF_ORDER_MAX 3 /* WIRE_GREFS_MAX pages */

/* What a caller may ask of upstream's tapdisk and not yet of this one. */
static const struct {
	uint32_t flag;
	const char *name;
} not_yet[] = {
	{ WIRE_ADD_CACHE, "block cache" },
	{ WIRE_VHD_INDEX, "VHD index" },
	{ WIRE_ADD_LOG, "changed block tracking" },
	{ WIRE_ADD_LCACHE, "local cache" },
	{ WIRE_REUSE_PRT, "parent of another minor" },
	{ WIRE_SECONDARY, "secondary" },
	{ WIRE_STANDBY, "standby" },
	{ WIRE_OPEN_ENCRYPTED, "encryption" },
};

static void head(const struct command *command, uint16_t type,
		 struct wire_message *out)
{
	memset(out, 0, sizeof(*out));
	out->type = type;
	out->cookie = command->message->cookie;
}

static void run_pid(struct command *command)
{
	struct wire_message m;

	head(command, WIRE_PID_RSP, &m);
	m.u.pid = getpid();
	command_answer(command, &m, sizeof(m));
}

static int lock_marker(uint16_t minor)
{
	char path[512];
	int fd, len;

	len = snprintf(path, sizeof(path), "%s/tapdisk/tapdisk-%u",
		       host_run_dir(), minor);
	fd = len < (int)sizeof(path) ? host_lock(path) : -ENAMETOOLONG;
	if (fd < 0)
		log_err("attach: %s: %s", path, strerror(-fd));
	return fd;
}

static void run_attach(struct command *command)
{
	struct command_disk *disk = command->disk;
	uint16_t minor = command->message->cookie;
	int fd, err = 0;

	if (disk->vbd && vbd_minor(disk->vbd) == minor) {
		command_fail(command, -EEXIST);
		return;
	}
	fd = lock_marker(minor);
	if (fd < 0) {
		command_fail(command, -EPERM); /* whatever it was: upstream's */
		return;
	}
	if (disk->vbd)
		err = -EBUSY; /* one process, one disk */
	else if (disk->left)
		err = -ESHUTDOWN;
	else
		err = vbd_create(disk->loop, minor, fd, &disk->listener,
				 &disk->vbd);
	if (err < 0) {
		log_err("attach: minor %u: %s", minor, strerror(-err));
		close(fd);
		command_fail(command, err);
		return;
	}
	command_answer_plain(command, WIRE_ATTACH_RSP);
}

static void run_detach(struct command *command)
{
	struct vbd *vbd = command_vbd(command);
	bool left_behind = vbd && vbd_is_left_behind(vbd);
	int err = vbd ? vbd_destroy(vbd) : -ENODEV;

	if (err < 0) {
		command_fail(command, err);
		return;
	}
	command->disk->vbd = NULL;
	command->disk->left_behind = left_behind;
	command_answer_plain(command, WIRE_DETACH_RSP);
}

/* -EOPNOTSUPP if @flags ask for what we have not. */
static int check_flags(struct command *command, uint32_t flags)
{
	for (size_t i = 0; i < sizeof(not_yet) / sizeof(not_yet[0]); i++) {
		if (!(flags & not_yet[i].flag))
			continue;
		if (command_may_log(command))
			log_err("%s: minor %u: %s is not supported",
				wire_type_name(command->message->type),
				command->message->cookie, not_yet[i].name);
		return -EOPNOTSUPP;
	}
	return 0;
}

static void answer_image(struct command *command, uint16_t type,
			 const struct vbd *vbd)
{
	struct vbd_disk_info info;
	struct wire_message m;

	vbd_disk_info(vbd, &info);
	head(command, type, &m);
	if (info.bytes) {
		m.u.image.sectors = info.bytes / SECTOR;
		m.u.image.sector_size = SECTOR;
		/* read-only is in xenstore's mode, not in upstream's info */
		m.u.image.info = info.info & INFO_CDROM;
	}
	command_answer(command, &m, sizeof(m));
}

static unsigned driver_flags(uint32_t flags)
{
	return (flags & WIRE_RDONLY ? DRIVER_RDONLY : 0) |
	       (flags & WIRE_NO_O_DIRECT ? DRIVER_BUFFERED : 0);
}

static void closed_again(struct vbd_reply *reply, int err)
{
	(void)reply;
	(void)err;
}

/* A disk that dom0 cannot reach by NBD is no disk for xapi. */
static int open_and_share(struct command_disk *disk, const char *spec,
			  const struct vbd_open_options *options)
{
	struct vbd_reply nobody = { .fn = closed_again }; /* at once */
	int err;

	err = vbd_open(disk->vbd, spec, options);
	if (err)
		return err;
	err = nbd_server_open(disk->loop, disk->vbd);
	if (err)
		vbd_close(disk->vbd, true, &nobody);
	return err;
}

static void run_open(struct command *command)
{
	const struct wire_params *params = &command->message->u.params;
	struct vbd *vbd = command_vbd(command);
	struct vbd_open_options options = {
		.driver_flags = driver_flags(params->flags),
		.retry_s = params->req_timeout,
	};
	int err;

	if (!vbd)
		err = -EINVAL; /* not ENODEV: upstream's */
	else if (vbd_spec(vbd))
		err = -EALREADY;
	else
		err = check_flags(command, params->flags);
	if (err == 0)
		err = open_and_share(command->disk, params->path, &options);
	if (err < 0) {
		command_fail(command, err);
		return;
	}
	command->disk->driver_flags = options.driver_flags;
	answer_image(command, WIRE_OPEN_RSP, vbd);
}

static void replied(struct vbd_reply *reply, int err)
{
	struct command *command =
		(struct command *)((char *)reply -
				   offsetof(struct command, reply));

	if (err < 0)
		command_fail(command, err);
	else if (command->kind->type == WIRE_FORCE_SHUTDOWN)
		command_answer_plain(command, WIRE_CLOSE_RSP);
	else
		command_answer_plain(command, command->kind->type + 1);
}

static void run_pause(struct command *command)
{
	struct vbd *vbd = command_vbd(command);

	command->reply.fn = replied;
	if (vbd)
		vbd_pause(vbd, &command->reply);
	else
		command_fail(command, -ENODEV);
}

static void run_resume(struct command *command)
{
	const struct wire_params *params = &command->message->u.params;
	const char *spec = params->path[0] ? params->path : NULL;
	struct vbd *vbd = command_vbd(command);
	uint32_t flags = params->flags;
	int err;

	/* No mirror is what we have: "null" ends one. */
	if (flags & WIRE_SECONDARY && !strcmp(params->secondary, "null"))
		flags &= ~(uint32_t)WIRE_SECONDARY;
	err = vbd ? check_flags(command, flags) : -ENODEV;
	if (err < 0) {
		command_fail(command, err);
		return;
	}
	command->reply.fn = replied;
	vbd_resume(vbd, spec, command->disk->driver_flags, false,
		   &command->reply);
}

static void run_close(struct command *command)
{
	struct vbd *vbd = command_vbd(command);

	command->reply.fn = replied;
	if (vbd)
		vbd_close(vbd, command->kind->type == WIRE_FORCE_SHUTDOWN,
			  &command->reply);
	else
		command_fail(command, -ENODEV);
}

static void run_list(struct command *command)
{
	const struct vbd *vbd = command->disk->vbd;
	struct wire_message m[2];
	size_t n = 0;

	if (vbd) {
		head(command, WIRE_LIST_RSP, &m[n]);
		m[n].u.list.count = 1;
		m[n].u.list.minor = vbd_minor(vbd);
		m[n].u.list.state = (int32_t)vbd_state_word(vbd);
		if (vbd_spec(vbd))
			snprintf(m[n].u.list.path, sizeof(m[n].u.list.path),
				 "%s", vbd_spec(vbd));
		n++;
	}
	head(command, WIRE_LIST_RSP, &m[n]);
	m[n].u.list.minor = -1;
	n++;
	command_answer(command, m, n * sizeof(m[0]));
}

static struct json_object *own_stats(const struct vbd *vbd)
{
	struct gaps_histogram latencies[NR_METER_LATENCIES] = { 0 };
	struct vbd_polling_report report;

	vbd_latencies(vbd, latencies);
	vbd_polling_report(vbd, &report);
	return stats_json_own(latencies,
			      messages_polling_report(&report, NULL));
}

static void run_stats(struct command *command)
{
	bool all = command->message->cookie == WIRE_COOKIE_ALL;
	struct vbd *vbd = all ? command->disk->vbd : command_vbd(command);
	struct json_object *json = NULL;
	struct vbd_stats stats;

	if (!vbd && !all) {
		command_fail(command, -ENODEV);
		return;
	}
	if (vbd) {
		vbd_stats_read(vbd, &stats);
		json = stats_json(vbd_spec(vbd), &stats);
		json_object_object_add(json, "tapdisk", own_stats(vbd));
	}
	command_answer_json(command, WIRE_STATS_RSP,
			    all ? stats_json_list(json) : json,
			    stats_json_flags);
}

static int connect_abi(uint32_t proto, enum abi *out)
{
	switch (proto) {
	case WIRE_NATIVE:
		*out = ABI_NATIVE;
		return 0;
	case WIRE_X86_32:
		*out = ABI_X86_32;
		return 0;
	case WIRE_X86_64:
		*out = ABI_X86_64;
		return 0;
	}
	return -EPROTONOSUPPORT;
}

/* What a guest's administrator wrote into xenstore: bent into range. */
static void connect_polling(const struct wire_blkif *from,
			    struct vbd_connect *out)
{
	uint32_t duration = from->poll_duration;
	uint32_t threshold = from->poll_idle_threshold;

	if (duration > GRANULARITY_WINDOW_MAX_US)
		duration = GRANULARITY_WINDOW_MAX_US;
	out->has_polling = true; /* also to take an earlier guest's back */
	out->polling.mode = duration ? WAIT_ADAPTIVE : WAIT_EVENT;
	out->polling.duration_us = duration;
	out->polling.idle_threshold =
		(uint8_t)(threshold > 100 ? 100 : threshold);
	out->polling.align = true;
}

static void run_connect(struct command *command)
{
	const struct wire_blkif *from = &command->message->u.blkif;
	struct vbd *vbd = command_vbd(command);
	struct vbd_connect to = {
		.domid = from->domid,
		.devid = from->devid,
		.guest = from->pool,
		.port = from->port,
	};
	int err = 0;

	static_assert(1 << GREF_ORDER_MAX == WIRE_GREFS_MAX, "order");
	if (!vbd)
		err = -ENODEV;
	else if (!memchr(from->pool, 0, sizeof(from->pool)) ||
		 from->order > GREF_ORDER_MAX)
		err = -EINVAL;
	else
		err = connect_abi(from->proto, &to.abi);
	if (err == 0) {
		to.nr_refs = 1u << from->order;
		memcpy(to.refs, from->gref, to.nr_refs * sizeof(to.refs[0]));
		connect_polling(from, &to);
		err = vbd_connect(vbd, &to);
	}
	if (err < 0)
		command_fail(command, err);
	else
		command_answer_plain(command, WIRE_XENBLKIF_CONNECT_RSP);
}

/* The cookie says nothing: the ring is known by domain and device. */
static void run_disconnect(struct command *command)
{
	const struct wire_blkif *from = &command->message->u.blkif;
	struct vbd *vbd = command->disk->vbd;

	command->reply.fn = replied;
	if (vbd)
		vbd_disconnect(vbd, from->domid, from->devid, &command->reply);
	else
		command_fail(command, -ENODEV);
}

static void run_disk_info(struct command *command)
{
	struct vbd *vbd = command_vbd(command);

	if (vbd)
		answer_image(command, WIRE_DISK_INFO_RSP, vbd);
	else
		command_fail(command, -ENODEV);
}

const struct command_kind command_upstream_kinds[] = {
	{ WIRE_PID, COMMAND_NOW, run_pid },
	{ WIRE_ATTACH, COMMAND_ALONE, run_attach },
	{ WIRE_OPEN, COMMAND_ALONE, run_open },
	{ WIRE_PAUSE, COMMAND_ALONE, run_pause },
	{ WIRE_RESUME, COMMAND_ALONE, run_resume },
	{ WIRE_CLOSE, COMMAND_ALONE, run_close },
	{ WIRE_DETACH, COMMAND_ALONE, run_detach },
	{ WIRE_LIST, COMMAND_NOW, run_list },
	{ WIRE_STATS, COMMAND_NOW, run_stats },
	{ WIRE_FORCE_SHUTDOWN, COMMAND_NOW, run_close },
	{ WIRE_XENBLKIF_CONNECT, COMMAND_ALONE, run_connect },
	{ WIRE_XENBLKIF_DISCONNECT, COMMAND_BESIDE, run_disconnect },
	{ WIRE_DISK_INFO, COMMAND_NOW, run_disk_info },
	{ 0 },
};

const struct command_kind command_shutdown_kinds[] = {
	{ WIRE_CLOSE, COMMAND_ALONE, run_close },
	{ WIRE_DETACH, COMMAND_ALONE, run_detach },
	{ 0 },
};
