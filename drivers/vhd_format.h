/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The VHD format: bytes on disk to structs and back, every bound checked.
 *
 * Pure: no I/O, no allocation, no log, so that the fuzzer, the driver and the
 * tools share it.  On disk numbers are big-endian and positions are 512-byte
 * sectors; here they are bytes, but for the entries of a BAT.  Whoever calls
 * says which type of image it wants; nothing is guessed from content.
 *
 * A function that can refuse sets @why, a string constant, when it does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VHD_FORMAT_SECTOR = 512,
	VHD_FORMAT_FOOTER = 512,
	VHD_FORMAT_OLD_FOOTER = 511, /* of Virtual PC before 2004 */
	VHD_FORMAT_HEADER = 1024,
	VHD_FORMAT_LOCATORS = 8,
	VHD_FORMAT_LOCATOR_MAX = 4096, /* bytes of one that are believed */
	VHD_FORMAT_PATH = 4096, /* longest path, with its NUL */
	VHD_FORMAT_BLOCK_MIN = 4096,
	VHD_FORMAT_BLOCK_MAX = 16 << 20,
	VHD_FORMAT_ID = 16,
};

#define VHD_FORMAT_BYTES_MAX (UINT64_C(2040) << 30)
#define VHD_FORMAT_ENTRIES_MAX UINT32_C(4177920) /* 2040 GiB of 512 KiB */
#define VHD_FORMAT_NONE UINT32_C(0xffffffff) /* BAT: no such block */

enum vhd_format_type {
	VHD_FORMAT_FIXED = 2,
	VHD_FORMAT_DYNAMIC = 3,
	VHD_FORMAT_DIFFERENCING = 4,
};

struct vhd_format_footer {
	enum vhd_format_type type;
	bool poisoned; /* "v_poison": whoever made it wants it left alone */
	bool hidden;
	uint64_t header_offset; /* not for fixed */
	uint64_t original_bytes;
	uint64_t bytes; /* of the disk: a multiple of 512 */
	uint32_t timestamp; /* seconds since 2000 */
	uint32_t creator_version;
	char creator[4];
	uint16_t cylinders;
	uint8_t heads, sectors;
	uint8_t id[VHD_FORMAT_ID];
};

struct vhd_format_locator {
	uint32_t code; /* 0: unused */
	uint32_t space; /* bytes set aside for it */
	uint32_t len; /* bytes used */
	uint64_t offset;
};

struct vhd_format_header {
	uint64_t bat_offset;
	uint32_t entries; /* room in the BAT: may be more than are used */
	uint32_t block; /* bytes of data in a block */
	uint32_t parent_timestamp;
	uint8_t parent_id[VHD_FORMAT_ID]; /* all zero: the parent is raw */
	uint8_t parent_name[512]; /* UTF-16, big-endian */
	struct vhd_format_locator locators[VHD_FORMAT_LOCATORS];
};

struct vhd_format_batmap {
	uint64_t offset; /* of the map */
	uint64_t bytes; /* of the map, whole sectors */
	uint32_t version;
	uint32_t checksum; /* of the map */
};

/*
 * Check the @len bytes of a footer, 512 or 511, and describe it in @out.
 * -EINVAL: it is none, or it is damaged.
 */
int vhd_format_parse_footer(const uint8_t *bytes, size_t len,
			    struct vhd_format_footer *out, const char **why);
void vhd_format_build_footer(const struct vhd_format_footer *footer,
			     uint8_t out[VHD_FORMAT_FOOTER]);

/*
 * Check the header that @footer names, in a store of @store bytes.  -EINVAL.
 * Locators are only copied: see vhd_format_check_locator.
 */
int vhd_format_parse_header(const uint8_t bytes[VHD_FORMAT_HEADER],
			    const struct vhd_format_footer *footer,
			    uint64_t store, struct vhd_format_header *out,
			    const char **why);
void vhd_format_build_header(const struct vhd_format_header *header,
			     uint8_t out[VHD_FORMAT_HEADER]);

/* Blocks of the disk, the entries of its BAT that are used. */
uint32_t vhd_format_blocks(const struct vhd_format_footer *footer,
			   const struct vhd_format_header *header);
/* Bytes of the BAT on disk, of a bitmap, in whole sectors. */
uint64_t vhd_format_bat_bytes(uint32_t entries);
uint32_t vhd_format_bitmap_bytes(uint32_t block);

/*
 * Check @n entries, as numbers, of the BAT: none may lie in the metadata,
 * over another block, or have its bitmap beyond the @store bytes.  (A block's
 * data may end beyond: what was never written need not be there.)  @scratch
 * has room for @n.  O(n log n).  -EINVAL, and the block in @bad.
 */
int vhd_format_check_bat(const uint32_t *bat, uint32_t n,
			 const struct vhd_format_header *header, uint64_t store,
			 uint32_t *scratch, uint32_t *bad, const char **why);
/* @n entries between disk and memory, in place or not. */
void vhd_format_swap_bat(const uint32_t *from, uint32_t *to, uint32_t n);

/* Where the sector that describes the batmap would be. */
uint64_t vhd_format_batmap_offset(const struct vhd_format_header *header);
/* -EINVAL: there is no batmap, or none to believe in. */
int vhd_format_parse_batmap(const uint8_t bytes[VHD_FORMAT_SECTOR],
			    const struct vhd_format_header *header,
			    uint32_t blocks, uint64_t store,
			    struct vhd_format_batmap *out, const char **why);
void vhd_format_build_batmap(const struct vhd_format_batmap *batmap,
			     uint8_t out[VHD_FORMAT_SECTOR]);
uint32_t vhd_format_checksum(const uint8_t *bytes, size_t len);

/*
 * Where and how long the text of @locator is, within a store of @store bytes.
 * -ENOENT: it is unused, or of a kind that is not read; -EINVAL.
 */
int vhd_format_check_locator(const struct vhd_format_locator *locator,
			     uint64_t store, const char **why);
/*
 * The text of a locator, as a path: '/' between names; relative to the
 * directory of the child unless it begins with '/'.  -EINVAL.
 */
int vhd_format_locator_path(uint32_t code, const uint8_t *text, size_t len,
			    char path[VHD_FORMAT_PATH], const char **why);
/* Of several locators the one with the lowest rank is to be tried first. */
unsigned vhd_format_locator_rank(uint32_t code);

/* Bits of bitmaps and batmaps: the most significant comes first. */
static inline bool vhd_format_bit(const uint8_t *map, uint32_t i)
{
	return map[i / 8] >> (7 - i % 8) & 1;
}

static inline void vhd_format_set_bit(uint8_t *map, uint32_t i)
{
	map[i / 8] = (uint8_t)(map[i / 8] | 0x80 >> i % 8);
}

/* The first of the bits from @i on, before @end, that is not as bit @i. */
uint32_t vhd_format_run(const uint8_t *map, uint32_t i, uint32_t end);
