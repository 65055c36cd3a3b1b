/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client writes to a tapdisk, byte for byte: the 544-byte message and
 * what follows it.  Pure: no socket, no log.  client.h sends it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "tools/ctl/wire.h"

struct json_object;

#define REQUEST_KEY_MAX 64
#define REQUEST_NO_MINOR (-1)

struct request {
	struct wire_message message;
	/* follows the message on the wire; request_fini frees it */
	unsigned char *extra;
	size_t extra_size;
};

/* A request of which nothing but the type and the minor matters. */
void request_init(struct request *request, uint16_t type, uint16_t minor);
void request_fini(struct request *request);

/* Of OPEN all, of RESUME the three texts. */
struct request_image {
	const char *spec; /* RESUME: NULL is the same as before */
	const char *secondary; /* NULL: none */
	const char *log; /* changed blocks; NULL: not tracked */
	uint32_t flags; /* those that no other field implies */
	int32_t parent_minor; /* REQUEST_NO_MINOR */
	uint16_t timeout_s; /* 0: the tapdisk's default */
	const unsigned char *key;
	size_t key_size; /* 0: not encrypted; at most REQUEST_KEY_MAX */
};

/* -ENAMETOOLONG, -EINVAL (key), -ENOMEM; nothing to free then. */
int request_open(struct request *request, uint16_t minor,
		 const struct request_image *image);
int request_resume(struct request *request, uint16_t minor,
		   const struct request_image *image);

void request_disconnect(struct request *request, uint16_t minor, uint32_t domid,
			uint32_t devid);

/* One of ours, WIRE_CONNECT and up.  -EMSGSIZE, -ENOMEM. */
int request_json(struct request *request, uint16_t type, uint16_t minor,
		 struct json_object *json);
