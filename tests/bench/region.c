/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file in a fixed region of a block device; see region.h.
 */
#include "tests/bench/region.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "tests/bench/random.h"

#define MAGIC UINT64_C(0x6e6f69676572626b) /* "kbregion" */
#define PLACE 4096u /* from one header to the other */
#define ZERO_CHUNK 4096u

/* On the device, little-endian; the rest of the sector is zero. */
struct header {
	uint64_t magic;
	uint64_t sequence;
	uint64_t exists;
	uint64_t length;
	uint64_t start; /* where it was written: a copied one is no header */
	uint64_t checksum;
	uint8_t rest[BLOCK_SECTOR - 48];
};
_Static_assert(sizeof(struct header) == BLOCK_SECTOR, "a sector");

static uint64_t checksum(const struct header *h)
{
	return random_mix(
		le64toh(h->sequence) ^
		random_mix(le64toh(h->exists) ^
			   random_mix(le64toh(h->length) ^
				      random_mix(le64toh(h->start)))));
}

static bool is_header(const struct region *r, const struct header *h)
{
	return le64toh(h->magic) == MAGIC && le64toh(h->start) == r->start &&
	       le64toh(h->checksum) == checksum(h) &&
	       le64toh(h->length) <= r->bytes - REGION_DATA;
}

int region_open(struct region *r, struct block *block, uint64_t start,
		uint64_t bytes)
{
	struct header h;
	unsigned place;
	int err;

	memset(r, 0, offsetof(struct region, window));
	r->block = block;
	r->start = start;
	r->bytes = bytes;
	for (place = 0; place < 2; place++) {
		err = block->ops->read(block, start + place * PLACE, &h,
				       sizeof(h));
		if (err)
			return err;
		if (!is_header(r, &h) || le64toh(h.sequence) <= r->sequence)
			continue;
		r->sequence = le64toh(h.sequence);
		r->exists = le64toh(h.exists);
		r->length = le64toh(h.length);
	}
	return 0;
}

static int write_header(struct region *r)
{
	struct header h = {
		.magic = htole64(MAGIC),
		.sequence = htole64(r->sequence + 1),
		.exists = htole64(r->exists),
		.length = htole64(r->length),
		.start = htole64(r->start),
	};
	int err = 0;

	h.checksum = htole64(checksum(&h));
	/* the other place must be good before this one may be torn */
	if (r->header_loose)
		err = r->block->ops->flush(r->block);
	if (err)
		return err;
	err = r->block->ops->write(r->block,
				   r->start + (r->sequence + 1) % 2 * PLACE, &h,
				   sizeof(h));
	if (err)
		return err;
	r->sequence++;
	r->header_dirty = false;
	r->header_loose = true;
	return 0;
}

static int flush(struct region *r)
{
	int err = r->block->ops->flush(r->block);

	if (!err)
		r->header_loose = false;
	return err;
}

/* ---- the window ---- */

static uint64_t down(uint64_t offset)
{
	return offset / BLOCK_SECTOR * BLOCK_SECTOR;
}

static uint64_t up(uint64_t offset)
{
	return down(offset + BLOCK_SECTOR - 1);
}

static int device_read(struct region *r, uint64_t offset, void *data,
		       size_t len)
{
	return r->block->ops->read(r->block, r->start + REGION_DATA + offset,
				   data, len);
}

static void clear_window(struct region *r, uint64_t base)
{
	r->base = base;
	r->valid = 0;
	r->dirty_from = 0;
	r->dirty_to = 0;
}

/*
 * Complete the sector in which the window ends, if it is about to be written:
 * with what the file holds there, or zeros past its end.
 */
static int complete_tail(struct region *r)
{
	uint32_t at = (uint32_t)down(r->valid), end = (uint32_t)up(r->valid);
	uint8_t sector[BLOCK_SECTOR] = { 0 };
	uint64_t known = r->length - r->base;
	int err;

	if (r->valid == end || r->dirty_to <= at)
		return 0;
	if (known > r->valid) {
		err = device_read(r, r->base + at, sector, sizeof(sector));
		if (err)
			return err;
	}
	memcpy(r->window + r->valid, sector + (r->valid - at), end - r->valid);
	if (known > r->valid)
		r->valid = known < end ? (uint32_t)known : end;
	return 0;
}

static int write_window(struct region *r)
{
	uint32_t end;
	int err;

	if (r->dirty_from == r->dirty_to)
		return 0;
	err = complete_tail(r);
	if (err)
		return err;
	end = (uint32_t)up(r->dirty_to);
	err = r->block->ops->write(
		r->block, r->start + REGION_DATA + r->base + r->dirty_from,
		r->window + r->dirty_from, end - r->dirty_from);
	if (err)
		return err;
	r->dirty_from = 0;
	r->dirty_to = 0;
	return 0;
}

/* Begin a window at @offset, with the part of its sector that comes before. */
static int move_window(struct region *r, uint64_t offset)
{
	uint64_t base = down(offset), known = r->length - base;
	uint32_t before = (uint32_t)(offset - base);
	int err;

	err = write_window(r);
	if (err)
		return err;
	if (before && base >= r->base && offset <= r->base + r->valid) {
		memmove(r->window, r->window + (base - r->base), before);
	} else if (before) {
		err = device_read(r, base, r->window, BLOCK_SECTOR);
		before = known < BLOCK_SECTOR ? (uint32_t)known : BLOCK_SECTOR;
	}
	if (err)
		return err;
	clear_window(r, base);
	r->valid = before;
	return 0;
}

static bool window_takes(const struct region *r, uint64_t offset)
{
	return offset >= r->base && offset <= r->base + r->valid &&
	       offset < r->base + REGION_WINDOW;
}

/* Not even a sector between what is dirty and [@from, @to). */
static bool is_adjacent(const struct region *r, uint32_t from, uint32_t to)
{
	return r->dirty_from == r->dirty_to ||
	       (down(from) <= up(r->dirty_to) && up(to) >= r->dirty_from);
}

/* The first bytes of @data that the window can take, at most @len. */
static int put(struct region *r, uint64_t offset, const uint8_t *data,
	       size_t len, size_t *done)
{
	uint32_t from, to;
	int err = 0;

	if (!window_takes(r, offset))
		err = move_window(r, offset);
	if (err)
		return err;
	from = (uint32_t)(offset - r->base);
	to = from + (uint32_t)(len < REGION_WINDOW - from
				       ? len
				       : REGION_WINDOW - from);
	if (!is_adjacent(r, from, to))
		err = write_window(r);
	if (err)
		return err;
	memcpy(r->window + from, data, to - from);
	if (r->dirty_from == r->dirty_to) {
		r->dirty_from = (uint32_t)down(from);
		r->dirty_to = to;
	}
	if (down(from) < r->dirty_from)
		r->dirty_from = (uint32_t)down(from);
	if (to > r->dirty_to)
		r->dirty_to = to;
	if (to > r->valid)
		r->valid = to;
	*done = to - from;
	return 0;
}

static int put_all(struct region *r, uint64_t offset, const uint8_t *data,
		   size_t len)
{
	size_t done;
	int err;

	while (len) {
		err = put(r, offset, data, len, &done);
		if (err)
			return err;
		offset += done;
		data += done;
		len -= done;
		/* completing a sector asks where the file ends */
		if (offset > r->length) {
			r->length = offset;
			r->header_dirty = true;
		}
	}
	return 0;
}

/* ---- the file ---- */

int region_create(struct region *r)
{
	if (r->exists)
		return 0;
	r->exists = true;
	r->length = 0;
	clear_window(r, 0);
	return write_header(r);
}

int region_remove(struct region *r, bool sync)
{
	int err;

	r->exists = false;
	r->length = 0;
	clear_window(r, 0);
	err = write_header(r);
	if (!err && sync)
		err = flush(r);
	return err;
}

/* What the window does not know, from the device. */
static int read_around(struct region *r, uint64_t offset, uint8_t *data,
		       size_t len)
{
	uint8_t sector[BLOCK_SECTOR];
	size_t part;
	int err;

	while (len) {
		part = BLOCK_SECTOR - (size_t)(offset % BLOCK_SECTOR);
		if (part == BLOCK_SECTOR && len >= BLOCK_SECTOR) {
			part = (size_t)down(len);
			err = device_read(r, offset, data, part);
		} else {
			part = part < len ? part : len;
			err = device_read(r, down(offset), sector,
					  sizeof(sector));
			memcpy(data, sector + offset % BLOCK_SECTOR, part);
		}
		if (err)
			return err;
		offset += part;
		data += part;
		len -= part;
	}
	return 0;
}

int64_t region_read(struct region *r, uint64_t offset, void *data, size_t len)
{
	int err;

	if (offset >= r->length)
		return 0;
	if (len > r->length - offset)
		len = (size_t)(r->length - offset);
	if (offset >= r->base && offset + len <= r->base + r->valid) {
		memcpy(data, r->window + (offset - r->base), len);
		return (int64_t)len;
	}
	err = write_window(r);
	if (!err)
		err = read_around(r, offset, data, len);
	return err ? err : (int64_t)len;
}

int region_write(struct region *r, uint64_t offset, const void *data,
		 size_t len)
{
	static const uint8_t zeros[ZERO_CHUNK];
	uint64_t gap;
	int err;

	if (offset + len > r->bytes - REGION_DATA)
		return -ENOSPC;
	while (r->length < offset) {
		gap = offset - r->length;
		err = put_all(r, r->length, zeros,
			      gap < ZERO_CHUNK ? (size_t)gap : ZERO_CHUNK);
		if (err)
			return err;
	}
	return put_all(r, offset, data, len);
}

int region_truncate(struct region *r, uint64_t length)
{
	int err;

	if (length >= r->length)
		return 0;
	err = write_window(r);
	if (err)
		return err;
	clear_window(r, 0);
	r->length = length;
	return write_header(r);
}

int region_write_out(struct region *r)
{
	int err = write_window(r);

	if (!err && r->header_dirty)
		err = write_header(r);
	return err;
}

int region_sync(struct region *r)
{
	int err = region_write_out(r);

	return err ? err : flush(r);
}
