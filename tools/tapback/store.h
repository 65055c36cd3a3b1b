/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All that tapback asks of xenstore, as a table, so that it runs against the
 * real one (store_xen.c) and, in the tests, against one in its own memory.
 * Refuses to know what any path means.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_PATH_MAX 1024
#define STORE_TOKEN_MAX 64
#define STORE_VALUE_MAX 256 /* no value that means anything is longer */
#define STORE_NO_TX 0

struct store;

struct store_event {
	char path[STORE_PATH_MAX]; /* what changed: @watched or below it */
	char token[STORE_TOKEN_MAX];
};

struct store_ops {
	void (*close)(struct store *store);
	/* Readable while there may be events. */
	int (*fd)(struct store *store);

	/* -ENOMEM, -errno. */
	int (*begin)(struct store *store, uint32_t *tx);
	/* -EAGAIN if somebody else changed what this saw: do it all again. */
	int (*end)(struct store *store, uint32_t tx, bool commit);

	/* Length of the value; -ENOENT, -EINVAL (a NUL in it), -E2BIG. */
	int (*read)(struct store *store, uint32_t tx, const char *path,
		    char *buf, size_t size);
	int (*write)(struct store *store, uint32_t tx, const char *path,
		     const char *value);
	/* With all below it.  -ENOENT. */
	int (*remove)(struct store *store, uint32_t tx, const char *path);
	/* Names below @path in one block that the caller frees; -ENOENT. */
	int (*list)(struct store *store, uint32_t tx, const char *path,
		    char ***names, unsigned *n);

	/* The first event comes at once, whether the path is there or not. */
	int (*watch)(struct store *store, const char *path, const char *token);
	int (*unwatch)(struct store *store, const char *path,
		       const char *token);
	/* 1, 0 if there is none now, -errno if the connection is lost. */
	int (*next)(struct store *store, struct store_event *out);
};

struct store {
	const struct store_ops *ops;
};

/* The value of DIR/KEY as text of at most STORE_VALUE_MAX bytes; as read. */
int store_get(struct store *store, uint32_t tx, const char *dir,
	      const char *key, char out[STORE_VALUE_MAX]);

/*
 * Make DIR/KEY say @value; NULL: not be there.  What says so already is left
 * alone, so that nobody who watches it is woken.  As read, write, remove.
 */
int store_put(struct store *store, uint32_t tx, const char *dir,
	      const char *key, const char *value);
int store_put_number(struct store *store, uint32_t tx, const char *dir,
		     const char *key, uint64_t value);
