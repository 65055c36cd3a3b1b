/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of ring_state.h. */
#include "ring/ring_state.h"

static const enum ring_state next[NR_RING_STATES][NR_RING_EVENTS] = {
	[RING_HELD] = { [RING_EV_RELEASE] = RING_RUNNING,
			[RING_EV_DISCONNECT] = RING_DRAINING },
	[RING_RUNNING] = { [RING_EV_HOLD] = RING_HELD,
			   [RING_EV_FAULT] = RING_BROKEN,
			   [RING_EV_DISCONNECT] = RING_DRAINING },
	[RING_BROKEN] = { [RING_EV_DISCONNECT] = RING_DRAINING },
	[RING_DRAINING] = { [RING_EV_IDLE] = RING_GONE },
};

enum ring_state ring_state_next(enum ring_state state, enum ring_event event)
{
	enum ring_state to = next[state][event];

	return to == RING_NONE ? state : to;
}

const char *ring_state_name(enum ring_state state)
{
	static const char *const names[NR_RING_STATES] = {
		[RING_NONE] = "none",	      [RING_HELD] = "held",
		[RING_RUNNING] = "running",   [RING_BROKEN] = "broken",
		[RING_DRAINING] = "draining", [RING_GONE] = "gone",
	};

	return names[state];
}
