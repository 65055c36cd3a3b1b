/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether to do a lone request at once, in one system call that blocks, or to
 * submit it and wait for it as for any other.
 *
 * Where a call costs a few microseconds (page cache, tmpfs) at once is always
 * cheaper.  On media that sleep it saves system calls but not latency, so there
 * it is for who would have slept anyway.  It is blind to the ring meanwhile:
 * when calls keep returning to a ring that has filled, stop for a while.
 *
 * Pure: it is told times and reads no clock.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/policy.h"

/* The user's choice. */
enum sync_mode {
	SYNC_AUTO, /* at once where that is quicker */
	SYNC_OFF, /* never at once */
	SYNC_ON, /* always: to measure the choice by */
	NR_SYNC_MODES
};

struct sync {
	struct sync_op {
		uint32_t mean_ns; /* of the calls that were timed, 1/8 decay */
		uint32_t timed; /* how many, up to enough */
		uint32_t since; /* requests since the last timed call */
	} ops[NR_POLICY_OPS];
	uint32_t regret; /* of 4096: calls that returned to a filled ring */
	uint32_t pause; /* requests until calls are tried again */
	enum sync_mode mode;
};

/* How to do one lone request. */
enum sync_way {
	SYNC_LATER, /* submit it */
	SYNC_NOW, /* at once */
	SYNC_TIMED, /* at once, and tell sync_took how long it was */
};

/*
 * @spins: waiting for it would be spinning.  At most every 16th call is timed
 * where they are fast; every 1024th request tries one where they are not.
 */
enum sync_way sync_choose(struct sync *sync, enum policy_op op, bool spins);

/* A timed call of @op took @ns. */
void sync_took(struct sync *sync, enum policy_op op, uint64_t ns);

/* A call returned; @filled: requests have come meanwhile. */
void sync_returned(struct sync *sync, bool filled);
