/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a VHD to its parents: see vhd_layer.h.  A parent is where a locator
 * says, seen from the directory of the child; where the child is a symbolic
 * link, also from where that leads, link by link, because storage managers
 * name disks through links and a logical volume's parent is beside the first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "drivers/vhd_layer.h"
#include "poll/host.h"
#include "poll/log.h"

enum {
	LINKS_MAX = 8,
};

/* What file it is; a device is the same by any name. */
static int identify(struct vhd_layer *layer)
{
	struct stat st;
	int fd, err;

	fd = host_open(layer->path, O_PATH);
	if (fd < 0)
		return fd;
	err = fstat(fd, &st) < 0 ? -errno : 0;
	close(fd);
	if (err)
		return err;
	layer->device = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	layer->inode = S_ISBLK(st.st_mode) ? 0 : st.st_ino;
	return 0;
}

static bool exists(const char *path)
{
	int fd = host_open(path, O_PATH);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* @name as seen from the directory of @from; false: too long. */
static bool beside(const char *from, const char *name,
		   char out[VHD_FORMAT_PATH])
{
	const char *slash = strrchr(from, '/');
	int len = slash && name[0] != '/' ? (int)(slash - from) + 1 : 0;

	return snprintf(out, VHD_FORMAT_PATH, "%.*s%s", len, from, name) <
	       VHD_FORMAT_PATH;
}

/* Where @name is, for a child at @child. */
static bool look_for(const char *child, const char *name,
		     char out[VHD_FORMAT_PATH])
{
	char at[VHD_FORMAT_PATH], target[VHD_FORMAT_PATH];

	if (!beside(child,
		    strrchr(child, '/') ? strrchr(child, '/') + 1 : child, at))
		return false;
	for (unsigned i = 0; i <= LINKS_MAX; i++) {
		if (beside(at, name, out) && exists(out))
			return true;
		if (host_read_link(at, target, sizeof(target)) ||
		    !beside(at, target, out))
			return false;
		strcpy(at, out);
	}
	return false;
}

/* The parent's path by the locator @locator.  -ENOENT: not there. */
static int follow(const struct vhd_layer *child,
		  const struct vhd_format_locator *locator,
		  char out[VHD_FORMAT_PATH], const char **why)
{
	uint8_t text[VHD_FORMAT_LOCATOR_MAX];
	char name[VHD_FORMAT_PATH];
	int err;

	err = vhd_format_check_locator(locator, child->store->info.bytes, why);
	if (err)
		return err;
	err = vhd_layer_read(child->store, locator->offset, locator->len, text);
	if (err) {
		*why = strerror(-err);
		return err;
	}
	err = vhd_format_locator_path(locator->code, text, locator->len, name,
				      why);
	if (err)
		return err;
	if (look_for(child->path, name, out))
		return 0;
	*why = "the parent is not there";
	return -ENOENT;
}

static int find_parent(const struct vhd_layer *child, char out[VHD_FORMAT_PATH])
{
	const char *why = "no locator of a parent", *last;
	unsigned best, rank;
	int err = -EINVAL, rc;

	for (rank = 0, best = vhd_format_locator_rank(0); rank < best; rank++) {
		for (unsigned i = 0; i < VHD_FORMAT_LOCATORS; i++) {
			if (vhd_format_locator_rank(child->locators[i].code) !=
			    rank)
				continue;
			rc = follow(child, &child->locators[i], out, &last);
			if (!rc)
				return 0;
			why = last;
			err = rc;
		}
	}
	log_err("vhd: %s: parent: %s", child->path, why);
	return err;
}

static int check_cycle(const struct vhd_layers *all,
		       const struct vhd_layer *layer)
{
	for (unsigned i = 0; i < all->n; i++)
		if (all->layers[i].device == layer->device &&
		    all->layers[i].inode == layer->inode) {
			log_err("vhd: %s: is its own ancestor", layer->path);
			return -ELOOP;
		}
	return 0;
}

static void close_layer(struct vhd_layer *layer, bool own)
{
	if (own)
		driver_close(layer->store);
	free(layer->path);
	free(layer->bat);
	free(layer->full);
}

/* What @child says of its parent, against what @layer is. */
static int check_parent(const struct vhd_layer *child, struct vhd_layer *layer,
			bool raw)
{
	int err;

	if (raw) {
		layer->flat = true;
		layer->bytes = layer->store->info.bytes;
		if (!(layer->bytes % VHD_FORMAT_SECTOR))
			return 0;
		log_err("vhd: %s: not a whole number of sectors", layer->path);
		return -EINVAL;
	}
	err = vhd_layer_load(layer);
	if (err)
		return err;
	if (!memcmp(layer->id, child->parent_id, sizeof(layer->id)))
		return 0;
	log_err("vhd: %s: is not the parent that %s was made from", layer->path,
		child->path);
	return -EINVAL;
}

/* Add the parent of the last layer. */
static int open_parent(struct vhd_layers *all, unsigned flags)
{
	static const uint8_t nil[VHD_FORMAT_ID];
	const struct vhd_layer *child = &all->layers[all->n - 1];
	bool raw = !memcmp(child->parent_id, nil, sizeof(nil));
	struct vhd_layer layer = { 0 };
	char path[VHD_FORMAT_PATH];
	int err;

	if (all->n == VHD_LAYERS_MAX) {
		log_err("vhd: %s: more than %d images in a chain", child->path,
			VHD_LAYERS_MAX);
		return -ELOOP;
	}
	err = find_parent(child, path);
	if (err)
		return err;
	layer.path = strdup(path);
	if (!layer.path)
		return -ENOMEM;
	err = identify(&layer);
	if (!err)
		err = check_cycle(all, &layer);
	if (!err)
		err = driver_open_store(
			path, DRIVER_RDONLY | (flags & DRIVER_BUFFERED),
			&layer.store);
	if (!err)
		err = check_parent(child, &layer, raw);
	if (err) {
		close_layer(&layer, true);
		return err;
	}
	all->layers[all->n++] = layer;
	return 0;
}

int vhd_layer_open_all(const char *arg, struct node *store, unsigned flags,
		       struct vhd_layers *out)
{
	struct vhd_layer *leaf = &out->layers[0];
	const struct node *bottom = store;
	int err;

	while (bottom->below)
		bottom = bottom->below;
	*out = (struct vhd_layers){ .n = 1 };
	leaf->store = store;
	leaf->path = strdup(arg[0] == '@' ? bottom->arg : arg);
	err = leaf->path ? 0 : -ENOMEM;
	if (!err) {
		identify(leaf); /* what has no path has no parent either */
		err = vhd_layer_load(leaf);
	}
	while (!err && out->layers[out->n - 1].differencing)
		err = open_parent(out, flags);
	if (err)
		vhd_layer_close_all(out);
	return err;
}

void vhd_layer_close_all(struct vhd_layers *layers)
{
	for (unsigned i = 0; i < layers->n; i++)
		close_layer(&layers->layers[i], i > 0);
	layers->n = 0;
}
