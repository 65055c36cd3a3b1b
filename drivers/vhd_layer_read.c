/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read the metadata of one VHD and check it: see vhd_layer.h.
 *
 * Which footer counts: a dynamic disk's first sector is never a guest's, but
 * its last may be (after a crash the file ends in a block of data), so its
 * copy there wins.  A fixed disk's first sector is the guest's, its last never
 * is.  A file that looks like both is refused: one of the two is forged.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "drivers/vhd_layer.h"
#include "poll/log.h"
#include "poll/wait.h"

enum {
	PAGE = 4096,
};

struct reading {
	struct io io; /* first */
	bool ended;
	int err;
};

static void reading_done(struct io *io, int err)
{
	struct reading *r = (struct reading *)io;

	r->ended = true;
	r->err = err;
}

static int read_blocks(struct node *store, uint64_t offset, uint64_t len,
		       void *buf)
{
	struct reading r = {
		.io = { .op = IO_READ,
			.offset = offset,
			.len = len,
			.buf = buf,
			.done = reading_done,
			.at_once = true },
	};
	struct wait wait;
	struct port *port;
	int err;

	err = wait_init(&wait, false);
	if (err)
		return err;
	err = port_open(store, &wait, 1, &port);
	if (err)
		goto out;
	port_submit(port, &r.io);
	while (!r.ended)
		if (!port_turn(port) && !r.ended)
			wait_for(&wait, false, false);
	port_close(port);
	err = r.err;
out:
	wait_fini(&wait);
	return err;
}

int vhd_layer_read(struct node *store, uint64_t offset, uint64_t len, void *buf)
{
	uint64_t mask = store->info.logical_block - 1, start = offset & ~mask;
	uint64_t size = ((offset + len + mask) & ~mask) - start;
	char *bounce;
	int err;

	if (offset > store->info.bytes || len > store->info.bytes - offset)
		return -EIO;
	if (posix_memalign((void **)&bounce, mask < PAGE ? PAGE : mask + 1,
			   size))
		return -ENOMEM;
	err = read_blocks(store, start, size, bounce);
	if (!err)
		memcpy(buf, bounce + (offset - start), len);
	free(bounce);
	return err;
}

static int refuse(const struct vhd_layer *layer, int err, const char *why)
{
	log_err("vhd: %s: %s", layer->path, why);
	return err;
}

/*
 * The footer at the end.  One of 511 bytes ends in no whole block, which only
 * the page cache can read.
 */
static int tail(struct vhd_layer *layer, struct vhd_format_footer *footer,
		const char **why)
{
	uint64_t bytes = layer->store->info.bytes;
	uint8_t last[VHD_FORMAT_FOOTER] = { 0 };
	struct node *buffered = NULL;
	size_t len = VHD_FORMAT_FOOTER;
	int err;

	if (bytes % VHD_FORMAT_SECTOR != VHD_FORMAT_OLD_FOOTER) {
		bytes -= bytes % VHD_FORMAT_SECTOR;
		err = vhd_layer_read(layer->store, bytes - len, len, last);
	} else {
		len = VHD_FORMAT_OLD_FOOTER;
		err = driver_open_store(layer->path,
					DRIVER_RDONLY | DRIVER_BUFFERED,
					&buffered);
		if (err)
			return err;
		buffered->info.logical_block = 1;
		err = vhd_layer_read(buffered, bytes - len, len, last);
		driver_close(buffered);
	}
	if (err)
		return refuse(layer, err, strerror(-err));
	return vhd_format_parse_footer(last, len, footer, why) ? -ENODATA : 0;
}

static int find_footer(struct vhd_layer *layer,
		       struct vhd_format_footer *footer)
{
	uint8_t first[VHD_FORMAT_FOOTER];
	struct vhd_format_footer copy;
	const char *why = "", *ignored;
	bool has_copy;
	int err;

	if (layer->store->info.bytes < VHD_FORMAT_FOOTER)
		return refuse(layer, -EINVAL, "too small for a VHD");
	err = vhd_layer_read(layer->store, 0, sizeof(first), first);
	if (err)
		return refuse(layer, err, strerror(-err));
	has_copy = !vhd_format_parse_footer(first, sizeof(first), &copy,
					    &ignored) &&
		   copy.type != VHD_FORMAT_FIXED;
	err = tail(layer, footer, &why);
	if (err && err != -ENODATA)
		return err;
	if (has_copy && !err && footer->type == VHD_FORMAT_FIXED)
		return refuse(layer, -EINVAL,
			      "its two footers contradict each other: one of "
			      "them may be a guest's");
	if (!has_copy && err)
		return refuse(layer, -EINVAL, why);
	if (has_copy)
		*footer = copy;
	if (footer->poisoned)
		return refuse(layer, -EINVAL, "is disabled (v_poison)");
	return 0;
}

static int load_bat(struct vhd_layer *layer,
		    const struct vhd_format_header *header)
{
	size_t size = (size_t)layer->blocks * sizeof(*layer->bat);
	uint32_t *scratch, bad;
	const char *why;
	int err;

	layer->bat = malloc(size);
	layer->full = calloc(layer->blocks / 8 + 1, 1);
	scratch = malloc(size);
	if (!layer->bat || !layer->full || !scratch) {
		err = refuse(layer, -ENOMEM, strerror(ENOMEM));
		goto out;
	}
	err = vhd_layer_read(layer->store, header->bat_offset, size,
			     layer->bat);
	if (err) {
		refuse(layer, err, strerror(-err));
		goto out;
	}
	vhd_format_swap_bat(layer->bat, layer->bat, layer->blocks);
	err = vhd_format_check_bat(layer->bat, layer->blocks, header,
				   layer->store->info.bytes, scratch, &bad,
				   &why);
	if (err)
		log_err("vhd: %s: block %" PRIu32 ": %s", layer->path, bad,
			why);
out:
	free(scratch);
	return err;
}

/* It only spares reads of bitmaps: without one, or a good one, all goes on. */
static void load_batmap(struct vhd_layer *layer,
			const struct vhd_format_header *header)
{
	size_t bits = ((size_t)layer->blocks + 7) / 8;
	size_t size = (bits + VHD_FORMAT_SECTOR - 1) &
		      ~(size_t)(VHD_FORMAT_SECTOR - 1);
	uint64_t store = layer->store->info.bytes;
	uint8_t sector[VHD_FORMAT_SECTOR], *map;
	struct vhd_format_batmap batmap;
	const char *why;

	if (vhd_layer_read(layer->store, vhd_format_batmap_offset(header),
			   sizeof(sector), sector) ||
	    vhd_format_parse_batmap(sector, header, layer->blocks, store,
				    &batmap, &why))
		return;
	map = malloc(size);
	if (map && !vhd_layer_read(layer->store, batmap.offset, size, map) &&
	    vhd_format_checksum(map, size) == batmap.checksum)
		memcpy(layer->full, map, bits);
	free(map);
}

static int load_blocks(struct vhd_layer *layer,
		       const struct vhd_format_footer *footer)
{
	uint64_t store = layer->store->info.bytes;
	struct vhd_format_header header;
	uint8_t bytes[VHD_FORMAT_HEADER];
	const char *why;
	int err;

	if (footer->header_offset > store ||
	    sizeof(bytes) > store - footer->header_offset)
		return refuse(layer, -EINVAL, "the header is not in the file");
	err = vhd_layer_read(layer->store, footer->header_offset, sizeof(bytes),
			     bytes);
	if (err)
		return refuse(layer, err, strerror(-err));
	err = vhd_format_parse_header(bytes, footer, store, &header, &why);
	if (err)
		return refuse(layer, err, why);
	layer->differencing = footer->type == VHD_FORMAT_DIFFERENCING;
	layer->block = header.block;
	layer->bitmap = vhd_format_bitmap_bytes(header.block);
	layer->blocks = vhd_format_blocks(footer, &header);
	memcpy(layer->parent_id, header.parent_id, sizeof(layer->parent_id));
	memcpy(layer->locators, header.locators, sizeof(layer->locators));
	err = load_bat(layer, &header);
	if (!err && !memcmp(footer->creator, "tap", 4))
		load_batmap(layer, &header);
	return err;
}

int vhd_layer_load(struct vhd_layer *layer)
{
	struct vhd_format_footer footer;
	int err;

	err = find_footer(layer, &footer);
	if (err)
		return err;
	layer->bytes = footer.bytes;
	memcpy(layer->id, footer.id, sizeof(layer->id));
	layer->flat = footer.type == VHD_FORMAT_FIXED;
	if (!layer->flat)
		return load_blocks(layer, &footer);
	if (layer->store->info.bytes - VHD_FORMAT_OLD_FOOTER < footer.bytes)
		return refuse(layer, -EINVAL, "the file has been truncated");
	return 0;
}
