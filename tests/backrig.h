/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole tapback but for its main(): with a xenstore in memory, fake
 * tapdisks, and a test that plays the toolstack and the guests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/loop.h"
#include "tests/faketap.h"
#include "tests/xenstore.h"
#include "tools/tapback/devices.h"

#define BACKRIG_PID 1000001 /* above pid_max's default: of no process */
#define BACKRIG_DEVID 51712

struct backrig {
	struct loop *loop;
	struct xenstore *xs;
	struct device_env env;
	struct devices *devices; /* NULL while tapback is down */
	uint32_t dead; /* the domain that is; 0: none */
	struct domains domains;
	uint32_t only; /* DEVICES_ALL */
	unsigned left; /* times that it had nothing left to do */
	int lost; /* how xenstore was */
	struct faketap tap[2];
	/* backrig's own */
	bool (*until)(struct backrig *rig);
	struct loop_defer look;
	uint64_t deadline_ns;
	unsigned quiet_turns;
	bool reached;
};

void backrig_open(struct backrig *rig);
void backrig_close(struct backrig *rig);
void backrig_start(struct backrig *rig); /* tapback */
void backrig_stop(struct backrig *rig);

/* Run until @until says so; fails the test after 20 s. */
void backrig_run(struct backrig *rig, bool (*until)(struct backrig *rig));
/* Run until nothing more happens, timers apart. */
void backrig_settle(struct backrig *rig);
void backrig_run_ms(struct backrig *rig, unsigned ms);

/* Paths: the backend's and the frontend's of device BACKRIG_DEVID. */
#define BACKRIG_B "/local/domain/0/backend/vbd3/%u/51712"
#define BACKRIG_F "/local/domain/%u/device/vbd/51712"
#define BACKRIG_ERROR "/local/domain/0/error/backend/vbd3/%u/51712/error"

void backrig_put_back(struct backrig *rig, uint32_t domid, const char *key,
		      const char *value);
void backrig_put_front(struct backrig *rig, uint32_t domid, const char *key,
		       const char *value);
const char *backrig_back(struct backrig *rig, uint32_t domid, const char *key);

/* What a toolstack writes: both halves; then the name of tap[@which]. */
void backrig_plug(struct backrig *rig, uint32_t domid);
void backrig_name(struct backrig *rig, uint32_t domid, unsigned which);
void backrig_unplug(struct backrig *rig, uint32_t domid); /* all of it goes */
/* Ring of one page, and port. */
void backrig_write_ring(struct backrig *rig, uint32_t domid);

/* The state that tapback shows; -1 if none. */
int backrig_state(struct backrig *rig, uint32_t domid);
/* Run until it shows @state. */
void backrig_await(struct backrig *rig, uint32_t domid, int state);
/* Plug, name, and have a frontend connect. */
void backrig_connect(struct backrig *rig, uint32_t domid, unsigned which);

/* As far as a frontend gets that is in 1, 3, 4, 5, 6; not settled. */
#define BACKRIG_STAGES 5
void backrig_get_to(struct backrig *rig, uint32_t domid, int stage);
