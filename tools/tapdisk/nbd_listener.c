/* SPDX-License-Identifier: BSD-3-Clause */
/* See nbd_listener.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/host.h"
#include "tools/tapdisk/nbd_listener.h"

#define BACKLOG 32
#define REST_NS (CLOCK_SECOND / 10)

static void watch(struct nbd_listener *listener)
{
	int err = loop_watch(listener->loop, &listener->watch,
			     listener->held ? 0 : EPOLLIN);

	if (err)
		loop_timer_set(listener->loop, &listener->rest, REST_NS);
}

static void rested(void *arg)
{
	watch(arg);
}

static void newcomer(void *arg, uint32_t events)
{
	struct nbd_listener *listener = arg;
	int fd;

	(void)events;
	fd = accept4(listener->watch.fd, NULL, NULL,
		     SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		listener->fn(listener->arg, fd);
		return;
	}
	if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return;
	if (log_allow(&listener->refusals, "nbd"))
		log_warn("nbd: %s: accept: %s", listener->path,
			 strerror(errno));
	loop_unwatch(listener->loop, &listener->watch);
	loop_timer_set(listener->loop, &listener->rest, REST_NS);
}

int nbd_listener_open(struct nbd_listener *listener, const char *path)
{
	int fd, err;

	listener->watch = (struct loop_watch){ -1, newcomer, listener };
	listener->rest.fn = rested;
	listener->rest.arg = listener;
	if (strlen(path) >= sizeof(listener->path)) {
		err = -ENAMETOOLONG;
		goto out;
	}
	fd = host_listen(path, BACKLOG);
	if (fd < 0) {
		err = fd;
		goto out;
	}
	strcpy(listener->path, path);
	listener->watch.fd = fd;
	err = loop_watch(listener->loop, &listener->watch, EPOLLIN);
	if (err)
		nbd_listener_close(listener);
out:
	if (err)
		log_err("nbd: %s: %s", path, strerror(-err));
	return err;
}

void nbd_listener_close(struct nbd_listener *listener)
{
	if (!listener->watch.fn || listener->watch.fd < 0)
		return;
	loop_timer_clear(listener->loop, &listener->rest);
	loop_unwatch(listener->loop, &listener->watch);
	close(listener->watch.fd);
	listener->watch.fd = -1;
	host_unlink(listener->path);
}

void nbd_listener_hold(struct nbd_listener *listener, bool held)
{
	listener->held = held;
	if (!listener->rest.armed)
		watch(listener);
}
