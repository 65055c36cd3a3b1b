/* SPDX-License-Identifier: BSD-3-Clause */
/* See rig.h. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tests/rig.h"
#include "tests/scratch.h"

static void count_event(void *arg, enum vbd_event event)
{
	struct rig *rig = arg;

	rig->events[event]++;
}

void rig_open(struct rig *rig, const char *spec, unsigned driver_flags,
	      enum abi abi, unsigned order)
{
	struct vbd_listener listener = { .fn = count_event, .arg = rig };
	struct vbd_open_options options = { .driver_flags = driver_flags };

	memset(rig, 0, sizeof(*rig));
	scratch_path(rig->socket, sizeof(rig->socket), "guest");
	snprintf(rig->guest, sizeof(rig->guest), "local:%s", rig->socket);
	rig->options = (struct frontend_options){ .socket = rig->socket,
						  .abi = abi,
						  .ring_order = order };
	ck_assert_int_eq(loop_open(&rig->loop), 0);
	ck_assert_int_eq(vbd_create(rig->loop, 3, -1, &listener, &rig->vbd), 0);
	ck_assert_int_eq(vbd_open(rig->vbd, spec, &options), 0);
	ck_assert_int_eq(frontend_open(&rig->options, &rig->f), 0);
}

int rig_connect_as(struct rig *rig, uint32_t domid, uint32_t devid)
{
	struct vbd_connect connect = {
		.domid = domid,
		.devid = devid,
		.abi = rig->options.abi,
		.guest = rig->guest,
		.port = frontend_port(rig->f),
		.nr_refs = frontend_nr_refs(rig->f),
	};

	memcpy(connect.refs, frontend_refs(rig->f),
	       connect.nr_refs * sizeof(connect.refs[0]));
	return vbd_connect(rig->vbd, &connect);
}

int rig_connect(struct rig *rig)
{
	return rig_connect_as(rig, RIG_DOMID, RIG_DEVID);
}

/* ---- the main loop ---- */

static void replied(struct vbd_reply *reply, int err)
{
	struct rig_reply *r = (struct rig_reply *)reply;

	r->done = true;
	r->err = err;
	if (r->stops)
		loop_stop(r->loop);
}

void rig_reply_init(struct rig *rig, struct rig_reply *reply)
{
	*reply = (struct rig_reply){ .reply.fn = replied, .loop = rig->loop };
}

static void time_up(void *arg)
{
	loop_stop(arg);
}

void rig_run(struct rig *rig, unsigned ms)
{
	struct loop_timer timer = { .fn = time_up, .arg = rig->loop };

	loop_timer_set(rig->loop, &timer, ms * UINT64_C(1000000));
	ck_assert_int_eq(loop_run(rig->loop), 0);
	loop_timer_clear(rig->loop, &timer);
}

int rig_await(struct rig *rig, struct rig_reply *reply)
{
	reply->stops = true;
	if (!reply->done)
		rig_run(rig, 30000);
	ck_assert_msg(reply->done, "no answer within 30 s");
	return reply->err;
}

int rig_disconnect(struct rig *rig)
{
	struct rig_reply reply;

	rig_reply_init(rig, &reply);
	vbd_disconnect(rig->vbd, RIG_DOMID, RIG_DEVID, &reply.reply);
	return rig_await(rig, &reply);
}

int rig_pause(struct rig *rig)
{
	struct rig_reply reply;

	rig_reply_init(rig, &reply);
	vbd_pause(rig->vbd, &reply.reply);
	return rig_await(rig, &reply);
}

int rig_resume(struct rig *rig, const char *spec, bool shrink)
{
	struct rig_reply reply;

	rig_reply_init(rig, &reply);
	vbd_resume(rig->vbd, spec, 0, shrink, &reply.reply);
	return rig_await(rig, &reply);
}

int rig_vbd_close(struct rig *rig, bool force)
{
	struct rig_reply reply;

	rig_reply_init(rig, &reply);
	vbd_close(rig->vbd, force, &reply.reply);
	return rig_await(rig, &reply);
}

void rig_close(struct rig *rig)
{
	rig_vbd_close(rig, false);
	ck_assert_int_eq(vbd_destroy(rig->vbd), 0);
	/* after a forced close the data threads are still on their way out */
	rig_run(rig, 30);
	frontend_close(rig->f);
	loop_close(rig->loop);
}

int rig_io(struct rig *rig, uint8_t op, uint64_t sector, size_t len, void *data)
{
	struct frontend_request r;
	int tag = frontend_next_tag(rig->f), status;

	ck_assert_int_ge(tag, 0);
	frontend_fill(&r, op, sector, len);
	if (data && op != BLKIF_OP_READ)
		memcpy(frontend_data(rig->f, (unsigned)tag), data, len);
	status = frontend_do(rig->f, &r, 10 * RIG_SECOND, NULL);
	if (data && op == BLKIF_OP_READ)
		memcpy(data, frontend_data(rig->f, (unsigned)tag), len);
	return status;
}
