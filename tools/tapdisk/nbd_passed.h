/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A unix socket that takes connected sockets from other processes: connect,
 * one message with a name as its text and the descriptor in SCM_RIGHTS.
 * Non-blocking: who connects and says nothing is in nobody's way.  Logs what
 * it refuses, rate-limited.
 */
#pragma once

#include "tools/tapdisk/nbd_listener.h"

#define NBD_PASSED_PEERS 8 /* connected and silent; then the oldest goes */
#define NBD_PASSED_NAME 40 /* bytes of a name, with its NUL */

struct nbd_passed;

struct nbd_passed_peer {
	struct nbd_passed *passed;
	struct loop_watch watch; /* fd -1: free */
};

struct nbd_passed {
	/* a stream socket; fn's from here on.  @name is cut if too long. */
	void (*fn)(void *arg, int fd, const char *name);
	void *arg;
	/* passed's own */
	struct nbd_listener listener;
	struct nbd_passed_peer peers[NBD_PASSED_PEERS];
	unsigned next;
};

/* fn and arg are set, the rest is zero.  As nbd_listener_open. */
int nbd_passed_open(struct nbd_passed *passed, struct loop *loop,
		    const char *path);
void nbd_passed_close(struct nbd_passed *passed); /* as nbd_listener_close */
