/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a VHD file, read as the driver reads it: by libFuzzer, see
 * "make fuzz".  Nothing may leave the bytes, and no memory or time be spent
 * that their number does not justify.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "drivers/vhd_bytes.h"
#include "drivers/vhd_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checksums that are right, so that the fuzzer gets past them. */
static void sum(uint8_t *bytes, size_t len, size_t at)
{
	vhd_bytes_put32(bytes + at, 0);
	vhd_bytes_put32(bytes + at, vhd_format_checksum(bytes, len));
}

static void locators(const struct vhd_format_header *header,
		     const uint8_t *data, size_t size)
{
	const struct vhd_format_locator *locator;
	char path[VHD_FORMAT_PATH];
	const char *why;

	for (unsigned i = 0; i < VHD_FORMAT_LOCATORS; i++) {
		locator = &header->locators[i];
		if (!vhd_format_check_locator(locator, size, &why) &&
		    !vhd_format_locator_path(locator->code,
					     data + locator->offset,
					     locator->len, path, &why) &&
		    (!path[0] || strlen(path) >= VHD_FORMAT_PATH))
			abort();
	}
}

static void blocks(const struct vhd_format_header *header, uint32_t n,
		   const uint8_t *data, size_t size)
{
	uint32_t *bat = malloc((size_t)n * 4), *scratch, bad;
	uint32_t bitmap = vhd_format_bitmap_bytes(header->block);
	const char *why;

	scratch = malloc((size_t)n * 4);
	if (!bat || !scratch)
		abort();
	memcpy(bat, data + header->bat_offset, (size_t)n * 4);
	vhd_format_swap_bat(bat, bat, n);
	if (!vhd_format_check_bat(bat, n, header, size, scratch, &bad, &why))
		for (uint32_t i = 0; i < n; i++)
			if (bat[i] != VHD_FORMAT_NONE)
				vhd_format_run(data + bat[i] * UINT64_C(512), 0,
					       bitmap * 8);
	free(bat);
	free(scratch);
}

static void batmap(const struct vhd_format_header *header, uint32_t n,
		   const uint8_t *data, size_t size)
{
	uint64_t at = vhd_format_batmap_offset(header);
	struct vhd_format_batmap map;
	const char *why;

	if (at > size || size - at < VHD_FORMAT_SECTOR ||
	    vhd_format_parse_batmap(data + at, header, n, size, &map, &why))
		return;
	vhd_format_checksum(data + map.offset, map.bytes);
	vhd_format_run(data + map.offset, 0, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t front[VHD_FORMAT_FOOTER], head[VHD_FORMAT_HEADER];
	struct vhd_format_footer footer;
	struct vhd_format_header header;
	const char *why;
	uint32_t n;

	if (size < sizeof(front))
		return 0;
	memcpy(front, data, sizeof(front));
	sum(front, sizeof(front), 64);
	if (vhd_format_parse_footer(front, sizeof(front), &footer, &why) ||
	    footer.type == VHD_FORMAT_FIXED || footer.header_offset > size ||
	    size - footer.header_offset < sizeof(head))
		return 0;
	memcpy(head, data + footer.header_offset, sizeof(head));
	sum(head, sizeof(head), 36);
	if (vhd_format_parse_header(head, &footer, size, &header, &why))
		return 0;
	n = vhd_format_blocks(&footer, &header);
	locators(&header, data, size);
	blocks(&header, n, data, size);
	batmap(&header, n, data, size);
	return 0;
}
