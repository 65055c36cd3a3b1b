/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of a load share: load.c decides when, transfer.c gets I/Os
 * through the ring, sweep.c goes over the whole region.  Nobody else includes
 * it.
 */
#pragma once

#include "tests/bench/blocks.h"
#include "tests/bench/load.h"
#include "tests/bench/stamps.h"

struct frontend_response;

/* One I/O, or the flush. */
struct load_io {
	uint8_t op; /* BLKIF_OP_* */
	bool active;
	bool failed;
	uint64_t block;
	uint64_t offset, len; /* bytes */
	uint32_t generation; /* of what a write carries */
	uint32_t parts, queued, answered; /* requests */
	uint64_t begin_ns; /* sent, or due at a rate */
	uint64_t end_ns; /* the last one ended */
	uint64_t due_ns; /* end of thinking */
};

struct load {
	struct load_options options;
	struct frontend *frontend;
	struct watchdog *watchdog;
	struct blocks blocks;
	struct stamps stamps;
	struct load_result result;
	uint64_t seed;

	struct load_io *ios; /* one for each user, then the flush */
	uint32_t nr_ios; /* without the flush */
	uint32_t active; /* of these */
	/* those with requests that the ring had no room for, first come first
	 * served: indices into ios */
	uint32_t *waiting;
	uint32_t waiting_head, nr_waiting;
	uint64_t progress_ns; /* last answer */

	uint32_t batch_left; /* burst: still to be sent of this one */
	uint64_t batch_due_ns;
	uint64_t batches; /* begun */
	uint64_t start_ns; /* rate: when arrival 0 was due */
	uint64_t arrivals; /* sent so far */
	uint32_t since_flush; /* I/Os sent */
};

/* ---- transfer.c ---- */

/* Have @io sent: what fits now, the rest as the ring has room. */
void transfer_start(struct load *l, struct load_io *io);

/* Put on the ring what fits, and publish it. */
void transfer_pump(struct load *l);

/*
 * Account for one answer.  Returns the I/O if that was its last, else NULL;
 * -EPROTO through @err if no such request was sent.
 */
struct load_io *transfer_answer(struct load *l,
				const struct frontend_response *response,
				int *err);

/* One sector or more is not as it must be: count, and say so a few times. */
void transfer_check(struct load *l, const void *data, uint64_t offset,
		    uint64_t len);

/* After @now_ns passed without an answer: 0, or why to give up. */
int transfer_stalled(struct load *l, uint64_t now_ns);
