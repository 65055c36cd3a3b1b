/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/Os through the ring, in as many requests as they take; see load_state.h.
 * Looks at no clock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/bench/load_state.h"
#include "tests/bench/watchdog.h"
#include "tests/frontend.h"

#define COMPLAINTS_MAX 5

static uint32_t part_len(const struct load_io *io, uint32_t part)
{
	uint64_t left = io->len - (uint64_t)part * LOAD_REQUEST_BYTES;

	return left < LOAD_REQUEST_BYTES ? (uint32_t)left : LOAD_REQUEST_BYTES;
}

static uint32_t parts_of(const struct load_io *io)
{
	/* a discard says how many sectors in one word, a flush has no data */
	if (io->op == BLKIF_OP_DISCARD || io->op == BLKIF_OP_FLUSH_DISKCACHE)
		return 1;
	return (uint32_t)((io->len + LOAD_REQUEST_BYTES - 1) /
			  LOAD_REQUEST_BYTES);
}

void transfer_start(struct load *l, struct load_io *io)
{
	uint32_t tail = (l->waiting_head + l->nr_waiting) % (l->nr_ios + 1);

	io->active = true;
	io->failed = false;
	io->parts = parts_of(io);
	io->queued = 0;
	io->answered = 0;
	l->active++;
	l->waiting[tail] = (uint32_t)(io - l->ios);
	l->nr_waiting++;
}

/* False if the ring is full. */
static bool queue_part(struct load *l, struct load_io *io)
{
	uint32_t part = io->queued;
	uint64_t sector =
		io->offset / 512 + (uint64_t)part * (LOAD_REQUEST_BYTES / 512);
	size_t len = io->parts == 1 ? io->len : part_len(io, part);
	int tag = frontend_next_tag(l->frontend);
	struct frontend_request request;

	if (tag < 0)
		return false;
	if (io->op == BLKIF_OP_WRITE && l->options.verify)
		stamps_fill(&l->stamps,
			    frontend_data(l->frontend, (unsigned)tag), sector,
			    len, io->generation);
	frontend_fill(&request, io->op, sector, len);
	request.user = (uint64_t)(io - l->ios) << 32 | part;
	if (frontend_queue(l->frontend, &request) < 0)
		return false;
	io->queued++;
	return true;
}

void transfer_pump(struct load *l)
{
	bool queued = false;
	struct load_io *io;

	while (l->nr_waiting) {
		io = &l->ios[l->waiting[l->waiting_head]];
		if (!queue_part(l, io))
			break;
		queued = true;
		if (io->queued == io->parts) {
			l->waiting_head =
				(l->waiting_head + 1) % (l->nr_ios + 1);
			l->nr_waiting--;
		}
	}
	if (queued)
		frontend_push(l->frontend);
}

void transfer_check(struct load *l, const void *data, uint64_t offset,
		    uint64_t len)
{
	struct stamps_found found;
	uint64_t sector;
	unsigned wrong;

	wrong = stamps_check(&l->stamps, data, offset / 512, len, &sector,
			     &found);
	if (wrong && l->result.verify_errors < COMPLAINTS_MAX)
		fprintf(stderr,
			"verify: sector %" PRIu64 ": want generation %" PRIu32
			" found %s sector %" PRIu64 " generation %" PRIu64
			"%s\n",
			sector,
			stamps_generation(&l->stamps,
					  sector / l->stamps.block_sect),
			found.magic == STAMPS_MAGIC ? "stamp:" : "no stamp:",
			found.sector, found.generation,
			found.salt == l->stamps.salt ? "" : " of another run");
	l->result.verify_errors += wrong;
}

struct load_io *transfer_answer(struct load *l,
				const struct frontend_response *response,
				int *err)
{
	uint64_t index = response->user >> 32;
	uint32_t part = (uint32_t)response->user;
	struct load_io *io;

	if (index > l->nr_ios || !l->ios[index].active ||
	    part >= l->ios[index].queued) {
		*err = -EPROTO;
		return NULL;
	}
	io = &l->ios[index];
	if (response->status != BLKIF_RSP_OKAY)
		io->failed = true;
	else if (io->op == BLKIF_OP_READ && l->options.verify)
		transfer_check(l, frontend_data(l->frontend, response->tag),
			       io->offset + (uint64_t)part * LOAD_REQUEST_BYTES,
			       part_len(io, part));
	if (++io->answered < io->parts)
		return NULL;
	io->active = false;
	l->active--;
	if (io->failed)
		l->result.io_errors++;
	return io;
}

int transfer_stalled(struct load *l, uint64_t now_ns)
{
	int err = watchdog_look(l->watchdog, now_ns);

	if (!err && l->active && now_ns > l->progress_ns + WATCHDOG_STALL_NS)
		err = -ETIMEDOUT;
	return err;
}
