/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection of an NBD client: bytes in, bytes out.  Knows requests by
 * their length and nothing of what they do (nbd_job.c).  Logs nothing that a
 * client says.
 *
 * A socket that was passed to us goes back to its greeting after the client's
 * DISCONNECT, as upstream's does: its owner keeps it for a second
 * conversation when the other side has closed and opened its disk.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "tools/tapdisk/nbd_client.h"

/* ---- beginning and end ---- */

static void greet(struct nbd_client *client);

/* Returns the list's new end. */
static struct nbd_job **forget(struct nbd_job **link,
			       const struct nbd_client *client)
{
	while (*link) {
		if ((*link)->client == client)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	}
	return link;
}

static void reap(void *arg)
{
	struct nbd_client *client = arg, **link;
	struct nbd_server *server = client->server;

	for (link = &server->clients; *link != client; link = &(*link)->next)
		;
	*link = client->next;
	server->nr_clients--;
	server->buffered -= client->buffered;
	for (unsigned i = 0; i < NBD_JOBS_MAX; i++)
		free(client->jobs[i].buf);
	free(client);
	if (server->ending && !server->clients)
		server->empty(server);
	else if (server->starved)
		loop_defer(server->loop, &server->room);
}

void nbd_client_drop(struct nbd_client *client)
{
	static const struct linger none = { .l_onoff = 0 };
	struct nbd_server *server = client->server;
	struct loop *loop = server->loop;

	if (client->state == NBD_GONE)
		return;
	client->state = NBD_GONE;
	loop_unwatch(loop, &client->watch);
	/* who passed it may have asked for a close that waits */
	setsockopt(client->watch.fd, SOL_SOCKET, SO_LINGER, &none,
		   sizeof(none));
	close(client->watch.fd);
	loop_defer_cancel(loop, &client->send);
	server->waiting_tail = forget(&server->waiting, client);
	server->orders_tail = forget(&server->orders, client);
	free(client->handshake);
	client->handshake = NULL;
	client->receiving = NULL;
	if (!client->in_flight)
		loop_defer(loop, &client->reap);
}

static int begin(struct nbd_client *client)
{
	client->handshake = malloc(sizeof(*client->handshake));
	if (!client->handshake)
		return -ENOMEM;
	nbd_handshake_init(client->handshake, client->style,
			   &client->server->export);
	client->handshake_sent = 0;
	client->state = NBD_GREETS;
	client->in_at = client->in_len = 0;
	return 0;
}

/* Nothing is owed any more. */
static void left(struct nbd_client *client)
{
	if (client->passed && !client->server->ending && !begin(client))
		greet(client);
	else
		nbd_client_drop(client);
}

void nbd_client_job_ended(struct nbd_client *client)
{
	if (client->in_flight)
		return;
	if (client->state == NBD_GONE)
		loop_defer(client->server->loop, &client->reap);
	else if (client->state == NBD_LEAVES && client->server->ending)
		loop_defer(client->server->loop, &client->send);
}

/* ---- which events ---- */

static void watch(struct nbd_client *client, bool wants_bytes)
{
	uint32_t events = 0;

	if (client->state == NBD_GONE)
		return;
	if (wants_bytes && !client->server->held && !client->server->ending)
		events |= EPOLLIN;
	if (client->full)
		events |= EPOLLOUT;
	if (events == client->events)
		return;
	client->events = events;
	if (loop_watch(client->server->loop, &client->watch, events))
		nbd_client_drop(client);
}

/* ---- out: nbd_send.c ---- */

static void send_now(void *arg)
{
	struct nbd_client *client = arg;

	nbd_send_replies(client);
	if (client->state == NBD_LEAVES && client->server->ending &&
	    !client->in_flight)
		nbd_client_drop(client); /* sent or not: nobody waits for it */
	else if (client->state == NBD_LEAVES && !client->busy)
		left(client);
	else
		nbd_client_go_on(client);
}

/* ---- in ---- */

static void taken(struct nbd_client *client, size_t n)
{
	client->in_at += n;
	client->in_len -= n;
	if (!client->in_len)
		client->in_at = 0;
}

static void receive_data(struct nbd_client *client)
{
	struct nbd_job *job = client->receiving;
	void *to;
	size_t n = nbd_job_lacks(job, &to);

	if (n > client->in_len)
		n = client->in_len;
	memcpy(to, client->in + client->in_at, n);
	taken(client, n);
	nbd_job_received(job, (uint32_t)n);
}

/* False: not now. */
static bool take_request(struct nbd_client *client)
{
	struct nbd_request request;
	struct nbd_job *job;

	if (nbd_wire_request(client->in + client->in_at, &request)) {
		nbd_client_drop(client);
		return false;
	}
	if (request.type == NBD_DISCONNECT) {
		client->state = NBD_LEAVES;
		loop_defer(client->server->loop, &client->send);
		return false;
	}
	job = nbd_job_start(client, &request);
	if (!job)
		return false;
	taken(client, NBD_REQUEST_SIZE);
	if (request.type == NBD_WRITE && request.len)
		client->receiving = job;
	else
		nbd_job_run(job);
	return true;
}

/* Look at what was received.  True: more is needed to go on. */
static bool look(struct nbd_client *client)
{
	void *to;

	while (client->state == NBD_SERVED) {
		if (client->receiving) {
			if (!nbd_job_lacks(client->receiving, &to))
				return false; /* its piece is being written */
			if (!client->in_len)
				return true;
			receive_data(client);
		} else {
			if (client->in_len < NBD_REQUEST_SIZE)
				return true;
			if (!take_request(client))
				return false;
		}
	}
	return false;
}

void nbd_client_go_on(struct nbd_client *client)
{
	bool wants_bytes;

	if (client->server->held || client->server->ending)
		wants_bytes = false;
	else if (client->state == NBD_GREETS && client->handshake)
		wants_bytes = !client->handshake->out_len;
	else
		wants_bytes = look(client);
	watch(client, wants_bytes);
}

/* Send what the handshake says, and see what follows from it. */
static void greet(struct nbd_client *client)
{
	struct nbd_handshake *h = client->handshake;
	ssize_t n;

	client->full = false;
	while (client->handshake_sent < h->out_len && !client->full) {
		n = send(client->watch.fd, h->out + client->handshake_sent,
			 h->out_len - client->handshake_sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0) {
			client->handshake_sent += (size_t)n;
		} else if (errno == EAGAIN) {
			client->full = true;
		} else if (errno != EINTR) {
			nbd_client_drop(client);
			return;
		}
	}
	if (!client->full) {
		h->out_len = client->handshake_sent = 0;
		if (h->state == NBD_HANG_UP) {
			nbd_client_drop(client);
			return;
		}
		if (h->state == NBD_TRANSMISSION) {
			client->structured = h->structured;
			client->allocation = h->allocation;
			client->state = NBD_SERVED;
			free(h);
			client->handshake = NULL;
		}
	}
	nbd_client_go_on(client);
}

/* False: nothing came, or the connection is gone. */
static bool receive(struct nbd_client *client, struct iovec *iov, size_t n,
		    size_t *got)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };
	ssize_t ret;

	ret = recvmsg(client->watch.fd, &msg, MSG_DONTWAIT);
	if (ret < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (ret <= 0) {
		nbd_client_drop(client);
		return false;
	}
	*got = (size_t)ret;
	return true;
}

static void receive_option(struct nbd_client *client)
{
	struct iovec iov;
	size_t got;

	iov.iov_len = nbd_handshake_space(client->handshake, &iov.iov_base);
	if (!receive(client, &iov, 1, &got))
		return;
	nbd_handshake_received(client->handshake, got);
	greet(client);
}

/* Data of a write go straight to their place; the rest into .in. */
static void receive_requests(struct nbd_client *client)
{
	struct nbd_job *job = client->in_len ? NULL : client->receiving;
	struct iovec iov[2];
	size_t n = 0, got, lacks = 0, end;

	if (job) {
		lacks = nbd_job_lacks(job, &iov[0].iov_base);
		iov[n++].iov_len = lacks;
	}
	if (client->in_at) {
		memmove(client->in, client->in + client->in_at, client->in_len);
		client->in_at = 0;
	}
	end = client->in_len;
	iov[n++] = (struct iovec){ client->in + end, sizeof(client->in) - end };
	if (!receive(client, iov, n, &got))
		return;
	if (lacks > got)
		lacks = got;
	client->in_len += got - lacks;
	if (job)
		nbd_job_received(job, (uint32_t)lacks);
	nbd_client_go_on(client);
}

static void ready(void *arg, uint32_t events)
{
	struct nbd_client *client = arg;

	if (events & EPOLLIN && client->events & EPOLLIN) {
		if (client->state == NBD_GREETS)
			receive_option(client);
		else
			receive_requests(client);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		nbd_client_drop(client);
	}
	if (!(events & EPOLLOUT) || !client->full || client->state == NBD_GONE)
		return;
	if (client->state == NBD_GREETS)
		greet(client);
	else
		send_now(client);
}

/* ---- from the server ---- */

void nbd_client_leave(struct nbd_client *client)
{
	if (client->state == NBD_GONE)
		return;
	if (client->state == NBD_GREETS) {
		nbd_client_drop(client);
		return;
	}
	client->state = NBD_LEAVES;
	client->receiving = NULL;
	watch(client, false);
	if (client->state != NBD_GONE && !client->in_flight)
		loop_defer(client->server->loop, &client->send);
}

/* Whoever still greets is the least loss. */
static bool make_place(struct nbd_server *server)
{
	struct nbd_client *c;

	if (server->nr_clients < NBD_CLIENTS_MAX)
		return true;
	if (log_allow(&server->refusals, "nbd"))
		log_warn("nbd: more than %d clients", NBD_CLIENTS_MAX);
	for (c = server->clients; c; c = c->next)
		if (c->state == NBD_GREETS)
			break;
	if (c)
		nbd_client_drop(c);
	return c != NULL;
}

static struct nbd_client *make(struct nbd_server *server, int fd)
{
	struct nbd_client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->server = server;
	client->watch = (struct loop_watch){ fd, ready, client };
	client->send = (struct loop_defer){ .fn = send_now, .arg = client };
	client->reap = (struct loop_defer){ .fn = reap, .arg = client };
	client->last = &client->first;
	for (unsigned i = 0; i < NBD_JOBS_MAX; i++) {
		client->jobs[i].next = client->free;
		client->free = &client->jobs[i];
	}
	return client;
}

void nbd_client_add(struct nbd_server *server, int fd, enum nbd_style style,
		    bool passed)
{
	struct nbd_client *client = NULL, **link = &server->clients;
	int one = 1;

	/* not on a unix socket, and no loss where it cannot be had */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (make_place(server))
		client = make(server, fd);
	if (!client) {
		close(fd);
		return;
	}
	client->style = style;
	client->passed = passed;
	if (begin(client) || loop_watch(server->loop, &client->watch, 0)) {
		free(client->handshake);
		free(client);
		close(fd);
		return;
	}
	while (*link)
		link = &(*link)->next;
	*link = client;
	server->nr_clients++;
	greet(client);
}
