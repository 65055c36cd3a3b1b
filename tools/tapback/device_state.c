/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table.  CONNECTING and DISCONNECTING wait for their answer whatever
 * happens: a tapdisk does what it was asked to, also when nobody listens.
 */
#include "tools/tapback/device_state.h"

#include <xen/io/xenbus.h>

static const enum device_state next[NR_DEVICE_STATES][NR_DEVICE_EVENTS] = {
	[DEVICE_UNKNOWN] = {
		/* an old ring would be taken for the new one */
		[DEVICE_FE_INITIALISING] = DEVICE_DISCONNECTING,
		/* where tapback was restarted, it may be served already */
		[DEVICE_FE_READY] = DEVICE_PREPARING,
		[DEVICE_FE_CLOSING] = DEVICE_CLOSING,
		[DEVICE_FE_CLOSED] = DEVICE_DISCONNECTING,
		/* a guest that still uses it goes on until it closes */
		[DEVICE_UNPLUGGED] = DEVICE_CLOSING,
		[DEVICE_REMOVED] = DEVICE_DISCONNECTING,
	},
	[DEVICE_IDLE] = {
		[DEVICE_FE_INITIALISING] = DEVICE_ASKING,
		/* firmware does not wait for InitWait */
		[DEVICE_FE_READY] = DEVICE_PREPARING,
		[DEVICE_FE_CLOSING] = DEVICE_CLOSING,
		[DEVICE_FE_CLOSED] = DEVICE_CLOSED,
		[DEVICE_UNPLUGGED] = DEVICE_CLOSED,
		[DEVICE_REMOVED] = DEVICE_GONE,
	},
	[DEVICE_ASKING] = {
		[DEVICE_ASKED] = DEVICE_WAITING,
		[DEVICE_FAILED] = DEVICE_IDLE,
		[DEVICE_FE_CLOSING] = DEVICE_CLOSING,
		[DEVICE_FE_CLOSED] = DEVICE_CLOSED,
		[DEVICE_UNPLUGGED] = DEVICE_CLOSED,
		[DEVICE_REMOVED] = DEVICE_GONE,
	},
	[DEVICE_WAITING] = {
		[DEVICE_FE_READY] = DEVICE_PREPARING,
		[DEVICE_FE_CLOSING] = DEVICE_CLOSING,
		[DEVICE_FE_CLOSED] = DEVICE_CLOSED,
		[DEVICE_UNPLUGGED] = DEVICE_CLOSED,
		[DEVICE_LOST] = DEVICE_IDLE,
		[DEVICE_REMOVED] = DEVICE_GONE,
	},
	[DEVICE_PREPARING] = {
		[DEVICE_ASKED] = DEVICE_CONNECTING,
		[DEVICE_FAILED] = DEVICE_UNKNOWN,
		[DEVICE_FE_INITIALISING] = DEVICE_DISCONNECTING,
		[DEVICE_FE_CLOSING] = DEVICE_CLOSING,
		[DEVICE_FE_CLOSED] = DEVICE_DISCONNECTING,
		[DEVICE_UNPLUGGED] = DEVICE_DISCONNECTING,
		[DEVICE_REMOVED] = DEVICE_DISCONNECTING,
	},
	[DEVICE_CONNECTING] = {
		[DEVICE_SERVED] = DEVICE_CONNECTED,
		[DEVICE_REFUSED] = DEVICE_CLOSING,
		[DEVICE_STALE] = DEVICE_DISCONNECTING,
		[DEVICE_FAILED] = DEVICE_UNKNOWN,
	},
	[DEVICE_CONNECTED] = {
		/* a crash kernel, or Windows, in a hurry */
		[DEVICE_FE_INITIALISING] = DEVICE_DISCONNECTING,
		[DEVICE_FE_RENEWED] = DEVICE_DISCONNECTING,
		[DEVICE_FE_CLOSING] = DEVICE_CLOSING,
		/* grub does not say Closing */
		[DEVICE_FE_CLOSED] = DEVICE_DISCONNECTING,
		[DEVICE_LOST] = DEVICE_CLOSING,
		[DEVICE_REMOVED] = DEVICE_DISCONNECTING,
	},
	[DEVICE_CLOSING] = {
		[DEVICE_FE_INITIALISING] = DEVICE_DISCONNECTING,
		[DEVICE_FE_RENEWED] = DEVICE_DISCONNECTING,
		[DEVICE_FE_CLOSED] = DEVICE_DISCONNECTING,
		[DEVICE_REMOVED] = DEVICE_DISCONNECTING,
	},
	[DEVICE_DISCONNECTING] = {
		[DEVICE_DISCONNECTED] = DEVICE_IDLE,
		/* the guest must not have its pages back before */
		[DEVICE_RESTED] = DEVICE_DISCONNECTING,
		/* there is nobody to tell */
		[DEVICE_REMOVED] = DEVICE_GONE,
	},
	[DEVICE_CLOSED] = {
		[DEVICE_FE_INITIALISING] = DEVICE_ASKING,
		[DEVICE_FE_READY] = DEVICE_PREPARING,
		[DEVICE_FE_CLOSING] = DEVICE_CLOSING,
		/* show it again if the toolstack wrote over it */
		[DEVICE_FE_CLOSED] = DEVICE_CLOSED,
		[DEVICE_UNPLUGGED] = DEVICE_CLOSED,
		[DEVICE_REMOVED] = DEVICE_GONE,
	},
};

static const struct {
	const char *name;
	int shows;
} states[NR_DEVICE_STATES] = {
	[DEVICE_NONE] = { "none", -1 },
	[DEVICE_UNKNOWN] = { "unknown", -1 },
	[DEVICE_IDLE] = { "idle", -1 },
	[DEVICE_ASKING] = { "asking", -1 },
	[DEVICE_WAITING] = { "waiting", XenbusStateInitWait },
	[DEVICE_PREPARING] = { "preparing", -1 },
	[DEVICE_CONNECTING] = { "connecting", -1 },
	[DEVICE_CONNECTED] = { "connected", XenbusStateConnected },
	[DEVICE_CLOSING] = { "closing", XenbusStateClosing },
	[DEVICE_DISCONNECTING] = { "disconnecting", -1 },
	[DEVICE_CLOSED] = { "closed", XenbusStateClosed },
	[DEVICE_GONE] = { "gone", -1 },
};

enum device_state device_state_next(enum device_state state,
				    enum device_event event)
{
	return next[state][event];
}

int device_state_shows(enum device_state state)
{
	return states[state].shows;
}

const char *device_state_name(enum device_state state)
{
	return states[state].name;
}
