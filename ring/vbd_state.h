/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a virtual disk as the toolstack sees it.  No guest moves it.
 */
#pragma once

#include <stdint.h>

enum vbd_state {
	VBD_STATE_NONE, /* in the table: not now */
	VBD_STATE_EMPTY, /* no image */
	VBD_STATE_OPEN,
	VBD_STATE_PAUSING, /* requests taken before are being finished */
	VBD_STATE_PAUSED, /* image closed, its name kept */
	VBD_STATE_RESUME_FAILED, /* paused, and could not be resumed */
	VBD_STATE_CLOSING, /* rings disconnected, waiting for their I/O */
	NR_VBD_STATES
};

enum vbd_state_event {
	VBD_EV_OPENED,
	VBD_EV_PAUSE,
	VBD_EV_QUIET, /* every ring idle or gone, image closed */
	VBD_EV_RESUMED,
	VBD_EV_RESUME_FAILED,
	VBD_EV_CLOSE,
	VBD_EV_FORCE, /* close without waiting */
	NR_VBD_STATE_EVENTS
};

/* VBD_STATE_NONE if @event is not allowed in @state. */
enum vbd_state vbd_state_next(enum vbd_state state, enum vbd_state_event event);

const char *vbd_state_name(enum vbd_state state);

/*
 * The word that list prints (upstream's drivers/tapdisk-vbd.h): 0x02 closed,
 * 0x04 quiesce requested, 0x08 quiesced, 0x10 pause requested, 0x20 paused,
 * 0x40 shutdown requested, 0x200 resume failed.  Readers compare it with
 * "0x2a" for paused.  An EMPTY vbd keeps the word it was closed with, which is
 * the caller's to remember: vbd_state_closed_word.
 */
uint32_t vbd_state_bits(enum vbd_state state);

/* What an EMPTY vbd shows that was closed from @state. */
uint32_t vbd_state_closed_word(enum vbd_state from);
