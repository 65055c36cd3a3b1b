/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl create, tap-ctl destroy: the whole life of a disk in one command.
 *
 * A create that fails leaves nothing behind, not even the tapdisk it started.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include "poll/host.h"
#include "tools/ctl/client.h"
#include "tools/tap-ctl/allocate.h"
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/disk.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"
#include "tools/tap-ctl/spawn.h"
#include "tools/tap-ctl/talk.h"

#define LET_GO_MS 5000 /* a tapdisk that ends drops its marker */
#define DIE_MS 2000
#define LOOK_MS 10

static bool is_gone(int pid, int timeout_ms)
{
	for (int ms = 0; kill(pid, 0) == 0; ms += LOOK_MS) {
		if (ms >= timeout_ms)
			return false;
		poll(NULL, 0, LOOK_MS);
	}
	return true;
}

/* Those of a tapdisk that can no longer do it. */
static void remove_sockets(int pid, int minor)
{
	static const char *const nbd[] = { "nbd", "nbd-old", "nbdserver",
					   "nbdserver-new" };
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/ctl%d", host_run_dir(), pid) >=
	    (int)sizeof(path))
		return;
	host_unlink(path);
	for (size_t i = 0; minor >= 0 && i < sizeof(nbd) / sizeof(nbd[0]); i++)
		if (snprintf(path, sizeof(path), "%s/%s%d.%d", host_run_dir(),
			     nbd[i], pid, minor) < (int)sizeof(path))
			host_unlink(path);
}

static void end_tapdisk(int pid, int minor)
{
	kill(pid, SIGTERM);
	if (!is_gone(pid, DIE_MS)) {
		kill(pid, SIGKILL);
		is_gone(pid, DIE_MS);
	}
	remove_sockets(pid, minor);
}

/*
 * Undo what create did.  Silent: the line that matters was said.  A tapdisk
 * ends by itself when its last disk is detached; one that had none does not.
 */
static void undo(const struct options *made, bool attached)
{
	struct wire_message reply;
	struct client_request request;
	int err = -ENODEV;

	if (attached) {
		client_request_init(&request, WIRE_DETACH,
				    (uint16_t)made->minor);
		err = client_call((int)made->pid, TALK_TIMEOUT_MS, &request,
				  &reply);
	}
	if (made->pid > 0 && err < 0)
		end_tapdisk((int)made->pid, (int)made->minor);
	allocate_free((int)made->minor, LET_GO_MS);
}

/* Everything after the minor.  @attached tells how far it came. */
static int create_steps(struct options *made, bool *attached)
{
	struct client_request request = { 0 };
	int err;

	/* before anything is started: a bad name or key must not cost much */
	err = disk_open_request(made, &request);
	if (err < 0)
		return err;
	err = spawn_tapdisk(made);
	if (err < 0)
		goto out;
	made->pid = err;
	err = disk_attach(made);
	if (err < 0)
		goto out;
	*attached = true;
	err = talk(made, CLIENT_FOREVER, &request);
out:
	client_request_fini(&request);
	return err;
}

int create_run(const struct options *options)
{
	struct options made = *options;
	bool attached = false;
	char path[PATH_MAX];
	int err;

	err = allocate_minor(options);
	if (err < 0)
		return err;
	made.minor = err;
	made.pid = OPTIONS_UNSET;
	err = create_steps(&made, &attached);
	if (err < 0) {
		undo(&made, attached);
		return err;
	}
	/* fits: the marker was made under this name */
	allocate_shown((int)made.minor, path, sizeof(path));
	printf("%s\n", path);
	return 0;
}

int create_run_destroy(const struct options *options)
{
	int minor = (int)options->minor;
	struct wire_message reply;
	struct client_request request;
	int err;

	client_request_init(&request, WIRE_CLOSE, (uint16_t)options->minor);
	err = client_call((int)options->pid, talk_timeout(options), &request,
			  &reply);
	if (err == -ECONNREFUSED) {
		/* it was killed: what it left is all there is to destroy */
		remove_sockets((int)options->pid, minor);
	} else if (err < 0) {
		return say_reply(options, err, &reply);
	} else {
		err = disk_detach(options);
		if (err < 0)
			return err;
	}
	return allocate_say_free(options, minor,
				 allocate_free(minor, LET_GO_MS));
}
