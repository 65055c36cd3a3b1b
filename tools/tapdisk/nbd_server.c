/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of nbd_server.h, and what becomes of them and of their clients
 * when the disk is paused, resumed or closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "poll/host.h"
#include "tools/tapdisk/nbd_client.h"
#include "tools/tapdisk/nbd_passed.h"
#include "tools/tapdisk/nbd_server.h"

#define BLOCK_PREFERRED 4096

struct sockets {
	struct nbd_server server; /* first */
	struct nbd_listener listeners[2];
	struct nbd_passed passed_old, passed_new;
};

static void connected(void *arg, int fd)
{
	nbd_client_add(arg, fd, NBD_NEW_STYLE, false);
}

static void passed_old(void *arg, int fd, const char *name)
{
	(void)name;
	nbd_client_add(arg, fd, NBD_OLD_STYLE, true);
}

static void passed_new(void *arg, int fd, const char *name)
{
	(void)name;
	nbd_client_add(arg, fd, NBD_NEW_STYLE, true);
}

static void name_socket(const struct vbd *vbd, const char *name, char *path,
			size_t size)
{
	snprintf(path, size, "%s/%s%d.%u", host_run_dir(), name, getpid(),
		 vbd_minor(vbd));
}

static void describe(struct nbd_server *server)
{
	struct vbd_disk_info info;
	uint16_t flags = NBD_HAS_FLAGS | NBD_CAN_MULTI_CONN;

	vbd_disk_info(server->vbd, &info);
	if (info.writable) {
		flags |= NBD_CAN_FLUSH | NBD_CAN_FUA | NBD_CAN_WRITE_ZEROES;
		if (info.discard_granularity)
			flags |= NBD_CAN_TRIM;
	} else {
		flags |= NBD_READ_ONLY | NBD_CAN_FLUSH;
	}
	server->export = (struct nbd_export){
		.bytes = info.bytes,
		.flags = flags,
		.block_min = NBD_BLOCK,
		.block_preferred = BLOCK_PREFERRED,
		.block_max = NBD_LEN_MAX,
	};
}

static void close_sockets(struct sockets *s)
{
	for (unsigned i = 0; i < 2; i++)
		nbd_listener_close(&s->listeners[i]);
	nbd_passed_close(&s->passed_old);
	nbd_passed_close(&s->passed_new);
}

static void hold_sockets(struct sockets *s, bool held)
{
	for (unsigned i = 0; i < 2; i++)
		nbd_listener_hold(&s->listeners[i], held);
	nbd_listener_hold(&s->passed_old.listener, held);
	nbd_listener_hold(&s->passed_new.listener, held);
}

static void all_go_on(struct nbd_server *server)
{
	for (struct nbd_client *c = server->clients; c; c = c->next)
		if (c->state != NBD_GONE)
			nbd_client_go_on(c);
}

static void room(void *arg)
{
	struct nbd_server *server = arg;

	server->starved = false;
	all_go_on(server);
}

/* Nobody reads from here on; what was read is carried out, and answered. */
static void hold(struct nbd_server *server)
{
	server->held = true;
	hold_sockets((struct sockets *)server, true);
	all_go_on(server);
}

/* One may end its client, and with it others of the list. */
static void run_waiting(struct nbd_server *server)
{
	struct nbd_job *job;

	while ((job = server->waiting)) {
		server->waiting = job->next;
		if (!server->waiting)
			server->waiting_tail = &server->waiting;
		nbd_job_run(job);
	}
}

static void go_on(struct nbd_server *server)
{
	server->held = false;
	describe(server);
	for (struct nbd_client *c = server->clients; c; c = c->next)
		if (c->state == NBD_GREETS)
			c->handshake->export = server->export;
	hold_sockets((struct sockets *)server, false);
	run_waiting(server);
	nbd_job_next_order(server);
	all_go_on(server);
}

static void empty(struct nbd_server *server)
{
	loop_defer_cancel(server->loop, &server->room);
	free(server);
}

static void end(struct nbd_server *server)
{
	struct nbd_client *c;

	server->ending = true;
	close_sockets((struct sockets *)server);
	if (server->orders) {
		*server->waiting_tail = server->orders;
		server->waiting_tail = server->orders_tail;
		server->orders = NULL;
		server->orders_tail = &server->orders;
	}
	run_waiting(server);
	for (c = server->clients; c; c = c->next)
		nbd_client_leave(c);
	if (!server->clients)
		empty(server);
}

static void disk_event(void *arg, enum vbd_user_event event)
{
	switch (event) {
	case VBD_USER_HOLD:
		hold(arg);
		break;
	case VBD_USER_GO_ON:
		go_on(arg);
		break;
	case VBD_USER_END:
		end(arg);
		break;
	}
}

static int open_sockets(struct sockets *s)
{
	static const char *const names[2] = { "nbd", "nbd-old" };
	struct nbd_server *server = &s->server;
	char path[512];
	int err = 0;

	for (unsigned i = 0; !err && i < 2; i++) {
		s->listeners[i] = (struct nbd_listener){ .loop = server->loop,
							 .fn = connected,
							 .arg = s };
		name_socket(server->vbd, names[i], path, sizeof(path));
		err = nbd_listener_open(&s->listeners[i], path);
	}
	s->passed_old = (struct nbd_passed){ .fn = passed_old, .arg = s };
	name_socket(server->vbd, "nbdserver", path, sizeof(path));
	if (!err)
		err = nbd_passed_open(&s->passed_old, server->loop, path);
	s->passed_new = (struct nbd_passed){ .fn = passed_new, .arg = s };
	name_socket(server->vbd, "nbdserver-new", path, sizeof(path));
	if (!err)
		err = nbd_passed_open(&s->passed_new, server->loop, path);
	return err;
}

int nbd_server_open(struct loop *loop, struct vbd *vbd)
{
	struct sockets *s;
	struct nbd_server *server;
	struct vbd_user user;
	int err;

	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	server = &s->server;
	server->loop = loop;
	server->vbd = vbd;
	server->waiting_tail = &server->waiting;
	server->orders_tail = &server->orders;
	server->room = (struct loop_defer){ .fn = room, .arg = server };
	server->empty = empty;
	describe(server);
	err = open_sockets(s);
	if (err) {
		close_sockets(s);
		free(s);
		return err;
	}
	user = (struct vbd_user){ disk_event, server };
	vbd_set_user(vbd, &user);
	return 0;
}
