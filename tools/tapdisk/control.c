/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections and what they are doing: reading a request, waiting for its
 * answer, writing it, or being kept for events.  Each kind has its own limit,
 * so that none can keep another out.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/host.h"
#include "poll/log.h"
#include "poll/loop.h"
#include "tools/tapdisk/control.h"

#define BACKLOG 32
#define TALKERS_MAX 16 /* reading or writing */
#define KEPT_MAX 16
#define KEPT_BYTES_MAX 4096 /* not yet taken by a kept one's peer */
#define PATIENCE_NS (10 * CLOCK_SECOND)
#define ACCEPT_REST_NS (CLOCK_SECOND / 10)

enum client_state { READING, WAITING, WRITING, KEPT };

struct control_client {
	struct control *control;
	struct control_client *next; /* younger */
	enum client_state state;
	struct loop_watch watch;
	struct loop_timer deadline;
	struct incoming request;
	char *out; /* bytes to send */
	size_t out_len, out_sent;
};

struct control {
	struct loop *loop;
	struct control_handler handler;
	char *path;
	struct loop_watch listener; /* fd -1: stopped */
	struct loop_timer rest; /* out of descriptors: do not spin */
	struct control_client *clients; /* oldest first */
	struct log_limit refusals;
	void (*idle)(void *arg);
	void *idle_arg;
	struct loop_defer tell_idle;
};

static unsigned count(const struct control *control, enum client_state state)
{
	unsigned n = 0;

	for (const struct control_client *c = control->clients; c; c = c->next)
		n += c->state == state;
	return n;
}

static bool is_idle(const struct control *control)
{
	return count(control, WAITING) == 0 && count(control, WRITING) == 0;
}

static void check_idle(struct control *control)
{
	if (control->idle && is_idle(control))
		loop_defer(control->loop, &control->tell_idle);
}

static void tell_idle(void *arg)
{
	struct control *control = arg;
	void (*fn)(void *) = control->idle;

	/* A request may have become complete since; its drop() calls again. */
	if (!is_idle(control))
		return;
	control->idle = NULL;
	fn(control->idle_arg);
}

static void drop(struct control_client *client)
{
	struct control *control = client->control;
	struct control_client **link = &control->clients;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	loop_timer_clear(control->loop, &client->deadline);
	loop_unwatch(control->loop, &client->watch);
	close(client->watch.fd);
	incoming_fini(&client->request);
	free(client->out);
	free(client);
	check_idle(control);
}

static void out_of_patience(void *arg)
{
	struct control_client *client = arg;

	if (log_allow(&client->control->refusals, "control"))
		log_warn("control: a client is too slow: %s",
			 client->state == READING
				 ? "its request is not complete"
				 : "it does not take its reply");
	drop(client);
}

/*
 * Send what can be sent now.  Returns how many bytes went out, -EAGAIN for
 * none, -errno when the peer has gone.
 */
static ssize_t push_out(struct control_client *client)
{
	ssize_t n;

	n = send(client->watch.fd, client->out + client->out_sent,
		 client->out_len - client->out_sent,
		 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	client->out_sent += (size_t)n;
	return n;
}

static void write_more(struct control_client *client)
{
	struct loop *loop = client->control->loop;
	ssize_t n = push_out(client);

	if (client->out_sent == client->out_len || (n < 0 && n != -EAGAIN) ||
	    loop_watch(loop, &client->watch, EPOLLOUT) < 0) {
		drop(client);
		return;
	}
	if (n > 0)
		loop_timer_set(loop, &client->deadline, PATIENCE_NS);
}

static void kept_more(struct control_client *client)
{
	bool all;
	ssize_t n = 0;

	if (client->out_len > 0)
		n = push_out(client);
	all = client->out_sent == client->out_len;
	if (all)
		client->out_len = client->out_sent = 0;
	/* Without EPOLLOUT only a hang-up wakes: what it says is not read. */
	if ((n < 0 && n != -EAGAIN) ||
	    loop_watch(client->control->loop, &client->watch,
		       all ? 0 : EPOLLOUT) < 0)
		drop(client);
}

static void refuse(struct control_client *client, int err)
{
	struct wire_message m = { .type = WIRE_ERROR };

	m.u.response.error = -err;
	control_reply(client, &m, sizeof(m));
}

static void read_more(struct control_client *client)
{
	struct control *control = client->control;
	void *to;
	size_t space = incoming_space(&client->request, &to);
	ssize_t n = recv(client->watch.fd, to, space, MSG_DONTWAIT);
	int ret;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(client);
		return;
	}
	ret = incoming_received(&client->request, (size_t)n);
	if (ret == 0)
		return;
	/* What else it sends, and whether it is still there, can wait. */
	client->state = WAITING;
	loop_timer_clear(control->loop, &client->deadline);
	loop_unwatch(control->loop, &client->watch);
	if (ret == 1) {
		control->handler.fn(control->handler.arg, client);
		return;
	}
	if (log_allow(&control->refusals, "control"))
		log_warn("control: %s: malformed request",
			 wire_type_name(client->request.message.type));
	refuse(client, ret);
}

static void client_ready(void *arg, uint32_t events)
{
	struct control_client *client = arg;

	switch (client->state) {
	case READING:
		read_more(client);
		break;
	case WRITING:
		write_more(client);
		break;
	case KEPT:
		if (events & (EPOLLHUP | EPOLLERR))
			drop(client);
		else
			kept_more(client);
		break;
	case WAITING:
		assert(!"not watched");
	}
}

static void make_place(struct control *control)
{
	struct control_client *oldest = NULL, *c;

	if (count(control, READING) + count(control, WRITING) < TALKERS_MAX)
		return;
	for (c = control->clients; c; c = c->next) {
		if (c->state == READING) {
			oldest = c;
			break;
		}
		if (c->state == WRITING && !oldest)
			oldest = c;
	}
	if (log_allow(&control->refusals, "control"))
		log_warn("control: more than %d connections: dropped the "
			 "oldest",
			 TALKERS_MAX);
	drop(oldest);
}

static int add_client(struct control *control, int fd)
{
	struct control_client **link = &control->clients;
	struct control_client *client = calloc(1, sizeof(*client));
	int err;

	if (!client)
		return -ENOMEM;
	client->control = control;
	client->watch.fd = fd;
	client->watch.fn = client_ready;
	client->watch.arg = client;
	client->deadline.fn = out_of_patience;
	client->deadline.arg = client;
	incoming_init(&client->request);
	err = loop_watch(control->loop, &client->watch, EPOLLIN);
	if (err < 0) {
		free(client);
		return err;
	}
	loop_timer_set(control->loop, &client->deadline, PATIENCE_NS);
	while (*link)
		link = &(*link)->next;
	*link = client;
	return 0;
}

static void rested(void *arg)
{
	struct control *control = arg;

	/* or nobody could ever talk to us again */
	if (loop_watch(control->loop, &control->listener, EPOLLIN) < 0)
		loop_timer_set(control->loop, &control->rest, ACCEPT_REST_NS);
}

static void newcomer(void *arg, uint32_t events)
{
	struct control *control = arg;
	int fd, err;

	(void)events;
	fd = accept4(control->listener.fd, NULL, NULL,
		     SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0 &&
	    (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return;
	err = fd < 0 ? -errno : 0;
	if (fd >= 0) {
		make_place(control);
		err = add_client(control, fd);
	}
	if (err == 0)
		return;
	if (fd >= 0)
		close(fd);
	if (log_allow(&control->refusals, "control"))
		log_err("control: accept: %s", strerror(-err));
	loop_unwatch(control->loop, &control->listener);
	loop_timer_set(control->loop, &control->rest, ACCEPT_REST_NS);
}

int control_open(struct loop *loop, const char *path,
		 const struct control_handler *handler, struct control **out)
{
	struct control *control = calloc(1, sizeof(*control));
	int err = -ENOMEM;

	if (!control)
		goto out;
	control->loop = loop;
	control->handler = *handler;
	control->rest.fn = rested;
	control->rest.arg = control;
	control->tell_idle.fn = tell_idle;
	control->tell_idle.arg = control;
	control->listener.fn = newcomer;
	control->listener.arg = control;
	control->listener.fd = -1;
	control->path = strdup(path);
	if (!control->path)
		goto out;
	err = host_listen(path, BACKLOG);
	if (err < 0)
		goto out;
	control->listener.fd = err;
	err = loop_watch(loop, &control->listener, EPOLLIN);
	if (err < 0)
		goto out;
	*out = control;
	control = NULL;
out:
	if (err < 0)
		log_err("control: %s: %s", path, strerror(-err));
	if (control)
		control_close(control);
	return err;
}

void control_stop(struct control *control)
{
	if (control->listener.fd < 0)
		return;
	loop_timer_clear(control->loop, &control->rest);
	loop_unwatch(control->loop, &control->listener);
	close(control->listener.fd);
	control->listener.fd = -1;
	host_unlink(control->path);
}

void control_when_idle(struct control *control, void (*fn)(void *), void *arg)
{
	control->idle = fn;
	control->idle_arg = arg;
	check_idle(control);
}

void control_close(struct control *control)
{
	control_stop(control);
	control->idle = NULL;
	loop_defer_cancel(control->loop, &control->tell_idle);
	while (control->clients) {
		assert(control->clients->state != WAITING);
		drop(control->clients);
	}
	free(control->path);
	free(control);
}

const struct incoming *control_request(const struct control_client *client)
{
	return &client->request;
}

void control_reply(struct control_client *client, const void *bytes, size_t len)
{
	assert(client->state == WAITING && len > 0);
	client->out = malloc(len);
	if (!client->out) {
		log_err("control: no memory for a reply");
		drop(client);
		return;
	}
	memcpy(client->out, bytes, len);
	client->out_len = len;
	client->state = WRITING;
	loop_timer_set(client->control->loop, &client->deadline, PATIENCE_NS);
	write_more(client);
}

int control_reply_and_keep(struct control_client *client, const void *bytes,
			   size_t len)
{
	assert(client->state == WAITING && len <= KEPT_BYTES_MAX);
	if (count(client->control, KEPT) >= KEPT_MAX)
		return -EBUSY;
	client->out = malloc(KEPT_BYTES_MAX);
	if (!client->out)
		return -ENOMEM;
	memcpy(client->out, bytes, len);
	client->out_len = len;
	client->state = KEPT;
	kept_more(client);
	return 0;
}

void control_broadcast(struct control *control, const char *text, size_t len)
{
	struct control_client *client, *next;

	for (client = control->clients; client; client = next) {
		next = client->next;
		if (client->state != KEPT)
			continue;
		if (client->out_len + len > KEPT_BYTES_MAX) {
			drop(client);
			continue;
		}
		memcpy(client->out + client->out_len, text, len);
		client->out_len += len;
		kept_more(client);
	}
}
