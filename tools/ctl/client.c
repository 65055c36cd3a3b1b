/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A non-blocking socket and poll(2) against one deadline.  It judges how long
 * something takes and whether bytes arrive, not what they say.
 */
#include "tools/ctl/client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/host.h"

#define MS UINT64_C(1000000)
#define CONNECT_RETRY_MS 10

/* Milliseconds until the deadline, rounded up, for poll(2). */
static int time_left(const struct client *client)
{
	uint64_t now, ms;

	if (client->deadline_ns == CLOCK_NEVER)
		return -1;
	now = clock_ns();
	if (now >= client->deadline_ns)
		return 0;
	ms = (client->deadline_ns - now + MS - 1) / MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* Until the socket is ready.  A signal only makes us look at the clock. */
static int wait_ready(const struct client *client, short events)
{
	struct pollfd pfd = { .fd = client->fd, .events = events };
	int left, n;

	for (;;) {
		left = time_left(client);
		n = poll(&pfd, 1, left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && left != INT_MAX)
			return -ETIMEDOUT;
	}
}

int client_open(int pid, int64_t timeout_ms, struct client *out)
{
	char path[PATH_MAX];
	int left, n;

	out->fd = -1;
	out->deadline_ns = CLOCK_NEVER;
	if (timeout_ms >= 0)
		out->deadline_ns = clock_ns() + (uint64_t)timeout_ms * MS;
	if (pid <= 0)
		return -EINVAL;
	n = snprintf(path, sizeof(path), "%s/ctl%d", host_run_dir(), pid);
	if (n >= (int)sizeof(path))
		return -ENAMETOOLONG;
	for (;;) {
		out->fd = host_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
		if (out->fd >= 0)
			return 0;
		if (out->fd != -EAGAIN)
			return out->fd;
		/* its backlog is full, and no event tells when it is not */
		left = time_left(out);
		if (left == 0)
			return -ETIMEDOUT;
		if (left < 0 || left > CONNECT_RETRY_MS)
			left = CONNECT_RETRY_MS;
		poll(NULL, 0, left);
	}
}

void client_close(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
}

/* 1 if the peer hung up, 0, -errno. */
static int send_bytes(struct client *client, const void *buf, size_t size)
{
	const char *from = buf;
	ssize_t n;
	int err;

	while (size) {
		n = send(client->fd, from, size, MSG_NOSIGNAL);
		if (n >= 0) {
			from += n;
			size -= (size_t)n;
			continue;
		}
		if (errno == EPIPE || errno == ECONNRESET)
			return 1;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		err = wait_ready(client, POLLOUT);
		if (err < 0)
			return err;
	}
	return 0;
}

int client_send(struct client *client, const struct client_request *request)
{
	int err;

	err = send_bytes(client, &request->message, sizeof(request->message));
	if (err == 0)
		err = send_bytes(client, request->extra, request->extra_size);
	return err < 0 ? err : 0;
}

int client_receive(struct client *client, void *buf, size_t size)
{
	char *to = buf;
	ssize_t n;
	int err;

	while (size) {
		n = recv(client->fd, to, size, 0);
		if (n > 0) {
			to += n;
			size -= (size_t)n;
			continue;
		}
		if (n == 0 || errno == ECONNRESET)
			return -EPROTO;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		err = wait_ready(client, POLLIN);
		if (err < 0)
			return err;
	}
	return 0;
}

/* Those whose payload is an error number; the others say so by their type. */
static int result_number(const struct wire_message *reply)
{
	switch (reply->type) {
	case WIRE_ERROR:
	case WIRE_ATTACH_RSP:
	case WIRE_PAUSE_RSP:
	case WIRE_RESUME_RSP:
	case WIRE_CLOSE_RSP:
	case WIRE_DETACH_RSP:
	case WIRE_XENBLKIF_CONNECT_RSP:
	case WIRE_XENBLKIF_DISCONNECT_RSP:
		return reply->u.response.error;
	default:
		return 0;
	}
}

int client_result(uint16_t type, const struct wire_message *reply)
{
	uint16_t expected = type + 1;
	int number = result_number(reply);

	if (type == WIRE_FORCE_SHUTDOWN)
		expected = WIRE_CLOSE_RSP;
	/* what the kernel calls an error number; 0 in an ERROR is none */
	if (number < 0 || number > 4095)
		return -EPROTO;
	if (reply->type == WIRE_ERROR)
		return number ? -number : -EPROTO;
	if (reply->type != expected)
		return -EPROTO;
	return -number;
}

/* As client_call, but leaves the connection open for what follows. */
static int exchange(struct client *client, int pid, int64_t timeout_ms,
		    const struct client_request *request,
		    struct wire_message *reply)
{
	struct wire_message message;
	int err;

	memset(reply, 0, sizeof(*reply));
	err = client_open(pid, timeout_ms, client);
	if (err < 0)
		return err;
	err = client_send(client, request);
	if (err < 0)
		return err;
	err = client_receive(client, &message, sizeof(message));
	if (err < 0)
		return err;
	*reply = message;
	return client_result(request->message.type, reply);
}

int client_call(int pid, int64_t timeout_ms,
		const struct client_request *request,
		struct wire_message *reply)
{
	struct client client;
	int err;

	err = exchange(&client, pid, timeout_ms, request, reply);
	client_close(&client);
	return err;
}

int client_call_text(int pid, int64_t timeout_ms,
		     const struct client_request *request,
		     struct wire_message *reply, char **text, size_t *size)
{
	struct client client;
	char *buf = NULL;
	uint64_t length;
	int err;

	err = exchange(&client, pid, timeout_ms, request, reply);
	if (err < 0)
		goto out;
	length = reply->u.info.length;
	if (length > CLIENT_TEXT_MAX) {
		err = -EPROTO;
		goto out;
	}
	buf = malloc(length + 1);
	if (!buf) {
		err = -ENOMEM;
		goto out;
	}
	err = client_receive(&client, buf, length);
	if (err < 0)
		goto out;
	buf[length] = '\0';
	*text = buf;
	*size = length;
	buf = NULL;
out:
	free(buf);
	client_close(&client);
	return err;
}
