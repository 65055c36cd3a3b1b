/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole region once, in order, with as much in flight as the ring holds:
 * what --verify does before and after.  Not measured.
 */
#include <errno.h>
#include <inttypes.h>

#include "poll/clock.h"
#include "tests/bench/load_state.h"
#include "tests/bench/watchdog.h"
#include "tests/frontend.h"

#define FILLED 1 /* the generation */

static uint64_t region_bytes(const struct load *l)
{
	return l->stamps.nr_blocks * l->options.block_bytes;
}

static uint32_t chunk_len(const struct load *l, uint64_t offset)
{
	uint64_t left = region_bytes(l) - offset;

	return left < LOAD_REQUEST_BYTES ? (uint32_t)left : LOAD_REQUEST_BYTES;
}

/* False if the ring is full. */
static bool queue_chunk(struct load *l, uint8_t op, uint64_t offset)
{
	int tag = frontend_next_tag(l->frontend);
	struct frontend_request request;

	if (tag < 0)
		return false;
	if (op == BLKIF_OP_WRITE)
		stamps_fill(&l->stamps,
			    frontend_data(l->frontend, (unsigned)tag),
			    offset / 512, chunk_len(l, offset), FILLED);
	frontend_fill(&request, op, offset / 512, chunk_len(l, offset));
	request.user = offset;
	return frontend_queue(l->frontend, &request) >= 0;
}

static void chunk_done(struct load *l, const struct frontend_response *r)
{
	if (r->status != BLKIF_RSP_OKAY)
		l->result.io_errors++;
	else if (r->op == BLKIF_OP_READ)
		transfer_check(l, frontend_data(l->frontend, r->tag), r->user,
			       chunk_len(l, r->user));
}

static int sweep(struct load *l, uint8_t op)
{
	uint64_t end = region_bytes(l), next = 0, done = 0, now_ns;
	struct frontend_response response;
	int n, err;

	l->progress_ns = clock_ns();
	while (done < end) {
		while (next < end && queue_chunk(l, op, next))
			next += chunk_len(l, next);
		frontend_push(l->frontend);
		n = frontend_wait(l->frontend, WATCHDOG_SLICE_NS, &response);
		now_ns = clock_ns();
		if (n > 0)
			l->progress_ns = now_ns;
		else if (n != -ETIMEDOUT)
			return n;
		for (; n > 0; n = frontend_take(l->frontend, &response)) {
			chunk_done(l, &response);
			done += chunk_len(l, response.user);
		}
		err = watchdog_look(l->watchdog, now_ns);
		if (!err && now_ns > l->progress_ns + WATCHDOG_STALL_NS)
			err = -ETIMEDOUT;
		if (err)
			return err;
	}
	return 0;
}

int load_fill(struct load *l)
{
	uint64_t i, errors = l->result.io_errors;
	int err = sweep(l, BLKIF_OP_WRITE);

	for (i = 0; !err && i < l->stamps.nr_blocks; i++) {
		stamps_written(&l->stamps, i, FILLED);
		if (l->result.io_errors != errors)
			stamps_unsure(&l->stamps, i);
	}
	return err;
}

int load_read_back(struct load *l)
{
	return sweep(l, BLKIF_OP_READ);
}
