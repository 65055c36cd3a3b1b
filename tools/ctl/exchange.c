/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A socket in the loop and two timers: the deadline, and the next attempt to
 * connect to a socket whose backlog is full, which no event announces.
 */
#include "tools/ctl/exchange.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "poll/host.h"
#include "tools/ctl/client.h"

#define MS UINT64_C(1000000)
#define CONNECT_RETRY_MS 10

/* Leaves reply and text for whoever is told. */
static void stop(struct exchange *exchange)
{
	loop_timer_clear(exchange->loop, &exchange->deadline);
	loop_timer_clear(exchange->loop, &exchange->connect);
	if (exchange->socket.fd >= 0)
		loop_unwatch(exchange->loop, &exchange->socket);
	client_request_fini(&exchange->request);
	exchange->running = false;
}

static void finish(struct exchange *exchange, int err)
{
	int fd = exchange->socket.fd;
	char *text = exchange->text;

	stop(exchange);
	exchange->socket.fd = -1;
	exchange->kept_fd = -1;
	if (exchange->keep && err == 0)
		exchange->kept_fd = fd;
	else if (fd >= 0)
		close(fd);
	exchange->done(exchange, err); /* may have freed it */
	free(text);
}

/* 1 if it is all sent or the peer hung up (it may have answered), 0, -errno. */
static int send_rest(struct exchange *exchange)
{
	const struct client_request *request = &exchange->request;
	const size_t head = sizeof(request->message);
	const char *from;
	size_t left;
	ssize_t n;

	while (exchange->sent < head + request->extra_size) {
		if (exchange->sent < head) {
			from = (const char *)&request->message + exchange->sent;
			left = head - exchange->sent;
		} else {
			from = (const char *)request->extra +
			       (exchange->sent - head);
			left = head + request->extra_size - exchange->sent;
		}
		n = send(exchange->socket.fd, from, left, MSG_NOSIGNAL);
		if (n >= 0)
			exchange->sent += (size_t)n;
		else if (errno == EAGAIN)
			return 0;
		else if (errno == EPIPE || errno == ECONNRESET)
			break;
		else if (errno != EINTR)
			return -errno;
	}
	exchange->sent = SIZE_MAX;
	return 1;
}

/* Bytes of text that follow the reply, as it says: -EPROTO for too many. */
static int begin_text(struct exchange *exchange)
{
	const struct wire_message *reply = &exchange->reply;

	if (reply->type < WIRE_CONNECT || reply->u.info.length == 0)
		return 0;
	if (reply->u.info.length > WIRE_JSON_MAX)
		return -EPROTO;
	exchange->text = calloc(1, reply->u.info.length + 1);
	if (!exchange->text)
		return -ENOMEM;
	exchange->text_size = reply->u.info.length;
	return 0;
}

/* 1 if it is all there, 0, -errno. */
static int receive_rest(struct exchange *exchange)
{
	const size_t head = sizeof(exchange->reply);
	char *to;
	size_t left;
	ssize_t n;
	int err;

	while (exchange->received < head + exchange->text_size) {
		if (exchange->received < head) {
			to = (char *)&exchange->reply + exchange->received;
			left = head - exchange->received;
		} else {
			to = exchange->text + (exchange->received - head);
			left = head + exchange->text_size - exchange->received;
		}
		n = recv(exchange->socket.fd, to, left, 0);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return -EPROTO;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		exchange->received += (size_t)n;
		if (exchange->received != head || exchange->text)
			continue;
		err = begin_text(exchange);
		if (err < 0)
			return err;
	}
	return 1;
}

static void ready(void *arg, uint32_t events)
{
	struct exchange *exchange = arg;
	int ret = 1;

	(void)events;
	if (exchange->sent != SIZE_MAX) {
		ret = send_rest(exchange);
		if (ret == 1)
			ret = loop_watch(exchange->loop, &exchange->socket,
					 EPOLLIN);
		if (ret < 0)
			finish(exchange, ret);
		return;
	}
	ret = receive_rest(exchange);
	if (ret < 0) {
		/* half a reply is none */
		memset(&exchange->reply, 0, sizeof(exchange->reply));
		finish(exchange, ret);
	} else if (ret == 1) {
		finish(exchange, client_result(exchange->request.message.type,
					       &exchange->reply));
	}
}

static void connect_now(void *arg)
{
	struct exchange *exchange = arg;
	char path[PATH_MAX];
	int n, err;

	n = snprintf(path, sizeof(path), "%s/ctl%d", host_run_dir(),
		     exchange->pid);
	if (exchange->pid <= 0 || n >= (int)sizeof(path)) {
		finish(exchange, exchange->pid <= 0 ? -EINVAL : -ENAMETOOLONG);
		return;
	}
	exchange->socket.fd = host_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
	if (exchange->socket.fd == -EAGAIN) {
		loop_timer_set(exchange->loop, &exchange->connect,
			       CONNECT_RETRY_MS * MS);
		return;
	}
	err = exchange->socket.fd;
	if (err >= 0)
		err = loop_watch(exchange->loop, &exchange->socket, EPOLLOUT);
	if (err < 0)
		finish(exchange, err);
}

static void too_late(void *arg)
{
	struct exchange *exchange = arg;

	memset(&exchange->reply, 0, sizeof(exchange->reply));
	finish(exchange, -ETIMEDOUT);
}

void exchange_start(struct exchange *exchange, struct loop *loop, int pid,
		    struct client_request *request, uint64_t timeout_ms)
{
	exchange->loop = loop;
	exchange->pid = pid;
	exchange->request = *request;
	memset(request, 0, sizeof(*request));
	memset(&exchange->reply, 0, sizeof(exchange->reply));
	exchange->text = NULL;
	exchange->text_size = 0;
	exchange->sent = exchange->received = 0;
	exchange->running = true;
	exchange->socket.fd = -1;
	exchange->socket.fn = ready;
	exchange->deadline.fn = too_late;
	exchange->connect.fn = connect_now;
	exchange->socket.arg = exchange->deadline.arg = exchange->connect.arg =
		exchange;
	loop_timer_set(loop, &exchange->deadline, timeout_ms * MS);
	/* from the loop, so that done is never called from in here */
	loop_timer_set(loop, &exchange->connect, 0);
}

void exchange_cancel(struct exchange *exchange)
{
	if (!exchange->running)
		return;
	stop(exchange);
	if (exchange->socket.fd >= 0)
		close(exchange->socket.fd);
	exchange->socket.fd = -1;
	free(exchange->text);
	exchange->text = NULL;
}
