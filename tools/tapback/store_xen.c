/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libxenstore behind struct store_ops.  false/errno becomes -errno here and
 * nowhere else.  Every call is a round trip to xenstored, which we trust to
 * answer: it is as privileged as we are, and nothing works without it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xenstore.h>
#include "tools/tapback/store_xen.h"

struct store_xen {
	struct store store;
	struct xs_handle *xs;
};

static struct xs_handle *handle(struct store *store)
{
	return ((struct store_xen *)store)->xs;
}

/* Some of its failures leave errno as it was. */
static int failure(void)
{
	return errno ? -errno : -EIO;
}

static void store_xen_close(struct store *store)
{
	xs_close(handle(store));
	free(store);
}

static int store_xen_fd(struct store *store)
{
	return xs_fileno(handle(store));
}

static int store_xen_begin(struct store *store, uint32_t *tx)
{
	errno = 0;
	*tx = xs_transaction_start(handle(store));
	return *tx == XBT_NULL ? failure() : 0;
}

static int store_xen_end(struct store *store, uint32_t tx, bool commit)
{
	errno = 0;
	return xs_transaction_end(handle(store), tx, !commit) ? 0 : failure();
}

static int store_xen_read(struct store *store, uint32_t tx, const char *path,
			  char *buf, size_t size)
{
	unsigned len = 0;
	char *value;
	int ret;

	errno = 0;
	value = xs_read(handle(store), tx, path, &len);
	if (!value)
		return failure();
	if (len >= size)
		ret = -E2BIG;
	else if (memchr(value, 0, len))
		ret = -EINVAL;
	else
		ret = (int)len;
	if (ret >= 0)
		memcpy(buf, value, len);
	buf[ret >= 0 ? len : 0] = '\0';
	free(value);
	return ret;
}

static int store_xen_write(struct store *store, uint32_t tx, const char *path,
			   const char *value)
{
	errno = 0;
	return xs_write(handle(store), tx, path, value, (unsigned)strlen(value))
		       ? 0
		       : failure();
}

static int store_xen_remove(struct store *store, uint32_t tx, const char *path)
{
	errno = 0;
	return xs_rm(handle(store), tx, path) ? 0 : failure();
}

static int store_xen_list(struct store *store, uint32_t tx, const char *path,
			  char ***names, unsigned *n)
{
	errno = 0;
	*names = xs_directory(handle(store), tx, path, n);
	return *names ? 0 : failure();
}

static int store_xen_watch(struct store *store, const char *path,
			   const char *token)
{
	errno = 0;
	return xs_watch(handle(store), path, token) ? 0 : failure();
}

static int store_xen_unwatch(struct store *store, const char *path,
			     const char *token)
{
	errno = 0;
	return xs_unwatch(handle(store), path, token) ? 0 : failure();
}

static int store_xen_next(struct store *store, struct store_event *out)
{
	char **event;

	errno = 0;
	event = xs_check_watch(handle(store));
	if (!event)
		return errno == EAGAIN ? 0 : failure();
	/* a path longer than any that we watch for is no news for us */
	if (strlen(event[XS_WATCH_PATH]) >= sizeof(out->path) ||
	    strlen(event[XS_WATCH_TOKEN]) >= sizeof(out->token)) {
		out->path[0] = out->token[0] = '\0';
	} else {
		snprintf(out->path, sizeof(out->path), "%s",
			 event[XS_WATCH_PATH]);
		snprintf(out->token, sizeof(out->token), "%s",
			 event[XS_WATCH_TOKEN]);
	}
	free(event);
	return 1;
}

static const struct store_ops store_xen_ops = {
	.close = store_xen_close,
	.fd = store_xen_fd,
	.begin = store_xen_begin,
	.end = store_xen_end,
	.read = store_xen_read,
	.write = store_xen_write,
	.remove = store_xen_remove,
	.list = store_xen_list,
	.watch = store_xen_watch,
	.unwatch = store_xen_unwatch,
	.next = store_xen_next,
};

int store_xen_open(struct store **out)
{
	struct store_xen *xen = calloc(1, sizeof(*xen));
	int err;

	if (!xen)
		return -ENOMEM;
	errno = 0;
	/* XS_UNWATCH_FILTER leaks what it filters; stale events do no harm */
	xen->xs = xs_open(0);
	if (!xen->xs) {
		err = failure();
		free(xen);
		return err;
	}
	xen->store.ops = &store_xen_ops;
	*out = &xen->store;
	return 0;
}
