/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's half of the control socket: connections, their bytes and their
 * deadlines.  What a request means is the caller's business.
 *
 * One request a connection.  Whoever is slow, silent, half-closed or talks
 * nonsense harms nobody: nothing blocks, a request must be complete after ten
 * seconds, a reply must be taken without a pause of ten seconds, and a
 * newcomer takes the place of the oldest connection that is still talking.
 * Main thread only.  Logs refusals, rate-limited.
 */
#pragma once

#include <stddef.h>
#include "tools/tapdisk/incoming.h"

struct loop;
struct control;
struct control_client;

/*
 * A whole request has arrived.  @client stays until it was answered, with one
 * of the three calls below, even if its peer has gone meanwhile.
 */
struct control_handler {
	void (*fn)(void *arg, struct control_client *client);
	void *arg;
};

/* Listen at @path.  Logs.  -ENOMEM, or -errno of host_listen. */
int control_open(struct loop *loop, const char *path,
		 const struct control_handler *handler, struct control **out);

/* Nobody waits for an answer any more.  The rest is dropped as it is. */
void control_close(struct control *control);

const struct incoming *control_request(const struct control_client *client);

/*
 * Answer with @bytes, which are copied, and close when they are sent.  @client
 * is gone from here on.
 */
void control_reply(struct control_client *client, const void *bytes,
		   size_t len);

/*
 * The same, but the connection stays, and receives what is broadcast until its
 * peer hangs up or stops reading.  -EBUSY if there are too many of these, and
 * then the client still waits for an answer.
 */
int control_reply_and_keep(struct control_client *client, const void *bytes,
			   size_t len);

/* For everybody who was kept. */
void control_broadcast(struct control *control, const char *text, size_t len);

/* Refuse newcomers, remove the socket's name. */
void control_stop(struct control *control);

/* After control_stop: call @fn once when the last answer was sent. */
void control_when_idle(struct control *control, void (*fn)(void *), void *arg);
