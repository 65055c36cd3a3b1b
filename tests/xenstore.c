/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flat list of paths.  A transaction writes into it and remembers how it was;
 * that is enough, since tests have one thread and nothing comes in between
 * unless they ask for it.
 */
#include "tests/xenstore.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct node {
	char *path;
	char *value;
	unsigned len;
	unsigned stamp;
};

struct watch {
	char *path;
	char *token;
};

struct xenstore {
	struct store store;
	struct node *nodes;
	unsigned nr_nodes;
	struct watch *watches;
	unsigned nr_watches;
	struct watch *events; /* path and token */
	unsigned nr_events;
	int event_fd;
	uint32_t tx; /* the open one, or 0 */
	uint32_t last_tx;
	struct node *saved; /* of the open transaction */
	unsigned nr_saved;
	char **changed; /* in it */
	unsigned nr_changed;
	unsigned writes, interfere, stamp;
	int broken;
	bool lost;
	void (*before_commit)(void *arg);
	void *arg;
};

/* One more element at the end of an array. */
static void *grow(void *array, unsigned n, size_t size)
{
	array = realloc(array, (n + 1) * size);
	assert(array);
	return array;
}

static char *copy(const void *bytes, unsigned len)
{
	char *text = calloc(1, len + 1);

	assert(text);
	memcpy(text, bytes, len);
	return text;
}

static bool is_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return !strncmp(path, top, len) && (!path[len] || path[len] == '/');
}

static struct node *find(const struct xenstore *xs, const char *path)
{
	for (unsigned i = 0; i < xs->nr_nodes; i++)
		if (!strcmp(xs->nodes[i].path, path))
			return &xs->nodes[i];
	return NULL;
}

static void free_nodes(struct node *nodes, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		free(nodes[i].path);
		free(nodes[i].value);
	}
	free(nodes);
}

/* --- events */

/*
 * As libxenstore may have it, the descriptor tells of events once: whoever
 * takes one has to go on until there are none.
 */
static void announce(struct xenstore *xs, bool readable)
{
	uint64_t n = 1;

	if (readable)
		assert(write(xs->event_fd, &n, sizeof(n)) == sizeof(n));
	else if (read(xs->event_fd, &n, sizeof(n)) != sizeof(n))
		assert(errno == EAGAIN);
}

static void queue(struct xenstore *xs, const char *path, const char *token)
{
	xs->events = grow(xs->events, xs->nr_events, sizeof(*xs->events));
	xs->events[xs->nr_events].path = strdup(path);
	xs->events[xs->nr_events++].token = strdup(token);
	announce(xs, true);
}

static void fire(struct xenstore *xs, const char *path)
{
	for (unsigned i = 0; i < xs->nr_watches; i++) {
		const struct watch *w = &xs->watches[i];

		if (is_below(path, w->path))
			queue(xs, path, w->token);
		else if (is_below(w->path, path) && !find(xs, path))
			queue(xs, w->path, w->token); /* removed with it */
	}
}

static void changed(struct xenstore *xs, const char *path)
{
	if (!xs->tx) {
		fire(xs, path);
		return;
	}
	xs->changed = grow(xs->changed, xs->nr_changed, sizeof(char *));
	xs->changed[xs->nr_changed++] = strdup(path);
}

/* --- nodes */

static void set(struct xenstore *xs, const char *path, const void *bytes,
		unsigned len)
{
	struct node *node = find(xs, path);
	char parent[STORE_PATH_MAX];
	char *slash;

	if (!xs->tx)
		xs->stamp++;
	if (node) {
		node->stamp = xs->stamp;
		free(node->value);
		node->value = copy(bytes, len);
		node->len = len;
		return;
	}
	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (slash && slash != parent) {
		*slash = '\0';
		if (!find(xs, parent))
			set(xs, parent, "", 0);
	}
	xs->nodes = grow(xs->nodes, xs->nr_nodes, sizeof(*xs->nodes));
	node = &xs->nodes[xs->nr_nodes++];
	node->path = strdup(path);
	node->value = copy(bytes, len);
	node->len = len;
	node->stamp = xs->stamp;
}

static int drop(struct xenstore *xs, const char *path)
{
	unsigned kept = 0;

	if (!find(xs, path))
		return -ENOENT;
	for (unsigned i = 0; i < xs->nr_nodes; i++) {
		if (!is_below(xs->nodes[i].path, path)) {
			xs->nodes[kept++] = xs->nodes[i];
			continue;
		}
		free(xs->nodes[i].path);
		free(xs->nodes[i].value);
	}
	xs->nr_nodes = kept;
	return 0;
}

/* --- the user's side */

static struct xenstore *of(struct store *store)
{
	return (struct xenstore *)store;
}

static int xenstore_fd(struct store *store)
{
	return of(store)->event_fd;
}

static int xenstore_begin(struct store *store, uint32_t *tx)
{
	struct xenstore *xs = of(store);

	assert(!xs->tx);
	if (xs->broken)
		return xs->broken;
	*tx = xs->tx = ++xs->last_tx;
	xs->stamp++;
	return 0;
}

/* Only a transaction that writes has to remember. */
static void save(struct xenstore *xs)
{
	if (!xs->tx || xs->saved)
		return;
	xs->saved = calloc(xs->nr_nodes + 1, sizeof(*xs->saved));
	assert(xs->saved);
	xs->nr_saved = xs->nr_nodes;
	for (unsigned i = 0; i < xs->nr_nodes; i++) {
		xs->saved[i].path = strdup(xs->nodes[i].path);
		xs->saved[i].value = copy(xs->nodes[i].value, xs->nodes[i].len);
		xs->saved[i].len = xs->nodes[i].len;
		xs->saved[i].stamp = xs->nodes[i].stamp;
	}
}

static void forget_transaction(struct xenstore *xs)
{
	for (unsigned i = 0; i < xs->nr_changed; i++)
		free(xs->changed[i]);
	free(xs->changed);
	xs->changed = NULL;
	xs->nr_changed = 0;
	free_nodes(xs->saved, xs->nr_saved);
	xs->saved = NULL;
	xs->nr_saved = 0;
	xs->tx = 0;
}

static void undo(struct xenstore *xs)
{
	if (!xs->saved)
		return;
	free_nodes(xs->nodes, xs->nr_nodes);
	xs->nodes = xs->saved;
	xs->nr_nodes = xs->nr_saved;
	xs->saved = NULL;
	xs->nr_saved = 0;
}

static int xenstore_end(struct store *store, uint32_t tx, bool commit)
{
	struct xenstore *xs = of(store);
	void (*before)(void *) = xs->before_commit;
	int err = 0;

	assert(tx && tx == xs->tx);
	if (commit && (before || xs->interfere)) {
		err = -EAGAIN;
		xs->interfere -= xs->interfere > 0;
	}
	if (!commit || err < 0)
		undo(xs);
	else
		for (unsigned i = 0; i < xs->nr_changed; i++)
			fire(xs, xs->changed[i]);
	forget_transaction(xs);
	if (commit && before) {
		xs->before_commit = NULL;
		before(xs->arg);
	}
	return err;
}

static int xenstore_read(struct store *store, uint32_t tx, const char *path,
			 char *buf, size_t size)
{
	struct xenstore *xs = of(store);
	const struct node *node = find(xs, path);

	assert(tx == xs->tx);
	buf[0] = '\0';
	if (xs->broken)
		return xs->broken;
	if (!node)
		return -ENOENT;
	if (node->len >= size)
		return -E2BIG;
	if (memchr(node->value, 0, node->len))
		return -EINVAL;
	memcpy(buf, node->value, node->len + 1);
	return (int)node->len;
}

static int xenstore_write(struct store *store, uint32_t tx, const char *path,
			  const char *value)
{
	struct xenstore *xs = of(store);

	assert(tx == xs->tx);
	xs->writes++;
	save(xs);
	set(xs, path, value, (unsigned)strlen(value));
	changed(xs, path);
	return 0;
}

static int xenstore_remove(struct store *store, uint32_t tx, const char *path)
{
	struct xenstore *xs = of(store);
	int err;

	assert(tx == xs->tx);
	save(xs);
	err = drop(xs, path);
	if (err < 0)
		return err;
	xs->writes++;
	changed(xs, path);
	return 0;
}

static int xenstore_list(struct store *store, uint32_t tx, const char *path,
			 char ***names, unsigned *n)
{
	struct xenstore *xs = of(store);
	size_t len = strlen(path), bytes = sizeof(char *);
	const char *name;
	char *at;

	assert(tx == xs->tx);
	if (!find(xs, path))
		return -ENOENT;
	for (unsigned i = 0; i < xs->nr_nodes; i++)
		bytes += sizeof(char *) + strlen(xs->nodes[i].path) + 1;
	*names = calloc(1, bytes);
	assert(*names);
	at = (char *)(*names + xs->nr_nodes + 1);
	*n = 0;
	for (unsigned i = 0; i < xs->nr_nodes; i++) {
		name = xs->nodes[i].path + len + 1;
		if (!is_below(xs->nodes[i].path, path) ||
		    !xs->nodes[i].path[len] || strchr(name, '/'))
			continue;
		(*names)[(*n)++] = strcpy(at, name);
		at += strlen(name) + 1;
	}
	return 0;
}

static int xenstore_watch(struct store *store, const char *path,
			  const char *token)
{
	struct xenstore *xs = of(store);

	for (unsigned i = 0; i < xs->nr_watches; i++)
		if (!strcmp(xs->watches[i].path, path) &&
		    !strcmp(xs->watches[i].token, token))
			return -EEXIST;
	xs->watches = grow(xs->watches, xs->nr_watches, sizeof(*xs->watches));
	xs->watches[xs->nr_watches].path = strdup(path);
	xs->watches[xs->nr_watches++].token = strdup(token);
	queue(xs, path, token);
	return 0;
}

static int xenstore_unwatch(struct store *store, const char *path,
			    const char *token)
{
	struct xenstore *xs = of(store);

	for (unsigned i = 0; i < xs->nr_watches; i++) {
		if (strcmp(xs->watches[i].path, path) ||
		    strcmp(xs->watches[i].token, token))
			continue;
		free(xs->watches[i].path);
		free(xs->watches[i].token);
		xs->watches[i] = xs->watches[--xs->nr_watches];
		return 0;
	}
	return -ENOENT;
}

static int xenstore_next(struct store *store, struct store_event *out)
{
	struct xenstore *xs = of(store);
	struct watch event;

	announce(xs, false);
	if (xs->lost)
		return -EBADF;
	if (!xs->nr_events)
		return 0;
	event = xs->events[0];
	xs->nr_events--;
	memmove(xs->events, xs->events + 1, xs->nr_events * sizeof(event));
	snprintf(out->path, sizeof(out->path), "%s", event.path);
	snprintf(out->token, sizeof(out->token), "%s", event.token);
	free(event.path);
	free(event.token);
	return 1;
}

static const struct store_ops xenstore_ops = {
	.fd = xenstore_fd,
	.begin = xenstore_begin,
	.end = xenstore_end,
	.read = xenstore_read,
	.write = xenstore_write,
	.remove = xenstore_remove,
	.list = xenstore_list,
	.watch = xenstore_watch,
	.unwatch = xenstore_unwatch,
	.next = xenstore_next,
};

/* --- the test's side */

struct xenstore *xenstore_open(void)
{
	struct xenstore *xs = calloc(1, sizeof(*xs));

	assert(xs);
	xs->store.ops = &xenstore_ops;
	xs->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert(xs->event_fd >= 0);
	return xs;
}

struct store *xenstore_store(struct xenstore *xs)
{
	return &xs->store;
}

void xenstore_close(struct xenstore *xs)
{
	struct store_event event;

	xs->lost = false;
	while (xenstore_next(&xs->store, &event))
		;
	while (xs->nr_watches)
		xenstore_unwatch(&xs->store, xs->watches[0].path,
				 xs->watches[0].token);
	free_nodes(xs->nodes, xs->nr_nodes);
	free(xs->watches);
	free(xs->events);
	close(xs->event_fd);
	free(xs);
}

void xenstore_put(struct xenstore *xs, const char *value, const char *fmt, ...)
{
	char path[STORE_PATH_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	if (value)
		set(xs, path, value, (unsigned)strlen(value));
	else if (drop(xs, path) < 0)
		return;
	fire(xs, path);
}

void xenstore_put_bytes(struct xenstore *xs, const char *path,
			const void *bytes, unsigned len)
{
	set(xs, path, bytes, len);
	fire(xs, path);
}

const char *xenstore_peek(struct xenstore *xs, const char *fmt, ...)
{
	char path[STORE_PATH_MAX];
	const struct node *node;
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	node = find(xs, path);
	return node ? node->value : NULL;
}

unsigned xenstore_stamp(struct xenstore *xs, const char *fmt, ...)
{
	char path[STORE_PATH_MAX];
	const struct node *node;
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	node = find(xs, path);
	return node ? node->stamp : 0;
}

void xenstore_fire(struct xenstore *xs, const char *name)
{
	fire(xs, name);
}

unsigned xenstore_nodes(const struct xenstore *xs)
{
	return xs->nr_nodes;
}

unsigned xenstore_watches(const struct xenstore *xs)
{
	return xs->nr_watches;
}

unsigned xenstore_pending(const struct xenstore *xs)
{
	return xs->nr_events;
}

unsigned xenstore_writes(const struct xenstore *xs)
{
	return xs->writes;
}

void xenstore_interfere(struct xenstore *xs, unsigned n)
{
	xs->interfere = n;
}

void xenstore_before_commit(struct xenstore *xs, void (*fn)(void *arg),
			    void *arg)
{
	xs->before_commit = fn;
	xs->arg = arg;
}

void xenstore_lose(struct xenstore *xs)
{
	queue(xs, "", ""); /* to be readable */
	xs->lost = true;
}

void xenstore_break(struct xenstore *xs, int err)
{
	xs->broken = err;
}
