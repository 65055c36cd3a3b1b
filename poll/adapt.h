/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adaptive mode between the wait engine and the policies: which of them a wait
 * belongs to, and what it learned.  What the guest takes to think and what the
 * device takes to answer are learned apart.  Reads no clock.  Never logs.
 */
#pragma once

#include "poll/device_wait.h"
#include "poll/policy.h"

/* What a wait is for. */
enum wait_kind {
	WAIT_NOBODY, /* a guest can send nothing: sleep */
	WAIT_GUEST, /* nothing is in flight: its next request */
	WAIT_DEVICE, /* the one I/O in flight */
	WAIT_BOTH, /* several in flight */
};

/*
 * What adaptive mode does and has learned, for people.  Written by the waiting
 * thread only; others read it with adapt_shown_read.
 */
struct adapt_shown {
	uint64_t price; /* Q16; the last wait's, and never below rho */
	uint64_t rho; /* Q16 */
	struct {
		uint64_t waits; /* decided */
		uint64_t nap_ns; /* of the last one; both 0: block */
		uint64_t spin_ns;
		const char *decider; /* NULL: none was decided yet */
	} of[3]; /* guest, device, both: wait_kind less WAIT_GUEST */
};

struct adapt {
	struct policy guest, both;
	struct device_wait device;
	/* the wait in progress, or that has just ended */
	enum wait_kind kind;
	bool open; /* begun, and not yet learned from */
	bool missed; /* it slept */
	uint64_t start_ns, end_ns, spun_ns;
	int64_t delay_ns; /* run_delay of the wake, or POLICY_DELAY_UNKNOWN */
	uint32_t price; /* last given to the policies */
	uint32_t
		quick; /* of 16: recent waits that ended while looks are free */
	uint32_t sleeps; /* to sample the delay of some */
	struct adapt_shown shown;
};

/* @w0_ns and @cw_ns as policy_init. */
void adapt_init(struct adapt *adapt, uint64_t max_ns, uint32_t price,
		uint64_t w0_ns, uint64_t cw_ns);
void adapt_limit(struct adapt *adapt, uint64_t max_ns);
void adapt_costs(struct adapt *adapt, uint64_t w0_ns, uint64_t cw_ns);

/*
 * A wait starts at @now: how to do it at this @price (Q16).  Closed before, or
 * forgotten.
 */
struct device_wait_plan adapt_begin(struct adapt *adapt, enum wait_kind kind,
				    enum policy_op op, uint32_t price,
				    uint64_t now);

/*
 * The wait ended in work; the one that follows is @next.  That tells what
 * ended it: with more in flight than before it was no completion, and nothing
 * is learned about the device.
 */
void adapt_learn(struct adapt *adapt, enum wait_kind next);

/* Any thread: a copy of which no field is torn. */
void adapt_shown_read(const struct adapt *from, struct adapt_shown *to);
