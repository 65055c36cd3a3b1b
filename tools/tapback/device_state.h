/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a device, as one table.  Pure.
 *
 * What is in xenstore decides, not the order in which it got there: after each
 * change everything that matters is looked at again, and makes one event.
 */
#pragma once

enum device_state {
	DEVICE_NONE, /* an empty cell: not now */
	DEVICE_UNKNOWN, /* found: its tapdisk may serve a ring of it */
	DEVICE_IDLE, /* no ring */
	DEVICE_ASKING, /* what the tapdisk can do */
	DEVICE_WAITING, /* for the frontend; shows InitWait */
	DEVICE_PREPARING, /* the frontend is ready: asking again */
	DEVICE_CONNECTING,
	DEVICE_CONNECTED, /* shows Connected */
	DEVICE_CLOSING, /* shows Closing; the ring, if any, is served */
	DEVICE_DISCONNECTING,
	DEVICE_CLOSED, /* shows Closed */
	DEVICE_GONE, /* to be forgotten */
	NR_DEVICE_STATES,
};

enum device_event {
	DEVICE_NOTHING,
	/* what the frontend does */
	DEVICE_FE_INITIALISING, /* 1 */
	DEVICE_FE_READY, /* 3 or 4 */
	DEVICE_FE_RENEWED, /* ready again, and with another ring than before */
	DEVICE_FE_CLOSING, /* 5 */
	DEVICE_FE_CLOSED, /* 6, or it is gone, or its domain is */
	/* what the toolstack does */
	DEVICE_UNPLUGGED, /* wants it closed; the frontend still uses it */
	DEVICE_REMOVED,
	/* what became of a call to the tapdisk */
	DEVICE_ASKED,
	DEVICE_SERVED,
	DEVICE_REFUSED, /* the frontend's fault: not again with these keys */
	DEVICE_STALE, /* it serves an older ring of the device */
	DEVICE_FAILED, /* the tapdisk's fault: again later */
	DEVICE_DISCONNECTED,
	DEVICE_RESTED, /* later is now */
	DEVICE_LOST, /* the tapdisk is dead */
	NR_DEVICE_EVENTS,
};

/* DEVICE_NONE if nothing follows. */
enum device_state device_state_next(enum device_state state,
				    enum device_event event);

/* The XenbusState to show in @state; -1 for what was shown before. */
int device_state_shows(enum device_state state);

/* For the log. */
const char *device_state_name(enum device_state state);
