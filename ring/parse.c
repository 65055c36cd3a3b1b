/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks of parse.h.  Sizes and meanings: Xen's public io/blkif.h.
 */
#include <errno.h>
#include "ring/parse.h"

enum {
	SECTOR_SHIFT = 9,
	SECTOR_SIZE = 1 << SECTOR_SHIFT,
	SECTORS_PER_PAGE = 8, /* 4096-byte Xen pages, always */
};

static int to_bytes(uint64_t sectors, uint64_t *out)
{
	if (sectors > UINT64_MAX >> SECTOR_SHIFT)
		return -EINVAL;
	*out = sectors << SECTOR_SHIFT;
	return 0;
}

/* Sets offset, len and segments. */
static int parse_segments(const struct blkif_request *rw, struct parsed *out)
{
	if (rw->nr_segments > PARSE_SEGMENTS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < rw->nr_segments; i++) {
		const struct blkif_request_segment *seg = &rw->seg[i];

		if (seg->first_sect > seg->last_sect ||
		    seg->last_sect >= SECTORS_PER_PAGE)
			return -EINVAL;
		out->segments[i] = (struct parse_segment){
			.gref = seg->gref,
			.offset = seg->first_sect * SECTOR_SIZE,
			.len = (seg->last_sect - seg->first_sect + 1) *
			       SECTOR_SIZE,
		};
		out->len += out->segments[i].len;
	}
	out->nr_segments = rw->nr_segments;
	return to_bytes(rw->sector_number, &out->offset);
}

static int parse_discard(const struct blkif_request_discard *discard,
			 struct parsed *out)
{
	int err;

	/*
	 * BLKIF_DISCARD_SECURE is a request for more than we offer; blkif.h
	 * has it ignored where discard-secure is not advertised.
	 */
	out->op = IO_DISCARD;
	if (discard->nr_sectors == 0)
		return -EINVAL;
	err = to_bytes(discard->nr_sectors, &out->len);
	if (err)
		return err;
	err = to_bytes(discard->sector_number, &out->offset);
	out->has_data = !err;
	return err;
}

int parse_slot(const union abi_slot *slot, struct parsed *out)
{
	const struct blkif_request *rw = &slot->rw;
	bool may_be_empty = false;
	int err;

	*out = (struct parsed){ .id = rw->id, .wire_op = rw->operation };
	switch (rw->operation) {
	case BLKIF_OP_READ:
		out->op = IO_READ;
		break;
	case BLKIF_OP_WRITE:
		out->op = IO_WRITE;
		break;
	case BLKIF_OP_WRITE_BARRIER:
	case BLKIF_OP_FLUSH_DISKCACHE:
		/*
		 * Data behind a flush is a commit record as often as not: what
		 * it commits must be durable first, and it before the answer.
		 */
		out->op = IO_WRITE;
		out->barrier = rw->operation == BLKIF_OP_WRITE_BARRIER;
		out->flush_before = true;
		out->flush_after = rw->nr_segments != 0;
		may_be_empty = true;
		break;
	case BLKIF_OP_DISCARD:
		return parse_discard(&slot->discard, out);
	default:
		return -EOPNOTSUPP;
	}
	if (rw->nr_segments == 0) {
		/* an empty flush names no place, whatever sector_number says */
		return may_be_empty ? 0 : -EINVAL;
	}
	err = parse_segments(rw, out);
	out->has_data = !err;
	return err;
}
