/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of vbd_state.h. */
#include "ring/vbd_state.h"

enum {
	WORD_CLOSED = 0x02,
	WORD_QUIESCE_REQUESTED = 0x04,
	WORD_QUIESCED = 0x08,
	WORD_PAUSE_REQUESTED = 0x10,
	WORD_PAUSED = 0x20,
	WORD_SHUTDOWN_REQUESTED = 0x40,
	WORD_RESUME_FAILED = 0x200,
	WORD_AT_REST = WORD_CLOSED | WORD_QUIESCED | WORD_PAUSED,
};

static const enum vbd_state next[NR_VBD_STATES][NR_VBD_STATE_EVENTS] = {
	[VBD_STATE_EMPTY] = { [VBD_EV_OPENED] = VBD_STATE_OPEN },
	[VBD_STATE_OPEN] = { [VBD_EV_PAUSE] = VBD_STATE_PAUSING,
			     [VBD_EV_CLOSE] = VBD_STATE_CLOSING,
			     [VBD_EV_FORCE] = VBD_STATE_EMPTY },
	[VBD_STATE_PAUSING] = { [VBD_EV_QUIET] = VBD_STATE_PAUSED,
				[VBD_EV_CLOSE] = VBD_STATE_CLOSING,
				[VBD_EV_FORCE] = VBD_STATE_EMPTY },
	[VBD_STATE_PAUSED] = { [VBD_EV_RESUMED] = VBD_STATE_OPEN,
			       [VBD_EV_RESUME_FAILED] = VBD_STATE_RESUME_FAILED,
			       [VBD_EV_CLOSE] = VBD_STATE_CLOSING,
			       [VBD_EV_FORCE] = VBD_STATE_EMPTY },
	[VBD_STATE_RESUME_FAILED] = { [VBD_EV_RESUMED] = VBD_STATE_OPEN,
				      [VBD_EV_RESUME_FAILED] =
					      VBD_STATE_RESUME_FAILED,
				      [VBD_EV_CLOSE] = VBD_STATE_CLOSING,
				      [VBD_EV_FORCE] = VBD_STATE_EMPTY },
	[VBD_STATE_CLOSING] = { [VBD_EV_QUIET] = VBD_STATE_EMPTY,
				[VBD_EV_FORCE] = VBD_STATE_EMPTY },
};

static const uint32_t words[NR_VBD_STATES] = {
	[VBD_STATE_PAUSING] = WORD_QUIESCE_REQUESTED | WORD_PAUSE_REQUESTED,
	[VBD_STATE_PAUSED] = WORD_AT_REST,
	[VBD_STATE_RESUME_FAILED] = WORD_AT_REST | WORD_RESUME_FAILED,
	[VBD_STATE_CLOSING] = WORD_SHUTDOWN_REQUESTED,
};

enum vbd_state vbd_state_next(enum vbd_state state, enum vbd_state_event event)
{
	return next[state][event];
}

const char *vbd_state_name(enum vbd_state state)
{
	static const char *const names[NR_VBD_STATES] = {
		[VBD_STATE_NONE] = "none",
		[VBD_STATE_EMPTY] = "empty",
		[VBD_STATE_OPEN] = "open",
		[VBD_STATE_PAUSING] = "pausing",
		[VBD_STATE_PAUSED] = "paused",
		[VBD_STATE_RESUME_FAILED] = "resume failed",
		[VBD_STATE_CLOSING] = "closing",
	};

	return names[state];
}

uint32_t vbd_state_bits(enum vbd_state state)
{
	return words[state];
}

uint32_t vbd_state_closed_word(enum vbd_state from)
{
	if (from == VBD_STATE_PAUSED || from == VBD_STATE_RESUME_FAILED)
		return WORD_AT_REST;
	return WORD_CLOSED;
}
