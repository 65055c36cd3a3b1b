/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delay:us=N[,op=OP];SPEC, which starts each io, or each of one operation, N
 * microseconds late.  Those that are delayed keep their order; the others
 * pass them.  It uses no descriptor: the wait ends at the date of the next.
 */
#include <errno.h>
#include <stdlib.h>
#include "drivers/drivers.h"
#include "drivers/options.h"
#include "poll/clock.h"
#include "poll/log.h"
#include "poll/wait.h"

#define DELAY_US_MAX UINT64_C(86400000000) /* a day */

struct delay {
	unsigned ops; /* 1 << enum io_op */
	uint64_t us; /* 0: not given */
};

struct delay_port {
	struct wait *wait;
	struct wait_source source;
	struct io *head, **tail; /* io->held is the date, ascending */
};

static int set_us(void *priv, const char *value)
{
	struct delay *delay = priv;

	if (options_number(value, &delay->us) || !delay->us ||
	    delay->us > DELAY_US_MAX)
		return -EINVAL;
	return 0;
}

static int set_op(void *priv, const char *value)
{
	struct delay *delay = priv;

	return options_ops(value, &delay->ops);
}

static const struct option options[] = {
	{ "us", set_us },
	{ "op", set_op },
	{ NULL, NULL },
};

static int delay_open(const char *arg, struct node *below, unsigned flags,
		      struct driver_info *info, void **priv)
{
	struct delay *delay;
	int err;

	(void)below;
	(void)flags;
	(void)info;
	delay = calloc(1, sizeof(*delay));
	if (!delay)
		return -ENOMEM;
	delay->ops = (1u << NR_IO_OPS) - 1;
	err = options_parse("delay", arg, options, delay);
	if (!err && !delay->us) {
		log_err("delay: option \"us\": missing");
		err = -EINVAL;
	}
	if (err) {
		free(delay);
		return err;
	}
	*priv = delay;
	return 0;
}

static void delay_close(void *priv)
{
	free(priv);
}

static int delay_port_open(struct port *port)
{
	struct delay_port *p;
	int err;

	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->wait = port->wait;
	p->tail = &p->head;
	p->source.due_ns = CLOCK_NEVER;
	err = wait_add(p->wait, &p->source, NULL);
	if (err) {
		free(p);
		return err;
	}
	port->priv = p;
	return 0;
}

static void delay_port_close(struct port *port)
{
	struct delay_port *p = port->priv;

	wait_remove(p->wait, &p->source);
	free(p);
}

static void delay_submit(struct port *port, struct io *io)
{
	const struct delay *delay = port->node->priv;
	struct delay_port *p = port->priv;

	if (!(delay->ops & 1u << io->op)) {
		port_submit(port->below, io);
		return;
	}
	io->held = clock_ns() + delay->us * 1000;
	io->next = NULL;
	*p->tail = io;
	p->tail = &io->next;
	p->source.due_ns = p->head->held;
}

static unsigned delay_turn(struct port *port)
{
	struct delay_port *p = port->priv;
	struct io *io;
	uint64_t now;
	unsigned n;

	if (!p->head)
		return 0;
	now = clock_ns();
	for (n = 0; p->head && p->head->held <= now; n++) {
		io = p->head;
		p->head = io->next;
		if (!p->head)
			p->tail = &p->head;
		port_submit(port->below, io);
	}
	p->source.due_ns = p->head ? p->head->held : CLOCK_NEVER;
	return n;
}

const struct driver delay_driver = {
	.name = "delay",
	.stats_type = -1,
	.below = DRIVER_ON_SPEC,
	.open = delay_open,
	.close = delay_close,
	.port_open = delay_port_open,
	.port_close = delay_port_close,
	.submit = delay_submit,
	.turn = delay_turn,
};
