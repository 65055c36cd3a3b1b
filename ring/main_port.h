/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main thread's own way to an image: a port whose completions arrive
 * through the main loop.  For flushes at pause and close, and for whoever
 * serves the disk other than through a ring.  Never logs.
 */
#pragma once

#include "drivers/image.h"

struct loop;
struct main_port;

#define MAIN_PORT_DEPTH 16 /* io in flight */

/* -ENOMEM, -errno as image_port_open and wait_init. */
int main_port_open(struct loop *loop, struct image *image,
		   struct main_port **out);

/* Nothing in flight, and not from within a done of this port; NULL is fine. */
void main_port_close(struct main_port *port);

/* As image_extents. */
int main_port_extents(struct main_port *port, uint64_t offset, uint64_t len,
		      struct extent *out, unsigned max);

/* As image_submit; done is called from the loop, never from within. */
void main_port_submit(struct main_port *port, struct io *io);
