/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON is made and read with the same code as in tapdisk (messages.h), so that
 * this cannot agree with tapback on something tapdisk would not understand.
 */
#include "tests/faketap.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <json-c/json.h>
#include "poll/host.h"
#include "tools/ctl/messages.h"

static void drop_client(struct faketap_client *client)
{
	loop_unwatch(client->tap->loop, &client->watch);
	close(client->watch.fd);
	client->watch.fd = -1;
}

static void answer(struct faketap_client *client, struct wire_message *m,
		   struct json_object *json)
{
	const char *text = json ? json_object_to_json_string(json) : "";

	if (json)
		m->u.info.length = strlen(text);
	/* whoever gave up on us is not there any more */
	send(client->watch.fd, m, sizeof(*m), MSG_NOSIGNAL);
	send(client->watch.fd, text, strlen(text), MSG_NOSIGNAL);
	json_object_put(json);
}

static void refuse(struct faketap_client *client, int number)
{
	struct wire_message m = { .type = WIRE_ERROR };

	m.u.response.error = number;
	answer(client, &m, NULL);
}

static struct json_object *hello(const struct faketap *tap)
{
	struct vbd_disk_info disk = {
		.bytes = tap->sectors * 512,
		.logical_block = 512,
		.physical_block = tap->physical,
		.discard_granularity = tap->granularity,
		.info = tap->info,
		.writable = !tap->read_only,
	};

	return messages_hello(&disk);
}

/* Remember a ring; 0 or a positive errno. */
static int serve(struct faketap *tap, const struct vbd_connect *connect)
{
	tap->connects++;
	if (tap->served)
		return EALREADY;
	tap->served = true;
	tap->ring.domid = connect->domid;
	tap->ring.devid = connect->devid;
	tap->ring.port = connect->port;
	tap->ring.proto = connect->abi;
	tap->nr_refs = connect->nr_refs;
	memcpy(tap->refs, connect->refs, sizeof(tap->refs));
	tap->duration_us = connect->polling.duration_us;
	tap->idle_threshold = connect->polling.idle_threshold;
	snprintf(tap->guest, sizeof(tap->guest), "%s", connect->guest);
	return 0;
}

static int connect_old(struct faketap *tap, const struct wire_blkif *from)
{
	static const enum abi abis[] = {
		[WIRE_NATIVE] = ABI_NATIVE,
		[WIRE_X86_32] = ABI_X86_32,
		[WIRE_X86_64] = ABI_X86_64,
	};
	struct vbd_connect connect = {
		.domid = from->domid,
		.devid = from->devid,
		.port = from->port,
		.guest = from->pool,
		.nr_refs = 1u << from->order,
		.polling = { .duration_us = from->poll_duration,
			     .idle_threshold =
				     (uint8_t)from->poll_idle_threshold },
	};

	if (from->order > 3 || from->proto < WIRE_NATIVE ||
	    from->proto > WIRE_X86_64)
		return EINVAL;
	connect.abi = abis[from->proto];
	memcpy(connect.refs, from->gref, sizeof(from->gref));
	return serve(tap, &connect);
}

static int connect_new(struct faketap *tap, const char *text, size_t len)
{
	struct vbd_connect connect;
	struct json_object *json;
	char guest[64];
	int err;

	err = messages_parse(text, len, &json);
	if (err == 0)
		err = messages_connect_read(json, guest, sizeof(guest),
					    &connect);
	json_object_put(json);
	return err < 0 ? -err : serve(tap, &connect);
}

static int poll_new(struct faketap *tap, const char *text, size_t len)
{
	struct messages_polling change;
	struct json_object *json;
	int err;

	err = messages_parse(text, len, &json);
	if (err == 0)
		err = messages_polling_read(json, &change);
	json_object_put(json);
	if (err < 0)
		return -err;
	assert(change.xenstore && change.has_duration &&
	       change.has_idle_threshold);
	tap->polls++;
	tap->duration_us = change.polling.duration_us;
	tap->idle_threshold = change.polling.idle_threshold;
	return 0;
}

static int disconnect(struct faketap *tap, const struct wire_blkif *from)
{
	tap->disconnects++;
	if (!tap->served || from->domid != tap->ring.domid ||
	    from->devid != tap->ring.devid)
		return ENODEV;
	tap->served = false;
	return 0;
}

/* True if the connection stays. */
static bool act(struct faketap_client *client)
{
	const struct wire_message *m = (struct wire_message *)client->bytes;
	const char *text = (char *)client->bytes + WIRE_SIZE;
	size_t len = client->have - WIRE_SIZE;
	struct faketap *tap = client->tap;
	struct wire_message reply = { .type = m->type + 1 };
	struct json_object *json = NULL;
	int number = 0;

	if (tap->hold && m->type == tap->hold) {
		tap->held++;
		return true;
	}
	tap->all++;
	if (tap->silent)
		return true;
	if (m->type > 255 || (tap->stock && m->type >= WIRE_CONNECT))
		number = EINVAL;
	else if (m->cookie != tap->minor && m->type != WIRE_XENBLKIF_DISCONNECT)
		number = ENODEV;
	else
		number = tap->refuse[m->type];
	if (number == 0) {
		switch (m->type) {
		case WIRE_HELLO:
			tap->hellos++;
			json = hello(tap);
			break;
		case WIRE_EVENTS:
			client->listens = true;
			client->have = 0;
			break;
		case WIRE_CONNECT:
			number = connect_new(tap, text, len);
			json = json_object_new_object();
			break;
		case WIRE_POLLING:
			number = poll_new(tap, text, len);
			json = json_object_new_object();
			break;
		case WIRE_XENBLKIF_CONNECT:
			number = connect_old(tap, &m->u.blkif);
			break;
		case WIRE_XENBLKIF_DISCONNECT:
			number = disconnect(tap, &m->u.blkif);
			break;
		case WIRE_DISK_INFO:
			reply.u.image.sectors = tap->sectors;
			reply.u.image.sector_size = 512;
			reply.u.image.info = tap->info;
			break;
		default:
			number = EINVAL;
		}
	}
	if (tap->mute && m->type == tap->mute) {
		json_object_put(json);
		return true;
	}
	if (number) {
		json_object_put(json);
		refuse(client, number);
		return false;
	}
	answer(client, &reply, json);
	return client->listens;
}

static bool is_whole(const struct faketap_client *client)
{
	const struct wire_message *m = (struct wire_message *)client->bytes;

	if (client->have < WIRE_SIZE)
		return false;
	return m->type < WIRE_CONNECT ||
	       client->have >= WIRE_SIZE + m->u.info.length;
}

static void client_ready(void *arg, uint32_t events)
{
	struct faketap_client *client = arg;
	ssize_t n;

	(void)events;
	n = recv(client->watch.fd, client->bytes + client->have,
		 sizeof(client->bytes) - client->have, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		drop_client(client);
		return;
	}
	client->have += (unsigned)n;
	if (is_whole(client) && !act(client))
		drop_client(client);
}

static void accept_client(void *arg, uint32_t events)
{
	struct faketap *tap = arg;
	int fd = accept4(tap->listener.fd, NULL, NULL, SOCK_CLOEXEC);

	(void)events;
	assert(fd >= 0);
	for (int i = 0; i < FAKETAP_CLIENTS; i++) {
		struct faketap_client *client = &tap->clients[i];

		if (client->watch.fd >= 0)
			continue;
		*client = (struct faketap_client){
			.tap = tap,
			.watch = { fd, client_ready, client },
		};
		assert(loop_watch(tap->loop, &client->watch, EPOLLIN) == 0);
		return;
	}
	close(fd);
}

void faketap_open(struct faketap *tap, struct loop *loop, int pid,
		  uint16_t minor)
{
	memset(tap, 0, sizeof(*tap));
	tap->loop = loop;
	tap->pid = pid;
	tap->minor = minor;
	tap->sectors = 2048;
	tap->physical = 4096;
	tap->granularity = 4096;
	for (int i = 0; i < FAKETAP_CLIENTS; i++)
		tap->clients[i].watch.fd = -1;
	snprintf(tap->path, sizeof(tap->path), "%s/ctl%d", host_run_dir(), pid);
	tap->listener.fd = host_listen(tap->path, 16);
	assert(tap->listener.fd >= 0);
	tap->listener.fn = accept_client;
	tap->listener.arg = tap;
	assert(loop_watch(loop, &tap->listener, EPOLLIN) == 0);
}

static void drop_all(struct faketap *tap, bool only_listeners)
{
	for (int i = 0; i < FAKETAP_CLIENTS; i++)
		if (tap->clients[i].watch.fd >= 0 &&
		    (!only_listeners || tap->clients[i].listens))
			drop_client(&tap->clients[i]);
}

void faketap_kill(struct faketap *tap)
{
	if (tap->listener.fd < 0)
		return;
	loop_unwatch(tap->loop, &tap->listener);
	close(tap->listener.fd);
	tap->listener.fd = -1;
	drop_all(tap, false);
	tap->served = false;
}

void faketap_close(struct faketap *tap)
{
	faketap_kill(tap);
	host_unlink(tap->path);
}

void faketap_hang_up(struct faketap *tap)
{
	drop_all(tap, true);
}

void faketap_tell(struct faketap *tap, const char *event)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "{\"event\":\"%s\"}\n", event);

	for (int i = 0; i < FAKETAP_CLIENTS; i++)
		if (tap->clients[i].watch.fd >= 0 && tap->clients[i].listens)
			send(tap->clients[i].watch.fd, line, (size_t)n,
			     MSG_NOSIGNAL);
}

void faketap_release(struct faketap *tap)
{
	uint16_t type = tap->hold;

	tap->hold = 0;
	for (int i = 0; i < FAKETAP_CLIENTS; i++) {
		struct faketap_client *client = &tap->clients[i];
		const struct wire_message *m =
			(struct wire_message *)client->bytes;

		if (client->watch.fd >= 0 && is_whole(client) &&
		    m->type == type && !act(client))
			drop_client(client);
	}
}

unsigned faketap_listeners(const struct faketap *tap)
{
	unsigned n = 0;

	for (int i = 0; i < FAKETAP_CLIENTS; i++)
		n += tap->clients[i].watch.fd >= 0 && tap->clients[i].listens;
	return n;
}
