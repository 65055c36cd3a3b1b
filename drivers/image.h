/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One opened disk: the chain of its layers, and the rules that hold for every
 * format.  Bounds and read-only are checked here and nowhere else.  After a
 * failed flush every later flush fails until the image is opened again,
 * because the kernel tells of lost pages once; only what was refused before it
 * was tried (-EAGAIN, -EBUSY, -EINTR, -ENOMEM) may be tried again.
 *
 * open and close: main thread, log.  A port: its thread, never logs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "drivers/driver.h"

struct image;
struct image_port;

/*
 * What driver_open does, and -ENODATA for an empty image, -EINVAL for one that
 * is not a whole number of 512-byte sectors.
 */
int image_open(const char *spec, unsigned flags, struct image **out);
void image_close(struct image *image); /* every port is closed; NULL is fine */

const struct driver_info *image_info(const struct image *image);
bool image_writable(const struct image *image);

int image_port_open(struct image *image, struct wait *wait, unsigned depth,
		    struct image_port **out); /* as port_open */
void image_port_close(struct image_port *port); /* NULL is fine */

/*
 * Start @io.  done gets -EINVAL if it does not consist of whole logical
 * blocks, -EIO outside of the disk, -EPERM for what would write
 * a read-only one, -EOPNOTSUPP for a discard it cannot do, -EIO for a flush
 * after a failed one, or the driver's -errno.
 */
void image_submit(struct image_port *port, struct io *io);

/* Once per turn of the thread: see struct driver's turn. */
unsigned image_turn(struct image_port *port);

/* Number of io between image_submit and done. */
unsigned image_in_flight(const struct image_port *port);

/*
 * What a range is made of, DATA or ZERO: at most @max extents, which together
 * are @len or less, neighbours of a kind joined.  A part of a block that is not
 * all zeros is data.  Returns how many, at least one; -EINVAL and -EIO as
 * image_submit, -errno of the driver.
 */
int image_extents(struct image_port *port, uint64_t offset, uint64_t len,
		  struct extent *out, unsigned max);

/* For stats, leaf first; filters are no layers of their own.  Counts are
 * completed io of all ports. */
struct image_layer_stats {
	const char *name; /* what followed "type:" */
	const char *driver;
	int driver_type;
	uint64_t reads, writes;
	uint64_t read_bytes, write_bytes; /* of those without an error */
	uint64_t read_errors, write_errors;
};
unsigned image_stats(const struct image *image,
		     struct image_layer_stats *layers, unsigned max);
