/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vbd and a frontend in one process: the whole data path without tapdisk's
 * control socket.  Functions fail the running test when a step that should
 * work does not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/loop.h"
#include "ring/vbd.h"
#include "tests/frontend.h"

#define STAND_DOMID 7
#define STAND_DEVID 51712
#define STAND_SECOND UINT64_C(1000000000)

struct stand {
	struct loop *loop;
	struct vbd *vbd;
	struct frontend *f;
	char socket[108];
	char guest[120]; /* local:SOCKET, or xen */
	uint32_t domid;
	struct frontend_options options;
	unsigned events[4]; /* how often each enum vbd_event came */
};

/* STAND_ON=xen in the environment: the frontend is on a real Xen. */
bool stand_on_xen(void);

/* A vbd opened on @spec and a frontend, not connected. */
void stand_open(struct stand *stand, const char *spec, unsigned driver_flags,
		enum abi abi, unsigned order);
void stand_close(struct stand *stand); /* whatever state it is in */

/* The vbd's answers; no assertion. */
int stand_connect(struct stand *stand);
int stand_connect_as(struct stand *stand, uint32_t domid, uint32_t devid);
int stand_disconnect(struct stand *stand);
int stand_pause(struct stand *stand);
int stand_resume(struct stand *stand, const char *spec, bool shrink);
int stand_vbd_close(struct stand *stand, bool force);

/* Started and not waited for: *done becomes 1 when answered, *err what. */
struct stand_reply {
	struct vbd_reply reply;
	struct loop *loop;
	bool done, stops;
	int err;
};
void stand_reply_init(struct stand *stand, struct stand_reply *reply);

/* Run the main loop for @ms, or, with @reply, until it is answered. */
void stand_run(struct stand *stand, unsigned ms);
int stand_await(struct stand *stand, struct stand_reply *reply);

/* One request: its status, or -errno of the frontend. */
int stand_io(struct stand *stand, uint8_t op, uint64_t sector, size_t len,
	     void *data);
