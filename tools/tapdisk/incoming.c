/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a request is, told by its own first bytes: the message says what
 * follows it, and a key says how long it is.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include "tools/tapdisk/incoming.h"

#define KEY_SIZE_MAX 128

void incoming_init(struct incoming *incoming)
{
	memset(incoming, 0, sizeof(*incoming));
	incoming->size = WIRE_SIZE;
}

void incoming_fini(struct incoming *incoming)
{
	free(incoming->extra);
	incoming->extra = NULL;
}

/* OPEN with a key: one byte that says how long the key is, then the key. */
static ssize_t key_bytes(const struct incoming *incoming, size_t at)
{
	uint8_t size;

	if (incoming->have <= WIRE_SIZE + at)
		return 1;
	size = incoming->extra[at];
	if (size == 0 || size > KEY_SIZE_MAX)
		return -EINVAL;
	return 1 + size;
}

/* Bytes after the message, as far as what has arrived can tell; -EINVAL. */
static ssize_t extra_bytes(const struct incoming *incoming)
{
	const struct wire_message *m = &incoming->message;
	ssize_t bytes = 0, key;

	if (m->type >= WIRE_CONNECT)
		return m->u.info.length <= WIRE_JSON_MAX
			       ? (ssize_t)m->u.info.length
			       : -EINVAL;
	/* Whatever the type: callers zero the area, upstream relies on it. */
	if (!memchr(m->u.params.path, 0, sizeof(m->u.params.path)))
		return -EINVAL;
	if (m->type != WIRE_OPEN && m->type != WIRE_RESUME)
		return 0;
	if (m->u.params.flags & WIRE_ADD_LOG)
		bytes = WIRE_LOG_PATH_SIZE;
	if (m->type == WIRE_OPEN && (m->u.params.flags & WIRE_OPEN_ENCRYPTED)) {
		key = key_bytes(incoming, (size_t)bytes);
		if (key < 0)
			return key;
		bytes += key;
	}
	return bytes;
}

static int make_room(struct incoming *incoming, size_t bytes)
{
	uint8_t *extra;

	if (bytes <= incoming->extra_size)
		return 0;
	extra = realloc(incoming->extra, bytes);
	if (!extra)
		return -ENOMEM;
	incoming->extra = extra;
	incoming->extra_size = bytes;
	return 0;
}

size_t incoming_space(struct incoming *incoming, void **out)
{
	if (incoming->have < WIRE_SIZE) {
		*out = (uint8_t *)&incoming->message + incoming->have;
		return WIRE_SIZE - incoming->have;
	}
	*out = incoming->extra + (incoming->have - WIRE_SIZE);
	return incoming->size - incoming->have;
}

int incoming_received(struct incoming *incoming, size_t n)
{
	ssize_t extra;
	int err;

	assert(n <= incoming->size - incoming->have);
	incoming->have += n;
	if (incoming->have < incoming->size)
		return 0;
	extra = extra_bytes(incoming);
	if (extra < 0)
		return (int)extra;
	err = make_room(incoming, (size_t)extra);
	if (err < 0)
		return err;
	incoming->size = WIRE_SIZE + (size_t)extra;
	return incoming->have == incoming->size;
}

const char *incoming_json(const struct incoming *incoming, size_t *len)
{
	assert(incoming->message.type >= WIRE_CONNECT);
	*len = incoming->size - WIRE_SIZE;
	return (const char *)incoming->extra;
}
