/* SPDX-License-Identifier: BSD-3-Clause */
/* See stand.h. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/stand.h"
#include "tests/scratch.h"

static void count_event(void *arg, enum vbd_event event)
{
	struct stand *stand = arg;

	stand->events[event]++;
}

bool stand_on_xen(void)
{
	const char *on = getenv("STAND_ON");

	return on && strcmp(on, "xen") == 0;
}

static void choose_guest(struct stand *stand)
{
	if (stand_on_xen()) {
		/* this domain, which is domain 0 */
		snprintf(stand->guest, sizeof(stand->guest), "xen");
		return;
	}
	scratch_path(stand->socket, sizeof(stand->socket), "guest");
	snprintf(stand->guest, sizeof(stand->guest), "local:%s", stand->socket);
	stand->options.socket = stand->socket;
	stand->domid = STAND_DOMID;
}

void stand_open(struct stand *stand, const char *spec, unsigned driver_flags,
		enum abi abi, unsigned order)
{
	struct vbd_listener listener = { .fn = count_event, .arg = stand };
	struct vbd_open_options options = { .driver_flags = driver_flags };

	memset(stand, 0, sizeof(*stand));
	stand->options.abi = abi;
	stand->options.ring_order = order;
	choose_guest(stand);
	ck_assert_int_eq(loop_open(&stand->loop), 0);
	ck_assert_int_eq(vbd_create(stand->loop, 3, -1, &listener, &stand->vbd),
			 0);
	ck_assert_int_eq(vbd_open(stand->vbd, spec, &options), 0);
	ck_assert_int_eq(frontend_open(&stand->options, &stand->f), 0);
}

int stand_connect_as(struct stand *stand, uint32_t domid, uint32_t devid)
{
	struct vbd_connect connect = {
		.domid = domid,
		.devid = devid,
		.abi = stand->options.abi,
		.guest = stand->guest,
		.port = frontend_port(stand->f),
		.nr_refs = frontend_nr_refs(stand->f),
	};

	memcpy(connect.refs, frontend_refs(stand->f),
	       connect.nr_refs * sizeof(connect.refs[0]));
	return vbd_connect(stand->vbd, &connect);
}

int stand_connect(struct stand *stand)
{
	return stand_connect_as(stand, stand->domid, STAND_DEVID);
}

/* ---- the main loop ---- */

static void replied(struct vbd_reply *reply, int err)
{
	struct stand_reply *r = (struct stand_reply *)reply;

	r->done = true;
	r->err = err;
	if (r->stops)
		loop_stop(r->loop);
}

void stand_reply_init(struct stand *stand, struct stand_reply *reply)
{
	*reply = (struct stand_reply){ .reply.fn = replied,
				       .loop = stand->loop };
}

static void time_up(void *arg)
{
	loop_stop(arg);
}

void stand_run(struct stand *stand, unsigned ms)
{
	struct loop_timer timer = { .fn = time_up, .arg = stand->loop };

	loop_timer_set(stand->loop, &timer, ms * UINT64_C(1000000));
	ck_assert_int_eq(loop_run(stand->loop), 0);
	loop_timer_clear(stand->loop, &timer);
}

int stand_await(struct stand *stand, struct stand_reply *reply)
{
	reply->stops = true;
	if (!reply->done)
		stand_run(stand, 30000);
	ck_assert_msg(reply->done, "no answer within 30 s");
	return reply->err;
}

int stand_disconnect(struct stand *stand)
{
	struct stand_reply reply;

	stand_reply_init(stand, &reply);
	vbd_disconnect(stand->vbd, stand->domid, STAND_DEVID, &reply.reply);
	return stand_await(stand, &reply);
}

int stand_pause(struct stand *stand)
{
	struct stand_reply reply;

	stand_reply_init(stand, &reply);
	vbd_pause(stand->vbd, &reply.reply);
	return stand_await(stand, &reply);
}

int stand_resume(struct stand *stand, const char *spec, bool shrink)
{
	struct stand_reply reply;

	stand_reply_init(stand, &reply);
	vbd_resume(stand->vbd, spec, 0, shrink, &reply.reply);
	return stand_await(stand, &reply);
}

int stand_vbd_close(struct stand *stand, bool force)
{
	struct stand_reply reply;

	stand_reply_init(stand, &reply);
	vbd_close(stand->vbd, force, &reply.reply);
	return stand_await(stand, &reply);
}

void stand_close(struct stand *stand)
{
	stand_vbd_close(stand, false);
	ck_assert_int_eq(vbd_destroy(stand->vbd), 0);
	/* after a forced close the data threads are still on their way out */
	stand_run(stand, 30);
	frontend_close(stand->f);
	loop_close(stand->loop);
}

int stand_io(struct stand *stand, uint8_t op, uint64_t sector, size_t len,
	     void *data)
{
	struct frontend_request r;
	int tag = frontend_next_tag(stand->f), status;

	ck_assert_int_ge(tag, 0);
	frontend_fill(&r, op, sector, len);
	if (data && op != BLKIF_OP_READ)
		memcpy(frontend_data(stand->f, (unsigned)tag), data, len);
	status = frontend_do(stand->f, &r, 10 * STAND_SECOND, NULL);
	if (data && op == BLKIF_OP_READ)
		memcpy(data, frontend_data(stand->f, (unsigned)tag), len);
	return status;
}
