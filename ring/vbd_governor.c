/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The governor of spinning, in the vbd's loop: one descriptor, one timer.  It
 * rests while no ring waits in a mode that may spin.
 */
#include <sys/epoll.h>
#include "poll/clock.h"
#include "poll/log.h"
#include "ring/vbd_private.h"

static void run(void *arg)
{
	struct vbd *vbd = arg;
	uint64_t next = cpu_run(vbd->governor, clock_ns());

	if (next != CLOCK_NEVER)
		loop_timer_set(vbd->loop, &vbd->governor_timer, next);
}

static void called(void *arg, uint32_t events)
{
	(void)events;
	run(arg);
}

int vbd_governor_open(struct vbd *vbd)
{
	int err;

	err = cpu_open("/proc", clock_ns(), &vbd->governor);
	if (err)
		return err;
	vbd->governor_timer = (struct loop_timer){ .fn = run, .arg = vbd };
	vbd->governor_watch = (struct loop_watch){ .fd = cpu_fd(vbd->governor),
						   .fn = called,
						   .arg = vbd };
	err = loop_watch(vbd->loop, &vbd->governor_watch, EPOLLIN);
	if (err)
		cpu_close(vbd->governor);
	return err;
}

void vbd_governor_close(struct vbd *vbd)
{
	loop_timer_clear(vbd->loop, &vbd->governor_timer);
	loop_unwatch(vbd->loop, &vbd->governor_watch);
	cpu_close(vbd->governor);
}

void vbd_governor_configure(struct vbd *vbd)
{
	const struct vbd_polling *polling = vbd_polling_now(vbd);
	struct cpu_price_settings settings = {
		.cap_pct = vbd_polling_cap(polling),
		.spend = polling->has_cap && polling->cap,
		.threshold_pct = polling->idle_threshold,
	};

	cpu_configure(vbd->governor, &settings);
}
