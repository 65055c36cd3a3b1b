/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turn one guest-written ring slot into a request we can trust.
 *
 * The guest can rewrite its slot at any moment, so the caller passes a private
 * copy and nothing here touches shared memory.  512-byte sectors go in, bytes
 * come out.  No I/O and no allocation: the fuzzer calls this file directly.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "drivers/io.h"
#include "ring/abi.h"

#define PARSE_SEGMENTS_MAX BLKIF_MAX_SEGMENTS_PER_REQUEST

/* One piece of a guest page: bytes, offset + len <= 4096, len >= 512. */
struct parse_segment {
	uint32_t gref;
	uint16_t offset;
	uint16_t len;
};

/* A request that was checked.  See blkif.h for what the operations mean. */
struct parsed {
	uint64_t id; /* the guest's; nothing may be keyed by it */
	uint8_t wire_op; /* goes back in the response */
	bool flush_before; /* what was done before is made durable first */
	bool flush_after; /* its own data is made durable too */
	bool barrier; /* alone: after all before it, before all after it */
	bool has_data; /* there is an io to do, besides the flushes */
	enum io_op op; /* IO_READ, IO_WRITE, IO_DISCARD; if has_data */
	uint64_t offset; /* bytes */
	uint64_t len; /* bytes; the sum of the segments */
	unsigned nr_segments;
	struct parse_segment segments[PARSE_SEGMENTS_MAX];
};

/*
 * Check @slot and describe it in @out.  Whether it lies within the disk, and
 * whether that may be written, is the image's to say; here only what no disk
 * could hold is refused.
 *
 * Returns 0; -EINVAL if it is malformed (segments, a page's end, an offset
 * beyond 2^64 bytes, an empty discard), -EOPNOTSUPP if we do not know the
 * operation.  @out->id and @out->wire_op are set even then, so that the caller
 * can answer the guest.  Never logs.
 */
int parse_slot(const union abi_slot *slot, struct parsed *out);
