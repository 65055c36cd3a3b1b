/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client half of the control wire: one request to one tapdisk, its reply.
 *
 * Every call is given a budget for all that it does, connecting included, and
 * keeps it whatever the other side does: stopped, silent, slow or gone.  Knows
 * nothing of what the requests mean.  Not for tapdisk, which serves.  Never
 * logs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "tools/ctl/client_request.h"

#define CLIENT_FOREVER (-1)
#define CLIENT_TEXT_MAX (16 << 20) /* most bytes a reply may carry */

struct client {
	int fd;
	uint64_t deadline_ns; /* CLOCK_NEVER */
};

/*
 * Connect to the tapdisk of process @pid.  All further calls on @out share
 * what is left of @timeout_ms; 0 does what can be done without waiting.
 * -EINVAL (pid), -ENOENT (no such tapdisk), -ECONNREFUSED (it died and left
 * its socket), -ENAMETOOLONG, -ETIMEDOUT, -errno of socket.
 */
int client_open(int pid, int64_t timeout_ms, struct client *out);
void client_close(struct client *client);

/*
 * Send it all.  A peer that hangs up meanwhile is no error: it may have
 * answered first.  -ETIMEDOUT, -errno.
 */
int client_send(struct client *client, const struct client_request *request);

/* Read @size bytes.  -EPROTO if fewer come, -ETIMEDOUT, -errno. */
int client_receive(struct client *client, void *buf, size_t size);

/*
 * What @reply says to a request of @type: 0, -errno that the tapdisk sent, or
 * -EPROTO if it answers something else.
 */
int client_result(uint16_t type, const struct wire_message *reply);

/*
 * One whole exchange: open, send, receive, result.  @reply is all zero unless
 * one came; so reply->type == WIRE_ERROR tells the tapdisk's refusal from a
 * failure to reach it.  Errors of all of the above.
 */
int client_call(int pid, int64_t timeout_ms,
		const struct client_request *request,
		struct wire_message *reply);

/*
 * The same for replies that carry text (STATS, ours): @text gets it with a
 * NUL, @size its length; the caller frees it.  Also -ENOMEM, and -EPROTO for
 * more than CLIENT_TEXT_MAX.
 */
int client_call_text(int pid, int64_t timeout_ms,
		     const struct client_request *request,
		     struct wire_message *reply, char **text, size_t *size);
