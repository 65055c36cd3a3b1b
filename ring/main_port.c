/* SPDX-License-Identifier: BSD-3-Clause */
/* See main_port.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include "poll/loop.h"
#include "poll/wait.h"
#include "ring/main_port.h"

struct main_port {
	struct loop *loop;
	struct image_port *port;
	struct wait wait; /* foreign: the loop watches its descriptor */
	struct loop_watch watch;
	struct loop_defer turn;
	struct io *queued, **queued_tail;
};

/* Submit, reap, arm; again until there is nothing to do but wait. */
static void turn(void *arg)
{
	struct main_port *port = arg;
	struct io *io;
	unsigned n;

	do {
		n = 0;
		while ((io = port->queued)) {
			port->queued = io->next;
			if (!port->queued)
				port->queued_tail = &port->queued;
			image_submit(port->port, io);
			n++;
		}
		n += image_turn(port->port);
	} while (n || wait_arm(&port->wait));
}

static void awake(void *arg, uint32_t events)
{
	struct main_port *port = arg;

	(void)events;
	wait_awake(&port->wait);
	turn(port);
}

int main_port_open(struct loop *loop, struct image *image,
		   struct main_port **out)
{
	struct main_port *port;
	int err;

	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	port->loop = loop;
	port->queued_tail = &port->queued;
	port->turn = (struct loop_defer){ .fn = turn, .arg = port };
	err = wait_init(&port->wait, true);
	if (err)
		goto free_port;
	err = image_port_open(image, &port->wait, MAIN_PORT_DEPTH, &port->port);
	if (err)
		goto fini_wait;
	port->watch = (struct loop_watch){ .fd = port->wait.epoll_fd,
					   .fn = awake,
					   .arg = port };
	err = loop_watch(loop, &port->watch, EPOLLIN);
	if (err)
		goto close_port;
	*out = port;
	return 0;
close_port:
	image_port_close(port->port);
fini_wait:
	wait_fini(&port->wait);
free_port:
	free(port);
	return err;
}

void main_port_close(struct main_port *port)
{
	if (!port)
		return;
	loop_defer_cancel(port->loop, &port->turn);
	loop_unwatch(port->loop, &port->watch);
	image_port_close(port->port);
	wait_fini(&port->wait);
	free(port);
}

void main_port_submit(struct main_port *port, struct io *io)
{
	io->next = NULL;
	*port->queued_tail = io;
	port->queued_tail = &io->next;
	loop_defer(port->loop, &port->turn);
}

int main_port_extents(struct main_port *port, uint64_t offset, uint64_t len,
		      struct extent *out, unsigned max)
{
	return image_extents(port->port, offset, len, out, max);
}
