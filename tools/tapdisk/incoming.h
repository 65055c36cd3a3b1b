/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One request of the control wire, put together from whatever pieces arrive.
 *
 * Says how many bytes are still missing and refuses what can never become a
 * request; knows no socket, no clock and no command.  No length is believed
 * before it was checked.  Never logs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "tools/ctl/wire.h"

struct incoming {
	struct wire_message message;
	size_t have; /* bytes received, message and extra */
	size_t size; /* bytes it has in all, as far as known */
	uint8_t *extra; /* what follows the message; NULL if nothing does */
	size_t extra_size; /* bytes allocated */
};

void incoming_init(struct incoming *incoming);
void incoming_fini(struct incoming *incoming);

/* Where the next bytes go, and how many fit there; 0 once it is complete. */
size_t incoming_space(struct incoming *incoming, void **out);

/*
 * @n bytes were put there.  Returns 1 if the request is complete, 0 if more
 * is to come, -EINVAL if it is malformed (a path without an end, a JSON text
 * beyond WIRE_JSON_MAX, an impossible key size), -ENOMEM.
 */
int incoming_received(struct incoming *incoming, size_t n);

/* The JSON text after a message of our own types, not terminated. */
const char *incoming_json(const struct incoming *incoming, size_t *len);
