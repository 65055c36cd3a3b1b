/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One device's talk with its tapdisk, ours or a stock one: what it can, serve
 * this ring, stop, poll so; and what it tells by itself.
 *
 * One call at a time; none waits, each ends within the timeout.  What was the
 * guest's fault and what the tapdisk's is for the caller to tell, by refused.
 * Main thread only.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "tools/ctl/exchange.h"
#include "tools/ctl/hello.h"
#include "tools/tapback/frontend.h"

enum tap_call { TAP_NONE, TAP_ASK, TAP_CONNECT, TAP_DISCONNECT, TAP_POLL };

enum tap_event {
	TAP_RESIZED,
	TAP_RING_BROKEN,
	TAP_HUNG_UP, /* died, perhaps: ask it */
};

struct tap_polling {
	uint32_t duration_us; /* 0: do not poll */
	uint8_t idle_threshold;
};

struct tap {
	/* set by the owner before tap_init */
	struct loop *loop;
	uint32_t domid, devid;
	uint64_t timeout_ms; /* of each exchange */
	const char *guest; /* of the connect message: "xen" */
	void (*done)(void *arg, enum tap_call call, int err);
	void (*event)(void *arg, enum tap_event event);
	void *arg;

	/* to read */
	int pid; /* 0: none named yet */
	uint16_t minor;
	bool ours; /* knows messages 128 and up; after TAP_ASK */
	bool refused; /* the tapdisk said so itself; in done */
	struct hello disk; /* after TAP_ASK */
	enum tap_call call; /* under way */

	/* tap's own */
	struct exchange exchange;
	struct loop_watch events; /* fd -1: not open */
	char line[512];
	unsigned line_size;
};

void tap_init(struct tap *tap);
void tap_fini(struct tap *tap);

/* Talk to this one from here on; not during a call. */
void tap_point(struct tap *tap, int pid, uint16_t minor);

/*
 * Fill ours and disk, and listen to its events if it has any.  -ENODEV if it
 * does not have the disk or has not opened it; errors of client_call.
 */
void tap_ask(struct tap *tap);

/* Serve that ring.  -EALREADY if it serves this device; as above. */
void tap_connect(struct tap *tap, const struct frontend_keys *ring,
		 const struct tap_polling *polling);

/* A tapdisk that is gone, or never heard of the device, is no error. */
void tap_disconnect(struct tap *tap);

/* Ours only. */
void tap_poll(struct tap *tap, const struct tap_polling *polling);

/* Do not wait for the answer.  Harmless without a call. */
void tap_cancel(struct tap *tap);

/* Whether an error of a call says that the disk is gone for good. */
bool tap_is_gone(int err);
