/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block device on the other side of a ring; see block_ring.h.
 *
 * An answer that says ERROR is the caller's to bear.  A ring without answers
 * is given up for good, because whatever comes late must not land in a later
 * caller's data.
 */
#include "tests/bench/block_ring.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "poll/clock.h"
#include "tests/bench/session.h"
#include "tests/bench/watchdog.h"
#include "tests/frontend.h"

#define REQUEST_BYTES (44u * 1024)

struct job {
	uint8_t op;
	uint64_t offset;
	uint8_t *data; /* a write only reads it */
	size_t len;
	size_t queued, answered; /* bytes; a flush counts as one */
	bool failed;
};

static struct block_ring *ring_of(struct block *block)
{
	return (struct block_ring *)block; /* its first member */
}

static size_t part_len(const struct job *job, size_t at)
{
	size_t left = job->len - at;

	return left < REQUEST_BYTES ? left : REQUEST_BYTES;
}

static void queue_parts(struct frontend *f, struct job *job)
{
	struct frontend_request request;
	size_t len;
	int tag;

	while (job->queued < job->len) {
		tag = frontend_next_tag(f);
		if (tag < 0)
			break;
		len = part_len(job, job->queued);
		if (job->op == BLKIF_OP_WRITE)
			memcpy(frontend_data(f, (unsigned)tag),
			       job->data + job->queued, len);
		frontend_fill(&request, job->op,
			      (job->offset + job->queued) / BLOCK_SECTOR,
			      job->op == BLKIF_OP_FLUSH_DISKCACHE ? 0 : len);
		request.user = job->queued;
		frontend_queue(f, &request);
		job->queued += len;
	}
	frontend_push(f);
}

static void answered(struct frontend *f, struct job *job,
		     const struct frontend_response *response)
{
	size_t len = part_len(job, response->user);

	if (response->status != BLKIF_RSP_OKAY)
		job->failed = true;
	else if (job->op == BLKIF_OP_READ)
		memcpy(job->data + response->user,
		       frontend_data(f, response->tag), len);
	job->answered += len;
}

static int do_job(struct block *block, struct job *job)
{
	struct block_ring *ring = ring_of(block);
	struct frontend *f = ring->session->frontend;
	uint64_t begin_ns = clock_ns();
	struct frontend_response response;
	int n, err;

	if (ring->err)
		return ring->err;
	while (job->answered < job->len) {
		if (job->queued < job->len)
			queue_parts(f, job);
		n = frontend_wait(f, WATCHDOG_SLICE_NS, &response);
		if (n > 0) {
			answered(f, job, &response);
			continue;
		}
		if (n != -ETIMEDOUT)
			return ring->err = n;
		err = watchdog_look(ring->watchdog, clock_ns());
		if (!err && clock_ns() > begin_ns + WATCHDOG_STALL_NS)
			err = -ETIMEDOUT;
		if (err)
			return ring->err = err;
	}
	return job->failed ? -EIO : 0;
}

static int ring_read(struct block *block, uint64_t offset, void *data,
		     size_t len)
{
	struct job job = {
		.op = BLKIF_OP_READ,
		.offset = offset,
		.data = data,
		.len = len,
	};

	return do_job(block, &job);
}

static int ring_write(struct block *block, uint64_t offset, const void *data,
		      size_t len)
{
	struct job job = {
		.op = BLKIF_OP_WRITE,
		.offset = offset,
		.data = (uint8_t *)data,
		.len = len,
	};

	return do_job(block, &job);
}

static int ring_flush(struct block *block)
{
	struct job job = { .op = BLKIF_OP_FLUSH_DISKCACHE, .len = 1 };

	return do_job(block, &job);
}

static const struct block_ops ring_ops = {
	.read = ring_read,
	.write = ring_write,
	.flush = ring_flush,
};

void block_ring_init(struct block_ring *ring, struct session *session,
		     struct watchdog *watchdog)
{
	*ring = (struct block_ring){
		.block = { .ops = &ring_ops,
			   .bytes = session->disk_bytes,
			   .physical = session->physical_block },
		.session = session,
		.watchdog = watchdog,
	};
}
