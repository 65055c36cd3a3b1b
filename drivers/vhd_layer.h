/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layers of a VHD, leaf first: their metadata in memory, checked, and the
 * stores of the parents, opened read-only.  Main thread, at open; logs once
 * what went wrong.  How data is then read is vhd.c's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "drivers/driver.h"
#include "drivers/vhd_format.h"

enum {
	VHD_LAYERS_MAX = 32,
};

struct vhd_layer {
	struct node *store; /* the leaf's is the caller's */
	char *path; /* for log lines, and where the parent is looked for */
	dev_t device;
	ino_t inode;
	bool flat; /* fixed or raw: its bytes are the store's; no more below */
	bool differencing;
	uint64_t bytes; /* of the disk */
	uint32_t block, bitmap; /* bytes of a block's data, of its bitmap */
	uint32_t blocks;
	uint32_t *bat; /* blocks */
	uint8_t *full; /* a bit for each block that needs no bitmap: atomic */
	uint8_t id[VHD_FORMAT_ID];
	uint8_t parent_id[VHD_FORMAT_ID];
	struct vhd_format_locator locators[VHD_FORMAT_LOCATORS];
};

struct vhd_layers {
	unsigned n;
	struct vhd_layer layers[VHD_LAYERS_MAX];
};

/*
 * The VHD in @store, named @arg, and its parents.  -EINVAL (its metadata),
 * -ELOOP (a chain that is too long, or no end), -ENOENT (a parent), -ENOMEM,
 * -errno of the stores.
 */
int vhd_layer_open_all(const char *arg, struct node *store, unsigned flags,
		       struct vhd_layers *out);
void vhd_layer_close_all(struct vhd_layers *layers);

/* vhd_layer_read.c: @len bytes at @offset, once.  -EIO: beyond its end. */
int vhd_layer_read(struct node *store, uint64_t offset, uint64_t len,
		   void *buf);
/* The metadata of what is in layer->store and is not raw.  Logs. */
int vhd_layer_load(struct vhd_layer *layer);
