/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grammar of specs, the two tables, and the stacks of nodes and ports made
 * from them.  Knows that types exist and what each stands on, and nothing of
 * what any of them does with a byte.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "drivers/driver.h"
#include "drivers/drivers.h"
#include "poll/log.h"

enum {
	LEVELS_MAX = 8,
	TYPE_MAX = 31,
};

const struct driver *const driver_table[] = {
	&raw_driver,   &vhd_driver,   &ram_driver,    &null_driver,
	&fault_driver, &delay_driver, &record_driver, NULL,
};

const struct driver *const driver_store_table[] = {
	&aio_store,    &ram_driver,    &null_driver, &fault_driver,
	&delay_driver, &record_driver, NULL,
};

static int open_level(const char *spec, const struct driver *const *table,
		      unsigned flags, unsigned level, struct node **out);

static const struct driver *find(const struct driver *const *table,
				 const char *type, size_t len)
{
	for (; *table; table++)
		if (strlen((*table)->name) == len &&
		    !memcmp((*table)->name, type, len))
			return *table;
	return NULL;
}

static int open_store(const char *arg, unsigned flags, unsigned level,
		      struct node **out)
{
	char *spec;
	int err;

	if (arg[0] == '@')
		return open_level(arg + 1, driver_store_table, flags, level,
				  out);
	spec = malloc(sizeof("aio:") + strlen(arg));
	if (!spec)
		return -ENOMEM;
	strcpy(stpcpy(spec, "aio:"), arg);
	err = open_level(spec, driver_store_table, flags, level, out);
	free(spec);
	return err;
}

/*
 * Open what @node stands on.  @own gets what is @node's own share of its
 * argument, allocated.
 */
static int open_below(struct node *node, const struct driver *const *table,
		      unsigned level, char **own)
{
	const char *arg = node->arg, *end;

	if (node->driver->below != DRIVER_ON_SPEC) {
		*own = strdup(arg);
		if (!*own)
			return -ENOMEM;
		if (node->driver->below == DRIVER_ON_NOTHING)
			return 0;
		return open_store(arg, node->flags, level + 1, &node->below);
	}
	end = strchr(arg, ';');
	if (!end) {
		log_err("%s:%s: no ';' between options and spec",
			node->driver->name, arg);
		return -EINVAL;
	}
	*own = strndup(arg, (size_t)(end - arg));
	if (!*own)
		return -ENOMEM;
	return open_level(end + 1, table, node->flags, level + 1, &node->below);
}

static int open_node(const struct driver *driver, const char *arg,
		     const struct driver *const *table, unsigned flags,
		     unsigned level, struct node **out)
{
	struct node *node;
	char *own = NULL;
	int err = -ENOMEM;

	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->driver = driver;
	node->flags = flags;
	node->arg = strdup(arg);
	if (!node->arg)
		goto out;
	err = open_below(node, table, level, &own);
	if (err)
		goto out;
	if (node->below)
		node->info = node->below->info;
	err = driver->open(own, node->below, flags, &node->info, &node->priv);
	if (err)
		goto out;
	*out = node;
	node = NULL;
out:
	free(own);
	if (node) {
		driver_close(node->below);
		free(node->arg);
		free(node);
	}
	return err;
}

static int open_level(const char *spec, const struct driver *const *table,
		      unsigned flags, unsigned level, struct node **out)
{
	const char *colon = strchr(spec, ':');
	const struct driver *driver;
	size_t len;

	if (!colon) {
		log_err("%s: no colon: an image is named type:path", spec);
		return -EINVAL;
	}
	len = (size_t)(colon - spec);
	if (len > TYPE_MAX) {
		log_err("%s: a type of more than %d bytes", spec, TYPE_MAX);
		return -ENAMETOOLONG;
	}
	driver = find(table, spec, len);
	if (!driver) {
		log_err("%s: unknown type \"%.*s\"", spec, (int)len, spec);
		return -ENOENT;
	}
	if (level >= LEVELS_MAX) {
		log_err("%s: more than %d levels", spec, LEVELS_MAX);
		return -ELOOP;
	}
	return open_node(driver, colon + 1, table, flags, level, out);
}

/* The one failure that nobody below has a word for. */
static int say(const char *spec, int err)
{
	if (err == -ENOMEM)
		log_err("%s: %s", spec, strerror(ENOMEM));
	return err;
}

int driver_open(const char *spec, unsigned flags, struct node **out)
{
	return say(spec, open_level(spec, driver_table, flags, 0, out));
}

int driver_open_store(const char *arg, unsigned flags, struct node **out)
{
	return say(arg, open_store(arg, flags, 0, out));
}

void driver_close(struct node *node)
{
	struct node *below;

	for (; node; node = below) {
		below = node->below;
		if (node->driver->close)
			node->driver->close(node->priv);
		free(node->arg);
		free(node);
	}
}

int port_open(struct node *node, struct wait *wait, unsigned depth,
	      struct port **out)
{
	struct port *port;
	int err;

	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	port->node = node;
	port->wait = wait;
	port->depth = depth;
	if (node->below) {
		err = port_open(node->below, wait, depth, &port->below);
		if (err)
			goto out;
	}
	err = node->driver->port_open ? node->driver->port_open(port) : 0;
	if (err)
		goto out;
	*out = port;
	port = NULL;
out:
	if (port) {
		port_close(port->below);
		free(port);
	}
	return err;
}

void port_close(struct port *port)
{
	struct port *below;

	for (; port; port = below) {
		below = port->below;
		if (port->node->driver->port_close)
			port->node->driver->port_close(port);
		free(port);
	}
}

unsigned port_turn(struct port *port)
{
	unsigned n = 0;

	for (; port; port = port->below)
		if (port->node->driver->turn)
			n += port->node->driver->turn(port);
	return n;
}

int port_extents(struct port *port, uint64_t offset, uint64_t len,
		 struct extent *out, unsigned max)
{
	while (!port->node->driver->extents &&
	       port->node->driver->below == DRIVER_ON_SPEC)
		port = port->below;
	if (port->node->driver->extents)
		return port->node->driver->extents(port, offset, len, out, max);
	*out = (struct extent){ .len = len, .kind = EXTENT_DATA };
	return 1;
}
