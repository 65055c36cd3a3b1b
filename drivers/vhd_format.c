/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Footer, header, BAT, batmap and bitmaps: see vhd_format.h.  What a locator
 * says is vhd_format_locator.c's.
 */
#include <errno.h>
#include <string.h>
#include "drivers/vhd_bytes.h"
#include "drivers/vhd_format.h"

#define VERSION UINT32_C(0x00010000)
#define BATMAP_VERSION UINT32_C(0x00010002)
#define NOWHERE UINT64_MAX

enum {
	FEATURE_RESERVED = 2, /* always set */
	FOOTER_CHECKSUM = 64,
	HEADER_CHECKSUM = 36,
	HEADER_LOCATORS = 576,
	LOCATOR = 24,
};

static int refuse(const char **why, const char *what)
{
	*why = what;
	return -EINVAL;
}

/* A checksum is the complement of the sum of all bytes but its own. */
static uint32_t sum_but(const uint8_t *bytes, size_t len, size_t own)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < len; i++)
		if (i < own || i >= own + 4)
			sum += bytes[i];
	return ~sum;
}

uint32_t vhd_format_checksum(const uint8_t *bytes, size_t len)
{
	return sum_but(bytes, len, len);
}

/* Of tapdisk 0.1 and 1.1, which hid a disk without summing up again. */
static bool hidden_late(const uint8_t *bytes, uint32_t stored)
{
	return bytes[85] && !memcmp(bytes + 28, "tap", 4) &&
	       sum_but(bytes, VHD_FORMAT_FOOTER, FOOTER_CHECKSUM) + bytes[85] ==
		       stored;
}

static int check_footer(const uint8_t *bytes, size_t len, const char **why)
{
	uint32_t stored = vhd_bytes_get32(bytes + FOOTER_CHECKSUM);

	if (memcmp(bytes, "conectix", 8) && memcmp(bytes, "v_poison", 8))
		return refuse(why, "no footer: wrong cookie");
	if (sum_but(bytes, len, FOOTER_CHECKSUM) != stored &&
	    (len < VHD_FORMAT_FOOTER || !hidden_late(bytes, stored)))
		return refuse(why, "footer: wrong checksum");
	if (vhd_bytes_get32(bytes + 12) >> 16 != VERSION >> 16)
		return refuse(why, "footer: unknown version of the format");
	if (!(vhd_bytes_get32(bytes + 8) & FEATURE_RESERVED))
		return refuse(why, "footer: the reserved feature is missing");
	return 0;
}

static int check_disk(const struct vhd_format_footer *footer, uint32_t type,
		      const char **why)
{
	if (type != VHD_FORMAT_FIXED && type != VHD_FORMAT_DYNAMIC &&
	    type != VHD_FORMAT_DIFFERENCING)
		return refuse(why, "footer: unknown type of disk");
	if (!footer->bytes || footer->bytes % VHD_FORMAT_SECTOR)
		return refuse(why, "footer: not a whole number of sectors");
	if (footer->bytes > VHD_FORMAT_BYTES_MAX)
		return refuse(why, "footer: a disk of more than 2040 GiB");
	if (type != VHD_FORMAT_FIXED &&
	    (footer->header_offset < VHD_FORMAT_FOOTER ||
	     footer->header_offset > INT64_MAX ||
	     footer->header_offset % VHD_FORMAT_SECTOR))
		return refuse(why, "footer: the header is nowhere");
	return 0;
}

int vhd_format_parse_footer(const uint8_t *bytes, size_t len,
			    struct vhd_format_footer *out, const char **why)
{
	uint32_t type;
	int err;

	if (len != VHD_FORMAT_FOOTER && len != VHD_FORMAT_OLD_FOOTER)
		return refuse(why, "footer: wrong length");
	err = check_footer(bytes, len, why);
	if (err)
		return err;
	*out = (struct vhd_format_footer){
		.poisoned = bytes[0] == 'v',
		.hidden = bytes[85],
		.header_offset = vhd_bytes_get64(bytes + 16),
		.timestamp = vhd_bytes_get32(bytes + 24),
		.creator_version = vhd_bytes_get32(bytes + 32),
		.original_bytes = vhd_bytes_get64(bytes + 40),
		.bytes = vhd_bytes_get64(bytes + 48),
		.cylinders = vhd_bytes_get16(bytes + 56),
		.heads = bytes[58],
		.sectors = bytes[59],
	};
	memcpy(out->creator, bytes + 28, sizeof(out->creator));
	memcpy(out->id, bytes + 68, sizeof(out->id));
	type = vhd_bytes_get32(bytes + 60);
	err = check_disk(out, type, why);
	if (!err)
		out->type = (enum vhd_format_type)type;
	return err;
}

void vhd_format_build_footer(const struct vhd_format_footer *footer,
			     uint8_t out[VHD_FORMAT_FOOTER])
{
	memset(out, 0, VHD_FORMAT_FOOTER);
	memcpy(out, footer->poisoned ? "v_poison" : "conectix", 8);
	vhd_bytes_put32(out + 8, FEATURE_RESERVED);
	vhd_bytes_put32(out + 12, VERSION);
	vhd_bytes_put64(out + 16, footer->type == VHD_FORMAT_FIXED
					  ? NOWHERE
					  : footer->header_offset);
	vhd_bytes_put32(out + 24, footer->timestamp);
	memcpy(out + 28, footer->creator, sizeof(footer->creator));
	vhd_bytes_put32(out + 32, footer->creator_version);
	vhd_bytes_put64(out + 40, footer->original_bytes);
	vhd_bytes_put64(out + 48, footer->bytes);
	vhd_bytes_put16(out + 56, footer->cylinders);
	out[58] = footer->heads;
	out[59] = footer->sectors;
	vhd_bytes_put32(out + 60, footer->type);
	memcpy(out + 68, footer->id, sizeof(footer->id));
	out[85] = footer->hidden;
	vhd_bytes_put32(out + FOOTER_CHECKSUM,
			sum_but(out, VHD_FORMAT_FOOTER, FOOTER_CHECKSUM));
}

uint32_t vhd_format_blocks(const struct vhd_format_footer *footer,
			   const struct vhd_format_header *header)
{
	return (uint32_t)((footer->bytes + header->block - 1) / header->block);
}

uint64_t vhd_format_bat_bytes(uint32_t entries)
{
	return ((uint64_t)entries * 4 + VHD_FORMAT_SECTOR - 1) &
	       ~(uint64_t)(VHD_FORMAT_SECTOR - 1);
}

uint32_t vhd_format_bitmap_bytes(uint32_t block)
{
	return (block / VHD_FORMAT_SECTOR / 8 + VHD_FORMAT_SECTOR - 1) &
	       ~(uint32_t)(VHD_FORMAT_SECTOR - 1);
}

static bool overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

/* Where the BAT is, once its size is known to be sane. */
static int check_bat_place(const struct vhd_format_footer *footer,
			   const struct vhd_format_header *header,
			   uint64_t store, const char **why)
{
	uint64_t at = header->bat_offset, len;

	if (header->entries > VHD_FORMAT_ENTRIES_MAX)
		return refuse(why, "header: too many blocks");
	if (header->entries < vhd_format_blocks(footer, header))
		return refuse(why, "header: fewer blocks than the disk has");
	len = vhd_format_bat_bytes(header->entries);
	if (at % VHD_FORMAT_SECTOR || at > store || len > store - at)
		return refuse(why, "header: the BAT is not in the file");
	if (at < VHD_FORMAT_FOOTER ||
	    overlap(at, len, footer->header_offset, VHD_FORMAT_HEADER))
		return refuse(why, "header: the BAT lies over the headers");
	return 0;
}

int vhd_format_parse_header(const uint8_t bytes[VHD_FORMAT_HEADER],
			    const struct vhd_format_footer *footer,
			    uint64_t store, struct vhd_format_header *out,
			    const char **why)
{
	const uint8_t *at = bytes + HEADER_LOCATORS;

	if (memcmp(bytes, "cxsparse", 8))
		return refuse(why, "no header: wrong cookie");
	if (sum_but(bytes, VHD_FORMAT_HEADER, HEADER_CHECKSUM) !=
	    vhd_bytes_get32(bytes + HEADER_CHECKSUM))
		return refuse(why, "header: wrong checksum");
	if (vhd_bytes_get32(bytes + 24) != VERSION)
		return refuse(why, "header: unknown version");
	*out = (struct vhd_format_header){
		.bat_offset = vhd_bytes_get64(bytes + 16),
		.entries = vhd_bytes_get32(bytes + 28),
		.block = vhd_bytes_get32(bytes + 32),
		.parent_timestamp = vhd_bytes_get32(bytes + 56),
	};
	if (out->block < VHD_FORMAT_BLOCK_MIN ||
	    out->block > VHD_FORMAT_BLOCK_MAX ||
	    (out->block & (out->block - 1)))
		return refuse(why, "header: bad size of blocks");
	memcpy(out->parent_id, bytes + 40, sizeof(out->parent_id));
	memcpy(out->parent_name, bytes + 64, sizeof(out->parent_name));
	for (unsigned i = 0; i < VHD_FORMAT_LOCATORS; i++, at += LOCATOR) {
		uint32_t space = vhd_bytes_get32(at + 4);

		out->locators[i] = (struct vhd_format_locator){
			.code = vhd_bytes_get32(at),
			/* some count sectors, some bytes */
			.space = space < VHD_FORMAT_SECTOR
					 ? space * VHD_FORMAT_SECTOR
					 : space,
			.len = vhd_bytes_get32(at + 8),
			.offset = vhd_bytes_get64(at + 16),
		};
	}
	return check_bat_place(footer, out, store, why);
}

void vhd_format_build_header(const struct vhd_format_header *header,
			     uint8_t out[VHD_FORMAT_HEADER])
{
	uint8_t *at = out + HEADER_LOCATORS;

	memset(out, 0, VHD_FORMAT_HEADER);
	memcpy(out, "cxsparse", 8);
	vhd_bytes_put64(out + 8, NOWHERE);
	vhd_bytes_put64(out + 16, header->bat_offset);
	vhd_bytes_put32(out + 24, VERSION);
	vhd_bytes_put32(out + 28, header->entries);
	vhd_bytes_put32(out + 32, header->block);
	memcpy(out + 40, header->parent_id, sizeof(header->parent_id));
	vhd_bytes_put32(out + 56, header->parent_timestamp);
	memcpy(out + 64, header->parent_name, sizeof(header->parent_name));
	for (unsigned i = 0; i < VHD_FORMAT_LOCATORS; i++, at += LOCATOR) {
		vhd_bytes_put32(at, header->locators[i].code);
		vhd_bytes_put32(at + 4, header->locators[i].space);
		vhd_bytes_put32(at + 8, header->locators[i].len);
		vhd_bytes_put64(at + 16, header->locators[i].offset);
	}
	vhd_bytes_put32(out + HEADER_CHECKSUM,
			sum_but(out, VHD_FORMAT_HEADER, HEADER_CHECKSUM));
}

void vhd_format_swap_bat(const uint32_t *from, uint32_t *to, uint32_t n)
{
	uint8_t bytes[4];

	for (uint32_t i = 0; i < n; i++) {
		memcpy(bytes, &from[i], sizeof(bytes));
		to[i] = vhd_bytes_get32(bytes);
	}
}

/* Heap sort: qsort may allocate, and a hostile order must not cost n^2. */
static void sink(uint32_t *heap, uint32_t i, uint32_t n)
{
	uint32_t value = heap[i], child;

	for (; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && heap[child + 1] > heap[child])
			child++;
		if (heap[child] <= value)
			break;
		heap[i] = heap[child];
	}
	heap[i] = value;
}

static void sort(uint32_t *values, uint32_t n)
{
	uint32_t last;

	for (uint32_t i = n / 2; i-- > 0;)
		sink(values, i, n);
	for (; n > 1; n--) {
		last = values[n - 1];
		values[n - 1] = values[0];
		values[0] = last;
		sink(values, 0, n - 1);
	}
}

static int check_entry(uint32_t entry, const struct vhd_format_header *header,
		       uint64_t store, const char **why)
{
	uint64_t at = (uint64_t)entry * VHD_FORMAT_SECTOR;
	uint64_t bitmap = vhd_format_bitmap_bytes(header->block);

	if (at < header->bat_offset + vhd_format_bat_bytes(header->entries))
		return refuse(why, "BAT: a block lies over the metadata");
	if (at > store || bitmap > store - at)
		return refuse(why, "BAT: a block is not in the file: has it "
				   "been truncated?");
	return 0;
}

int vhd_format_check_bat(const uint32_t *bat, uint32_t n,
			 const struct vhd_format_header *header, uint64_t store,
			 uint32_t *scratch, uint32_t *bad, const char **why)
{
	uint32_t used = 0, sectors;

	for (uint32_t i = 0; i < n; i++) {
		if (bat[i] == VHD_FORMAT_NONE)
			continue;
		*bad = i;
		if (check_entry(bat[i], header, store, why))
			return -EINVAL;
		scratch[used++] = bat[i];
	}
	sort(scratch, used);
	sectors = (vhd_format_bitmap_bytes(header->block) + header->block) /
		  VHD_FORMAT_SECTOR;
	for (uint32_t i = 1; i < used; i++) {
		if (scratch[i] - scratch[i - 1] >= sectors)
			continue;
		for (*bad = 0; bat[*bad] != scratch[i];)
			++*bad;
		return refuse(why, "BAT: two blocks lie over each other");
	}
	return 0;
}

uint64_t vhd_format_batmap_offset(const struct vhd_format_header *header)
{
	return header->bat_offset + vhd_format_bat_bytes(header->entries);
}

int vhd_format_parse_batmap(const uint8_t bytes[VHD_FORMAT_SECTOR],
			    const struct vhd_format_header *header,
			    uint32_t blocks, uint64_t store,
			    struct vhd_format_batmap *out, const char **why)
{
	uint64_t least = vhd_format_batmap_offset(header) + VHD_FORMAT_SECTOR;

	if (memcmp(bytes, "tdbatmap", 8))
		return refuse(why, "no batmap");
	*out = (struct vhd_format_batmap){
		.offset = vhd_bytes_get64(bytes + 8),
		.bytes = (uint64_t)vhd_bytes_get32(bytes + 16) *
			 VHD_FORMAT_SECTOR,
		.version = vhd_bytes_get32(bytes + 20),
		.checksum = vhd_bytes_get32(bytes + 24),
	};
	if (out->version != BATMAP_VERSION)
		return refuse(why, "batmap: unknown version");
	if (out->bytes < ((uint64_t)blocks + 7) / 8 ||
	    out->bytes > vhd_format_bat_bytes(VHD_FORMAT_ENTRIES_MAX))
		return refuse(why, "batmap: wrong size");
	if (out->offset % VHD_FORMAT_SECTOR || out->offset < least ||
	    out->offset > store || out->bytes > store - out->offset)
		return refuse(why, "batmap: is not where it may be");
	return 0;
}

void vhd_format_build_batmap(const struct vhd_format_batmap *batmap,
			     uint8_t out[VHD_FORMAT_SECTOR])
{
	memset(out, 0, VHD_FORMAT_SECTOR);
	memcpy(out, "tdbatmap", 8);
	vhd_bytes_put64(out + 8, batmap->offset);
	vhd_bytes_put32(out + 16,
			(uint32_t)(batmap->bytes / VHD_FORMAT_SECTOR));
	vhd_bytes_put32(out + 20, BATMAP_VERSION);
	vhd_bytes_put32(out + 24, batmap->checksum);
}

uint32_t vhd_format_run(const uint8_t *map, uint32_t i, uint32_t end)
{
	bool bit = vhd_format_bit(map, i);

	for (i++; i < end; i++) {
		if (i % 8 == 0 && end - i >= 8 &&
		    map[i / 8] == (bit ? 0xff : 0)) {
			i += 7; /* a whole byte of the same */
			continue;
		}
		if (vhd_format_bit(map, i) != bit)
			break;
	}
	return i;
}
