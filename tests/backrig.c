/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instead of sleeping for a while and hoping, a deferred call of the loop
 * looks, each turn, whether what the test waits for is there.
 */
#include "tests/backrig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "poll/clock.h"
#include "poll/host.h"
#include "poll/log.h"
#include "tests/scratch.h"

#define PATIENCE (20 * CLOCK_SECOND)
#define QUIET_TURNS 16

static struct {
	uint32_t domid;
	int state;
} awaited;

static bool is_dead(struct domains *domains, uint32_t domid)
{
	const struct backrig *rig =
		(struct backrig *)((char *)domains -
				   offsetof(struct backrig, domains));

	return rig->dead && rig->dead == domid;
}

static void left(void *arg)
{
	((struct backrig *)arg)->left++;
}

static void lost(void *arg, int err)
{
	((struct backrig *)arg)->lost = err;
}

static void look(void *arg)
{
	struct backrig *rig = arg;

	rig->reached = rig->until(rig);
	if (rig->reached || clock_ns() > rig->deadline_ns)
		loop_stop(rig->loop);
	else
		loop_defer(rig->loop, &rig->look);
}

void backrig_run(struct backrig *rig, bool (*until)(struct backrig *rig))
{
	rig->until = until;
	rig->deadline_ns = clock_ns() + PATIENCE;
	rig->look.fn = look;
	rig->look.arg = rig;
	loop_defer(rig->loop, &rig->look);
	ck_assert_int_eq(loop_run(rig->loop), 0);
	ck_assert_msg(rig->reached, "nothing came of it");
}

static bool is_quiet(struct backrig *rig)
{
	struct device *device;
	uint32_t domid;

	if (xenstore_pending(rig->xs))
		return false;
	if (!rig->devices)
		return true;
	for (domid = 0; domid < 16; domid++) {
		device = devices_find(rig->devices, domid, BACKRIG_DEVID);
		if (device &&
		    (device->turn.queued || device->tap.call != TAP_NONE))
			return false;
	}
	return true;
}

/*
 * What is on its way through a socket is not seen from here, but arrives
 * within a turn: the loop looks at one descriptor each turn.
 */
static bool is_settled(struct backrig *rig)
{
	rig->quiet_turns = is_quiet(rig) ? rig->quiet_turns + 1 : 0;
	return rig->quiet_turns > QUIET_TURNS;
}

void backrig_settle(struct backrig *rig)
{
	rig->quiet_turns = 0;
	backrig_run(rig, is_settled);
}

static uint64_t end_ns;

static bool is_over(struct backrig *rig)
{
	(void)rig;
	return clock_ns() >= end_ns;
}

void backrig_run_ms(struct backrig *rig, unsigned ms)
{
	end_ns = clock_ns() + ms * UINT64_C(1000000);
	backrig_run(rig, is_over);
}

void backrig_start(struct backrig *rig)
{
	const struct devices_owner owner = { left, lost, rig };

	ck_assert_int_eq(
		devices_open(&rig->env, rig->only, &owner, &rig->devices), 0);
}

void backrig_stop(struct backrig *rig)
{
	if (rig->devices)
		devices_close(rig->devices);
	rig->devices = NULL;
}

void backrig_open(struct backrig *rig)
{
	char dir[128];

	memset(rig, 0, sizeof(*rig));
	scratch_path(dir, sizeof(dir), "run");
	mkdir(dir, 0700);
	setenv("TAPDISK_RUN_DIR", dir, 1);
	/* what tests provoke is no news, except for whoever asks */
	ck_assert_int_eq(log_open("tapback", -1, -1, getenv("VERBOSE")), 0);
	ck_assert_int_eq(loop_open(&rig->loop), 0);
	rig->xs = xenstore_open();
	rig->domains.dead = is_dead;
	rig->only = DEVICES_ALL;
	rig->env = (struct device_env){
		.loop = rig->loop,
		.store = xenstore_store(rig->xs),
		.domains = &rig->domains,
		.name = "vbd3",
		.barrier = true,
		.timeout_ms = 5000,
		.guest = "xen",
	};
	faketap_open(&rig->tap[0], rig->loop, BACKRIG_PID, 0);
	faketap_open(&rig->tap[1], rig->loop, BACKRIG_PID + 1, 1);
	backrig_start(rig);
}

void backrig_close(struct backrig *rig)
{
	backrig_stop(rig);
	/* whatever was watched is not any more */
	ck_assert_uint_eq(xenstore_watches(rig->xs), 0);
	faketap_close(&rig->tap[0]);
	faketap_close(&rig->tap[1]);
	xenstore_close(rig->xs);
	loop_close(rig->loop);
	log_close();
}

void backrig_put_back(struct backrig *rig, uint32_t domid, const char *key,
		      const char *value)
{
	xenstore_put(rig->xs, value, BACKRIG_B "/%s", domid, key);
}

void backrig_put_front(struct backrig *rig, uint32_t domid, const char *key,
		       const char *value)
{
	xenstore_put(rig->xs, value, BACKRIG_F "/%s", domid, key);
}

const char *backrig_back(struct backrig *rig, uint32_t domid, const char *key)
{
	return xenstore_peek(rig->xs, BACKRIG_B "/%s", domid, key);
}

void backrig_plug(struct backrig *rig, uint32_t domid)
{
	char path[64];

	snprintf(path, sizeof(path), BACKRIG_F, domid);
	backrig_put_back(rig, domid, "frontend", path);
	backrig_put_back(rig, domid, "online", "1");
	backrig_put_back(rig, domid, "mode", "w");
	backrig_put_back(rig, domid, "state", "1");
	backrig_put_front(rig, domid, "device-type", "disk");
	backrig_put_front(rig, domid, "state", "1");
}

void backrig_name(struct backrig *rig, uint32_t domid, unsigned which)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/nbd%d.%u", host_run_dir(),
		 rig->tap[which].pid, rig->tap[which].minor);
	backrig_put_back(rig, domid, "physical-device-path", path);
	backrig_put_back(rig, domid, "hotplug-status", "connected");
}

void backrig_unplug(struct backrig *rig, uint32_t domid)
{
	xenstore_put(rig->xs, NULL, BACKRIG_F, domid);
	xenstore_put(rig->xs, NULL, "/local/domain/0/backend/vbd3/%u", domid);
}

void backrig_write_ring(struct backrig *rig, uint32_t domid)
{
	backrig_put_front(rig, domid, "ring-ref", "8");
	backrig_put_front(rig, domid, "event-channel", "15");
	backrig_put_front(rig, domid, "protocol", "x86_64-abi");
}

int backrig_state(struct backrig *rig, uint32_t domid)
{
	const char *text = backrig_back(rig, domid, "state");

	return text ? atoi(text) : -1;
}

static bool is_shown(struct backrig *rig)
{
	return backrig_state(rig, awaited.domid) == awaited.state;
}

void backrig_await(struct backrig *rig, uint32_t domid, int state)
{
	awaited.domid = domid;
	awaited.state = state;
	backrig_run(rig, is_shown);
}

void backrig_connect(struct backrig *rig, uint32_t domid, unsigned which)
{
	backrig_plug(rig, domid);
	backrig_name(rig, domid, which);
	backrig_await(rig, domid, 2);
	backrig_write_ring(rig, domid);
	backrig_put_front(rig, domid, "state", "3");
	backrig_await(rig, domid, 4);
	backrig_put_front(rig, domid, "state", "4");
	backrig_settle(rig);
}

void backrig_get_to(struct backrig *rig, uint32_t domid, int stage)
{
	static const char *const states[BACKRIG_STAGES] = { "1", "3", "4", "5",
							    "6" };

	backrig_plug(rig, domid);
	backrig_name(rig, domid, 0);
	backrig_await(rig, domid, 2);
	if (stage == 0)
		return;
	backrig_write_ring(rig, domid);
	backrig_put_front(rig, domid, "state", "3");
	if (stage == 1)
		return;
	backrig_await(rig, domid, 4);
	backrig_put_front(rig, domid, "state", states[stage]);
}
