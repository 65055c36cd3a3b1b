/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One exchange with the tapdisk that the command line names, and the error
 * line when it fails.
 */
#pragma once

#include <stdint.h>
#include "tools/ctl/client_request.h"

struct json_object;
struct options;

/* For what only looks or answers at once; what waits for I/O has no limit. */
#define TALK_TIMEOUT_MS 10000

/* options->timeout_s in milliseconds, or CLIENT_FOREVER. */
int64_t talk_timeout(const struct options *options);

/* 0 or -errno of client_call, said. */
int talk(const struct options *options, int64_t timeout_ms,
	 const struct client_request *request);

/*
 * One of our own messages.  @reply is the JSON that came back (json_object_put
 * it).  0 or -errno, said; a tapdisk that does not speak them is named so.
 */
int talk_json(const struct options *options, uint16_t type,
	      struct json_object *json, struct json_object **reply);
