/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a ring.  A guest can move only its own ring, and only to BROKEN;
 * everything else is done to it by the toolstack or by the end of I/O.
 */
#pragma once

#include <stdbool.h>

enum ring_state {
	RING_NONE, /* in the table: not now */
	RING_HELD, /* connected, takes no request: paused, or another drains */
	RING_RUNNING,
	RING_BROKEN, /* the guest broke a rule; what was taken is answered */
	RING_DRAINING, /* disconnected, I/O still in flight, never answered */
	RING_GONE, /* nothing left to do */
	NR_RING_STATES
};

enum ring_event {
	RING_EV_HOLD,
	RING_EV_RELEASE, /* image open, no predecessor draining */
	RING_EV_FAULT,
	RING_EV_DISCONNECT,
	RING_EV_IDLE, /* no I/O in flight */
	NR_RING_EVENTS
};

/* Where @event leads from @state: @state itself if it means nothing there. */
enum ring_state ring_state_next(enum ring_state state, enum ring_event event);

const char *ring_state_name(enum ring_state state);
