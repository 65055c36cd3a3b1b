/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A listening unix socket of the main loop's: whoever connects becomes a
 * descriptor, and what it is for is the caller's business.  Out of
 * descriptors it rests instead of spinning.  Logs what it cannot do.
 */
#pragma once

#include <stdbool.h>
#include "poll/log.h"
#include "poll/loop.h"

struct nbd_listener {
	struct loop *loop;
	void (*fn)(void *arg, int fd); /* non-blocking; fn's from here on */
	void *arg;
	/* listener's own */
	char path[256];
	struct loop_watch watch; /* fd -1: closed */
	struct loop_timer rest;
	bool held;
	struct log_limit refusals;
};

/* loop, fn and arg are set, the rest is zero.  -ENOMEM, -errno, logged. */
int nbd_listener_open(struct nbd_listener *listener, const char *path);

/* Also removes the name.  Harmless if it was never open. */
void nbd_listener_close(struct nbd_listener *listener);

/* While held, those who connect wait in the kernel. */
void nbd_listener_hold(struct nbd_listener *listener, bool held);
