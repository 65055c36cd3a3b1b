/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Image formats, filters and stores behind one table each.
 *
 * A *spec* names an image: "type:path".  A filter wraps one:
 * "fault:op=write,nth=3,err=EIO;aio:/srv/d.img" (the first ';' ends the
 * options).  A format keeps its bytes in a *store*: the aio store on the path,
 * or, when the path begins with '@', the store that the rest names as a spec
 * ("vhd:@fault:nth=9;aio:/srv/d.vhd").  Nothing is ever guessed from content.
 *
 * An opened spec is a stack of *nodes*, used through one *port* per thread.
 * Opening and closing: main thread.  A port: its thread.  open logs once what
 * went wrong; nothing else logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "drivers/io.h"

struct wait;
struct node;
struct port;

enum driver_flags {
	DRIVER_RDONLY = 1 << 0,
	DRIVER_BUFFERED = 1 << 1, /* the caller asked for the page cache (-D) */
};

struct driver_info {
	uint64_t bytes; /* size of the disk, a multiple of 512 */
	uint32_t logical_block; /* smallest unit of a transfer: 512 upwards */
	uint32_t physical_block; /* smallest unit that is not read-modify-write
				  */
	uint32_t discard_granularity; /* bytes; 0: cannot discard */
};

/* What a driver stands on. */
enum driver_below {
	DRIVER_ON_NOTHING, /* ram, null, a store at the bottom */
	DRIVER_ON_STORE, /* a format: the argument is a path or @SPEC */
	DRIVER_ON_SPEC, /* a filter: the argument is OPTIONS;SPEC */
};

/* What a part of an image is made of, as far as is known without reading. */
enum extent_kind {
	EXTENT_DATA,
	EXTENT_ZERO, /* reads as zeros */
	EXTENT_PARENT, /* what the next layer says of it */
};

struct extent {
	uint64_t len; /* bytes, not 0 */
	enum extent_kind kind;
};

struct driver {
	const char *name;
	/* upstream's number in stats: aio 0, vhd 4, ram 5; -1: it has none */
	int stats_type;
	enum driver_below below;
	/*
	 * @arg is what follows the colon: a path, a size, or a filter's
	 * options alone; @below an opened node or NULL, which stays the
	 * caller's.  Fills @info, which for a filter holds what lies below.
	 * 0 or -errno, logged, and then nothing is left.
	 */
	int (*open)(const char *arg, struct node *below, unsigned flags,
		    struct driver_info *info, void **priv);
	void (*close)(void *priv); /* every port is closed.  May be NULL */
	/*
	 * Make this node's half of @port (port->priv, port->below are set up
	 * by port_open, and the half below is open).  NULL: none needed.
	 */
	int (*port_open)(struct port *port);
	void (*port_close)(struct port *port); /* idle by then */
	/* Start @io, in range and allowed; io->done will be called. */
	void (*submit)(struct port *port, struct io *io);
	/*
	 * Hand over what was batched, finish what has ended.  Returns how many
	 * io it finished or passed on; 0 means nothing happened.  NULL: nothing
	 * ever waits here.
	 */
	unsigned (*turn)(struct port *port);
	/*
	 * What the range, which is in the image and not empty, is made of: at
	 * most @max extents from its beginning on, which may end before or
	 * behind it.  Returns how many, at least one, or -errno.  May wait for
	 * metadata of the file, not for its data.  NULL: data, or for a filter
	 * what lies below.
	 */
	int (*extents)(struct port *port, uint64_t offset, uint64_t len,
		       struct extent *out, unsigned max);
};

struct node {
	const struct driver *driver;
	struct node *below; /* NULL at the bottom */
	struct driver_info info;
	unsigned flags;
	void *priv;
	char *arg; /* what followed "type:" in the spec */
};

/* One thread's way to a node: own submission context, own free lists. */
struct port {
	struct node *node;
	struct port *below;
	struct wait *wait; /* where its thread waits; sources are added here */
	unsigned depth; /* most io in flight at a time */
	void *priv;
};

/*
 * Open @spec with everything below it.  -EINVAL without a colon or with bad
 * options, -ENOENT for an unknown type (or a missing file), -ENAMETOOLONG
 * (a type of more than 31 bytes), -ELOOP (more than 8 levels), -ENOMEDIUM,
 * -errno of the driver.  Logs once.
 */
int driver_open(const char *spec, unsigned flags, struct node **out);

/* The same for the bytes of a format: @arg is a path, or "@SPEC". */
int driver_open_store(const char *arg, unsigned flags, struct node **out);

void driver_close(struct node *node); /* NULL is fine */

/*
 * A port on @node for the thread that waits in @wait.  Called by main before
 * that thread runs, or while it is held.  -ENOMEM, -errno of the driver.
 */
int port_open(struct node *node, struct wait *wait, unsigned depth,
	      struct port **out);
void port_close(struct port *port); /* NULL is fine; nothing in flight */

static inline void port_submit(struct port *port, struct io *io)
{
	port->node->driver->submit(port, io);
}

/* As struct driver's extents, for a driver with or without. */
int port_extents(struct port *port, uint64_t offset, uint64_t len,
		 struct extent *out, unsigned max);

/* One turn of every level, top down.  Returns the sum. */
unsigned port_turn(struct port *port);

/* All drivers and all stores, each ended by NULL. */
extern const struct driver *const driver_table[];
extern const struct driver *const driver_store_table[];
