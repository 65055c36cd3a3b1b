/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block device whose reads, writes and flushes are blkif requests of a
 * session's guest.
 */
#pragma once

#include "tests/bench/block.h"

struct session;
struct watchdog;

struct block_ring {
	struct block block;
	struct session *session;
	struct watchdog *watchdog;
	int err; /* why the ring was given up, see watchdog_reason */
};

void block_ring_init(struct block_ring *ring, struct session *session,
		     struct watchdog *watchdog);
