/* SPDX-License-Identifier: BSD-3-Clause */
/* See nbd_passed.h. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tools/tapdisk/nbd_passed.h"

static void drop(struct nbd_passed_peer *peer)
{
	if (peer->watch.fd < 0)
		return;
	loop_unwatch(peer->passed->listener.loop, &peer->watch);
	close(peer->watch.fd);
	peer->watch.fd = -1;
}

/* The first descriptor of the message; all others are closed.  -1: none. */
static int take_fd(struct msghdr *msg)
{
	struct cmsghdr *c;
	int first = -1, fd;
	size_t n;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (size_t i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (first < 0)
				first = fd;
			else
				close(fd);
		}
	}
	return first;
}

static bool is_connected_stream(int fd)
{
	int type = 0, listens = 1;
	socklen_t len = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) ||
	    type != SOCK_STREAM)
		return false;
	len = sizeof(listens);
	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) &&
	       !listens;
}

static void take(struct nbd_passed *passed, int fd, const char *name)
{
	if (fd >= 0 && is_connected_stream(fd)) {
		passed->fn(passed->arg, fd, name);
		return;
	}
	if (log_allow(&passed->listener.refusals, "nbd"))
		log_warn("nbd: %s: a message %s", passed->listener.path,
			 fd < 0 ? "without a descriptor"
				: "with something that is no stream socket");
	if (fd >= 0)
		close(fd);
}

static void message(void *arg, uint32_t events)
{
	struct nbd_passed_peer *peer = arg;
	char name[NBD_PASSED_NAME] = "", control[CMSG_SPACE(16 * sizeof(int))];
	struct iovec iov = { name, sizeof(name) - 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	(void)events;
	n = recvmsg(peer->watch.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	drop(peer);
	if (n > 0)
		take(peer->passed, take_fd(&msg), name);
}

static void newcomer(void *arg, int fd)
{
	struct nbd_passed *passed = arg;
	struct nbd_passed_peer *peer =
		&passed->peers[passed->next++ % NBD_PASSED_PEERS];

	drop(peer);
	peer->watch.fd = fd;
	if (loop_watch(passed->listener.loop, &peer->watch, EPOLLIN)) {
		close(fd);
		peer->watch.fd = -1;
	}
}

int nbd_passed_open(struct nbd_passed *passed, struct loop *loop,
		    const char *path)
{
	for (unsigned i = 0; i < NBD_PASSED_PEERS; i++) {
		struct nbd_passed_peer *peer = &passed->peers[i];

		peer->passed = passed;
		peer->watch = (struct loop_watch){ -1, message, peer };
	}
	passed->listener = (struct nbd_listener){ .loop = loop,
						  .fn = newcomer,
						  .arg = passed };
	return nbd_listener_open(&passed->listener, path);
}

void nbd_passed_close(struct nbd_passed *passed)
{
	if (!passed->listener.loop)
		return;
	nbd_listener_close(&passed->listener);
	for (unsigned i = 0; i < NBD_PASSED_PEERS; i++)
		drop(&passed->peers[i]);
}
