/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client half of the control wire for a program that has other things to
 * do: one request to one tapdisk, its reply, without ever waiting.
 *
 * What client.h is for tap-ctl this is for a main loop: whatever the tapdisk
 * does, stopped, silent, slow or gone, costs the others nothing.  Main thread
 * only.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "poll/loop.h"
#include "tools/ctl/client_request.h"

struct exchange {
	/*
	 * Called once, later, unless cancelled; it may start the exchange
	 * again or free it.  @err as client_call: what the tapdisk says, or
	 * how it could not be reached.  reply is all zero unless one came;
	 * text (with a NUL) goes with it and is gone after the call.
	 */
	void (*done)(struct exchange *exchange, int err);
	void *arg;
	bool keep; /* hand over the socket: of err 0, done owns kept_fd */
	int kept_fd;
	struct wire_message reply;
	char *text; /* NULL if there is none */
	size_t text_size;

	/* exchange's own; zero before the first use */
	struct loop *loop;
	struct loop_watch socket;
	struct loop_timer deadline;
	struct loop_timer connect;
	struct client_request request;
	int pid;
	size_t sent, received;
	bool running;
};

/*
 * Send @request, which is moved here, to the tapdisk of process @pid; not
 * while it is running.  All of it takes @timeout_ms at most (-ETIMEDOUT).
 */
void exchange_start(struct exchange *exchange, struct loop *loop, int pid,
		    struct client_request *request, uint64_t timeout_ms);

/* Harmless if it is not running.  The tapdisk may still do what was asked. */
void exchange_cancel(struct exchange *exchange);
