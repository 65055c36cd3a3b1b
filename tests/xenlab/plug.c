/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the Xen lab: the xenstore half of plugging a disk in, as a toolstack does
 * it, in one process.  A shell could do all of it with xenstore-write and the
 * like, but starting a process takes a tenth of a second there.
 *
 * It knows nothing of tapdisks; the path that it is given is only written down.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xenstore.h>
#include "poll/clock.h"

#define SIZE 256

struct plug {
	struct xs_handle *xs;
	const char *domid, *devid;
	char front[SIZE], back[SIZE];
};

static bool put(const struct plug *p, xs_transaction_t t, const char *dir,
		const char *key, const char *value)
{
	char path[2 * SIZE];

	snprintf(path, sizeof(path), "%s/%s", dir, key);
	return xs_write(p->xs, t, path, value, (unsigned)strlen(value));
}

/* Each end belongs to its domain, and the other may read it. */
static bool give(const struct plug *p, xs_transaction_t t, const char *dir,
		 unsigned owner, unsigned reader)
{
	struct xs_permissions perms[] = {
		{ .id = owner, .perms = XS_PERM_NONE },
		{ .id = reader, .perms = XS_PERM_READ },
	};

	return xs_mkdir(p->xs, t, dir) &&
	       xs_set_permissions(p->xs, t, dir, perms, 2);
}

static bool write_both(const struct plug *p, xs_transaction_t t,
		       const char *mode)
{
	const char *const front[][2] = {
		{ "backend", p->back },
		{ "backend-id", "0" },
		{ "virtual-device", p->devid },
		{ "device-type", "disk" },
		{ "state", "1" },
	};
	const char *const back[][2] = {
		{ "frontend", p->front }, { "frontend-id", p->domid },
		{ "online", "1" },	  { "removable", "0" },
		{ "bootable", "1" },	  { "mode", mode },
		{ "state", "1" },
	};
	unsigned domid = (unsigned)strtoul(p->domid, NULL, 10);
	bool ok =
		give(p, t, p->front, domid, 0) && give(p, t, p->back, 0, domid);

	for (size_t i = 0; i < sizeof(front) / sizeof(front[0]); i++)
		ok = ok && put(p, t, p->front, front[i][0], front[i][1]);
	for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++)
		ok = ok && put(p, t, p->back, back[i][0], back[i][1]);
	return ok;
}

/*
 * One transaction: a frontend looks for its backend as soon as its own
 * directory is there, and gives up if it finds none.
 */
static int add(const struct plug *p, const char *mode, const char *disk)
{
	xs_transaction_t t;
	bool done = false;

	while (!done) {
		t = xs_transaction_start(p->xs);
		if (!t)
			return -errno;
		if (!write_both(p, t, mode)) {
			xs_transaction_end(p->xs, t, true);
			return -EIO;
		}
		done = xs_transaction_end(p->xs, t, false);
		if (!done && errno != EAGAIN)
			return -errno;
	}
	if (!put(p, XBT_NULL, p->back, "physical-device-path", disk) ||
	    !put(p, XBT_NULL, p->back, "hotplug-status", "connected"))
		return -errno;
	return 0;
}

/* NULL stands for a node that is not there. */
static bool has(struct xs_handle *xs, const char *path, const char *value)
{
	unsigned len;
	char *now = xs_read(xs, XBT_NULL, path, &len);
	bool same = now && value ? strcmp(now, value) == 0 : now == value;

	free(now);
	return same;
}

static int wait_for(struct xs_handle *xs, const char *path, const char *value,
		    unsigned seconds)
{
	uint64_t end = clock_ns() + seconds * CLOCK_SECOND;
	struct pollfd fd = { .fd = xs_fileno(xs), .events = POLLIN };
	int err = 0;

	if (!xs_watch(xs, path, "wait"))
		return -errno;
	while (!err && !has(xs, path, value)) {
		if (clock_ns() >= end)
			err = -ETIMEDOUT;
		else if (poll(&fd, 1, 200) > 0)
			free(xs_check_watch(xs));
	}
	xs_unwatch(xs, path, "wait");
	return err;
}

static int wait_state(const struct plug *p, const char *dir, const char *state,
		      unsigned seconds)
{
	char path[2 * SIZE];
	int err;

	snprintf(path, sizeof(path), "%s/state", dir);
	err = wait_for(p->xs, path, state, seconds);
	if (err)
		fprintf(stderr, "plug: %s is not %s: %s\n", path, state,
			strerror(-err));
	return err;
}

/* The directory above @dir, if it is empty now. */
static void remove_above(const struct plug *p, const char *dir)
{
	unsigned n = 0;
	char path[SIZE];
	char **names;

	snprintf(path, sizeof(path), "%s", dir);
	*strrchr(path, '/') = '\0';
	names = xs_directory(p->xs, XBT_NULL, path, &n);
	if (names && !n)
		xs_rm(p->xs, XBT_NULL, path);
	free(names);
}

static int forget(const struct plug *p)
{
	xs_rm(p->xs, XBT_NULL, p->front);
	xs_rm(p->xs, XBT_NULL, p->back);
	remove_above(p, p->front);
	remove_above(p, p->back);
	return 0;
}

static int take(const struct plug *p, unsigned seconds)
{
	int err;

	if (!put(p, XBT_NULL, p->back, "online", "0") ||
	    !put(p, XBT_NULL, p->back, "state", "5"))
		return -errno;
	err = wait_state(p, p->back, "6", seconds);
	return err ? err : forget(p);
}

static int connected(const struct plug *p, unsigned seconds)
{
	int err = wait_state(p, p->back, "4", seconds);

	return err ? err : wait_state(p, p->front, "4", seconds);
}

static int run(struct plug *p, int argc, char **argv)
{
	const char *command = argv[1];

	if (argc == 5 && strcmp(command, "wait") == 0)
		return wait_for(p->xs, argv[2], *argv[3] ? argv[3] : NULL,
				(unsigned)atoi(argv[4]));
	if (argc < 4)
		return -EINVAL;
	p->domid = argv[2];
	p->devid = argv[3];
	snprintf(p->front, sizeof(p->front), "/local/domain/%s/device/vbd/%s",
		 p->domid, p->devid);
	snprintf(p->back, sizeof(p->back), "/local/domain/0/backend/vbd3/%s/%s",
		 p->domid, p->devid);
	if (argc == 6 && strcmp(command, "add") == 0)
		return add(p, argv[4], argv[5]);
	if (argc == 5 && strcmp(command, "connected") == 0)
		return connected(p, (unsigned)atoi(argv[4]));
	if (argc == 5 && strcmp(command, "take") == 0)
		return take(p, (unsigned)atoi(argv[4]));
	if (argc == 4 && strcmp(command, "forget") == 0)
		return forget(p);
	return -EINVAL;
}

int main(int argc, char **argv)
{
	struct plug p = { .xs = xs_open(0) };
	int err;

	if (argc < 2 || !p.xs) {
		fprintf(stderr,
			"usage: plug add DOMID DEVID MODE PATH\n"
			"       plug connected|take DOMID DEVID SECONDS\n"
			"       plug forget DOMID DEVID\n"
			"       plug wait NODE VALUE SECONDS (\"\": gone)\n");
		return 2;
	}
	err = run(&p, argc, argv);
	xs_close(p.xs);
	if (err)
		fprintf(stderr, "plug: %s: %s\n", argv[1], strerror(-err));
	return err ? 1 : 0;
}
