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

#define CLIENT_REQUEST_KEY_MAX 64
#define CLIENT_REQUEST_NO_MINOR (-1)

struct client_request {
	struct wire_message message;
	/* follows the message on the wire; client_request_fini frees it */
	unsigned char *extra;
	size_t extra_size;
};

/* A request of which nothing but the type and the minor matters. */
void client_request_init(struct client_request *request, uint16_t type,
			 uint16_t minor);
void client_request_fini(struct client_request *request);

/* Of OPEN all, of RESUME the three texts. */
struct client_request_image {
	const char *spec; /* RESUME: NULL is the same as before */
	const char *secondary; /* NULL: none */
	const char *log; /* changed blocks; NULL: not tracked */
	uint32_t flags; /* those that no other field implies */
	int32_t parent_minor; /* CLIENT_REQUEST_NO_MINOR */
	uint16_t timeout_s; /* 0: the tapdisk's default */
	const unsigned char *key;
	size_t key_size; /* 0: not encrypted; at most CLIENT_REQUEST_KEY_MAX */
};

/* -ENAMETOOLONG, -EINVAL (key), -ENOMEM; nothing to free then. */
int client_request_open(struct client_request *request, uint16_t minor,
			const struct client_request_image *image);
int client_request_resume(struct client_request *request, uint16_t minor,
			  const struct client_request_image *image);

void client_request_disconnect(struct client_request *request, uint16_t minor,
			       uint32_t domid, uint32_t devid);

/* One of ours, WIRE_CONNECT and up.  -EMSGSIZE, -ENOMEM. */
int client_request_json(struct client_request *request, uint16_t type,
			uint16_t minor, struct json_object *json);
