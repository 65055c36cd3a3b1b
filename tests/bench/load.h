/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load on a frontend: who sends which I/O when, and what came of it.
 *
 * Three ways to decide when.  Closed loop: each of qd users sends an I/O,
 * waits for it, thinks, and so on.  Burst: N at once, wait for all, think; or
 * only every so often N, and a lone I/O in between.
 * Rate: I/Os become due at fixed times whatever happens, and their latency
 * counts from then.  An I/O above what one request carries goes out as
 * several; what does not fit the ring waits here.  A flush that is due lets
 * everything in flight end first, and counts neither as an I/O nor as thinking.
 *
 * Knows the guest's side of the ring only.  One thread.  Complains on stderr
 * about what a read brought back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "tests/bench/histogram.h"

struct frontend;
struct watchdog;
struct load;

enum load_mode {
	LOAD_RANDREAD,
	LOAD_RANDWRITE,
	LOAD_READ,
	LOAD_WRITE,
	LOAD_RANDRW,
	LOAD_DISCARD,
	NR_LOAD_MODES
};

#define LOAD_REQUEST_BYTES (44u * 1024)
#define LOAD_BLOCK_MAX (2u * 1024 * 1024)

struct load_options {
	enum load_mode mode;
	uint64_t block_bytes; /* a multiple of 512, at most LOAD_BLOCK_MAX */
	uint64_t size; /* I/Os stay below; at least a block */
	uint32_t depth; /* I/Os in flight */
	uint32_t burst; /* 0: no bursts */
	uint32_t burst_every; /* of so many batches one is a burst; 0: all */
	uint32_t rate; /* I/Os a second, 0: closed loop */
	uint32_t flush_every; /* I/Os, 0: never */
	uint64_t think_ns;
	bool think_exp; /* think_ns is the mean of an exponential */
	bool spin; /* how to think */
	bool verify;
	uint64_t runtime_ns;
};

struct load_result {
	uint64_t ios, flushes; /* answered */
	uint64_t late; /* rate: were due and never sent */
	uint64_t elapsed_ns;
	uint64_t thoughts, think_ns; /* achieved, summed */
	uint64_t io_errors, verify_errors;
	struct histogram latency; /* ns */
};

/* 0 or -ENOMEM.  The options are copied. */
int load_open(const struct load_options *options, struct frontend *f,
	      struct watchdog *watchdog, struct load **out);
void load_close(struct load *l);

/*
 * Write all of the region, run, read all of it back (the first and the last
 * only make sense with verify).  Errors of the disk are counted in the result;
 * returned are 0, -EINTR and -ESRCH of the watchdog, -EPROTO (the backend broke
 * a rule of the ring), -ETIMEDOUT (no answer for WATCHDOG_STALL_NS).
 */
int load_fill(struct load *l);
int load_run(struct load *l);
int load_read_back(struct load *l);

const struct load_result *load_result(const struct load *l);
