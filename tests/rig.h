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

#define RIG_DOMID 7
#define RIG_DEVID 51712
#define RIG_SECOND UINT64_C(1000000000)

struct rig {
	struct loop *loop;
	struct vbd *vbd;
	struct frontend *f;
	char socket[108];
	char guest[120]; /* local:SOCKET */
	struct frontend_options options;
	unsigned events[4]; /* how often each enum vbd_event came */
};

/* A vbd opened on @spec and a frontend, not connected. */
void rig_open(struct rig *rig, const char *spec, unsigned driver_flags,
	      enum abi abi, unsigned order);
void rig_close(struct rig *rig); /* whatever state it is in */

/* The vbd's answers; no assertion. */
int rig_connect(struct rig *rig);
int rig_connect_as(struct rig *rig, uint32_t domid, uint32_t devid);
int rig_disconnect(struct rig *rig);
int rig_pause(struct rig *rig);
int rig_resume(struct rig *rig, const char *spec, bool shrink);
int rig_vbd_close(struct rig *rig, bool force);

/* Started and not waited for: *done becomes 1 when answered, *err what. */
struct rig_reply {
	struct vbd_reply reply;
	struct loop *loop;
	bool done, stops;
	int err;
};
void rig_reply_init(struct rig *rig, struct rig_reply *reply);

/* Run the main loop for @ms, or, with @reply, until it is answered. */
void rig_run(struct rig *rig, unsigned ms);
int rig_await(struct rig *rig, struct rig_reply *reply);

/* One request: its status, or -errno of the frontend. */
int rig_io(struct rig *rig, uint8_t op, uint64_t sector, size_t len,
	   void *data);
