/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A xenstore in our own memory, for tapback's tests: nodes, watches and
 * transactions as xenstored has them, permissions and quotas not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "tools/tapback/store.h"

struct xenstore;

struct xenstore *xenstore_open(void);
struct store *xenstore_store(struct xenstore *xs);
void xenstore_close(struct xenstore *xs);

/* As the toolstack or a guest; @value NULL removes.  Paths by printf. */
void xenstore_put(struct xenstore *xs, const char *value, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The value, or NULL. */
const char *xenstore_peek(struct xenstore *xs, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Which write, or transaction, was the last to touch a node; 0: no such. */
unsigned xenstore_stamp(struct xenstore *xs, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A value of any bytes. */
void xenstore_put_bytes(struct xenstore *xs, const char *path,
			const void *bytes, unsigned len);

/* A special watch: "@releaseDomain". */
void xenstore_fire(struct xenstore *xs, const char *name);

unsigned xenstore_nodes(const struct xenstore *xs);
unsigned xenstore_watches(const struct xenstore *xs);
unsigned xenstore_pending(const struct xenstore *xs); /* events */
/* Writes and removals by the store's user, thus far. */
unsigned xenstore_writes(const struct xenstore *xs);

/* The next @n commits find that somebody interfered. */
void xenstore_interfere(struct xenstore *xs, unsigned n);
/* Call @fn before the next commit, which then has to be done again. */
void xenstore_before_commit(struct xenstore *xs, void (*fn)(void *arg),
			    void *arg);
/* xenstored dies: so do events. */
void xenstore_lose(struct xenstore *xs);
/* Every read fails with @err, until 0. */
void xenstore_break(struct xenstore *xs, int err);
