/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * EVENTS, HELLO, CONNECT, POLLING and what a stock tapdisk has instead of
 * them: nothing, DISK_INFO, XENBLKIF_CONNECT, nothing.
 */
#include "tools/tapback/tap.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <json-c/json.h>
#include "tools/ctl/messages.h"

#define STOCK_ORDER_MAX 3
#define SECTOR 512

static const enum wire_proto protos[NR_ABIS] = {
	[ABI_NATIVE] = WIRE_NATIVE,
	[ABI_X86_32] = WIRE_X86_32,
	[ABI_X86_64] = WIRE_X86_64,
};

bool tap_is_gone(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -ENODEV;
}

static void stop_events(struct tap *tap)
{
	if (tap->events.fd < 0)
		return;
	loop_unwatch(tap->loop, &tap->events);
	close(tap->events.fd);
	tap->events.fd = -1;
	tap->line_size = 0;
}

static void finish(struct tap *tap, int err)
{
	enum tap_call call = tap->call;

	tap->call = TAP_NONE;
	tap->done(tap->arg, call, err);
}

/* There was no memory to say what we want: whatever the answer, it is none. */
static void said_nothing(struct exchange *exchange, int err)
{
	struct tap *tap = exchange->arg;

	(void)err;
	tap->refused = false;
	finish(tap, -ENOMEM);
}

static void start(struct tap *tap, struct client_request *request,
		  void (*done)(struct exchange *, int))
{
	tap->exchange.done = done;
	tap->exchange.arg = tap;
	tap->exchange.keep = request->message.type == WIRE_EVENTS;
	exchange_start(&tap->exchange, tap->loop, tap->pid, request,
		       tap->timeout_ms);
}

static void start_plain(struct tap *tap, uint16_t type,
			void (*done)(struct exchange *, int))
{
	struct client_request request;

	client_request_init(&request, type, tap->minor);
	start(tap, &request, done);
}

static void start_json(struct tap *tap, uint16_t type, struct json_object *json,
		       void (*done)(struct exchange *, int))
{
	struct client_request request;
	int err;

	err = client_request_json(&request, type, tap->minor, json);
	json_object_put(json);
	if (err < 0) {
		client_request_init(&request, WIRE_PID, tap->minor);
		done = said_nothing;
	}
	start(tap, &request, done);
}

static void note_refusal(struct tap *tap, int err)
{
	tap->refused = err < 0 && tap->exchange.reply.type != 0;
}

static void line(struct tap *tap, const char *text, size_t len)
{
	enum vbd_event event;

	if (hello_read_event(text, len, &event) < 0)
		return;
	if (event == VBD_RESIZED)
		tap->event(tap->arg, TAP_RESIZED);
	else if (event == VBD_RING_BROKEN)
		tap->event(tap->arg, TAP_RING_BROKEN);
}

static void hung_up(struct tap *tap)
{
	stop_events(tap);
	tap->event(tap->arg, TAP_HUNG_UP);
}

static void events_ready(void *arg, uint32_t events)
{
	struct tap *tap = arg;
	char *end;
	size_t len;
	ssize_t n;

	(void)events;
	n = recv(tap->events.fd, tap->line + tap->line_size,
		 sizeof(tap->line) - tap->line_size, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hung_up(tap);
		return;
	}
	tap->line_size += (unsigned)n;
	while ((end = memchr(tap->line, '\n', tap->line_size))) {
		len = (size_t)(end - tap->line) + 1;
		line(tap, tap->line, len - 1);
		memmove(tap->line, tap->line + len, tap->line_size - len);
		tap->line_size -= (unsigned)len;
	}
	if (tap->line_size == sizeof(tap->line))
		hung_up(tap); /* no line of ours is as long */
}

static void asked_hello(struct exchange *exchange, int err)
{
	struct tap *tap = exchange->arg;

	note_refusal(tap, err);
	if (err == 0)
		err = exchange->text
			      ? hello_read(exchange->text, exchange->text_size,
					   &tap->disk)
			      : -EPROTO;
	if (err == 0 && tap->disk.sectors == 0)
		err = -ENODEV;
	finish(tap, err);
}

/* Of flushes the old wire says nothing, and a stock tapdisk has none. */
static void asked_disk_info(struct exchange *exchange, int err)
{
	const struct wire_image *image = &exchange->reply.u.image;
	struct tap *tap = exchange->arg;

	note_refusal(tap, err);
	if (err == 0 &&
	    (image->sectors == 0 || image->sectors > INT64_MAX / SECTOR))
		err = -ENODEV;
	if (err == 0)
		tap->disk = (struct hello){
			.ring_order_max = STOCK_ORDER_MAX,
			.barrier = true,
			.info = image->info,
			.sectors = image->sectors,
			.physical_sector_size = SECTOR,
		};
	finish(tap, err);
}

static void listening(struct exchange *exchange, int err)
{
	struct tap *tap = exchange->arg;

	note_refusal(tap, err);
	tap->ours = !(tap->refused && err == -EINVAL);
	if (!tap->ours) {
		start_plain(tap, WIRE_DISK_INFO, asked_disk_info);
		return;
	}
	/* too many listeners: it serves us all the same */
	if (err < 0 && err != -EBUSY) {
		finish(tap, err);
		return;
	}
	if (err == 0) {
		tap->events.fd = exchange->kept_fd;
		err = loop_watch(tap->loop, &tap->events, EPOLLIN);
		if (err < 0) {
			close(tap->events.fd);
			tap->events.fd = -1;
			finish(tap, err);
			return;
		}
	}
	start_plain(tap, WIRE_HELLO, asked_hello);
}

void tap_ask(struct tap *tap)
{
	assert(tap->call == TAP_NONE);
	tap->call = TAP_ASK;
	/* First: then no change after the answer can be missed. */
	if (tap->events.fd < 0)
		start_plain(tap, WIRE_EVENTS, listening);
	else
		start_plain(tap, WIRE_HELLO, asked_hello);
}

static void done(struct exchange *exchange, int err)
{
	struct tap *tap = exchange->arg;

	note_refusal(tap, err);
	finish(tap, err);
}

static void connect_ours(struct tap *tap, const struct frontend_keys *ring,
			 const struct tap_polling *polling)
{
	struct vbd_connect connect = {
		.domid = tap->domid,
		.devid = tap->devid,
		.abi = ring->abi,
		.guest = tap->guest,
		.port = ring->port,
		.nr_refs = ring->nr_refs,
		.has_polling = true,
	};

	memcpy(connect.refs, ring->refs, sizeof(connect.refs));
	connect.polling.mode =
		polling->duration_us ? WAIT_ADAPTIVE : WAIT_EVENT;
	connect.polling.duration_us = polling->duration_us;
	connect.polling.idle_threshold = polling->idle_threshold;
	connect.polling.align = true;
	start_json(tap, WIRE_CONNECT, messages_connect(&connect), done);
}

static void connect_stock(struct tap *tap, const struct frontend_keys *ring,
			  const struct tap_polling *polling)
{
	struct client_request request;
	struct wire_blkif *blkif = &request.message.u.blkif;

	assert(ring->nr_refs <= WIRE_GREFS_MAX);
	client_request_init(&request, WIRE_XENBLKIF_CONNECT, tap->minor);
	blkif->domid = tap->domid;
	blkif->devid = tap->devid;
	memcpy(blkif->gref, ring->refs, ring->nr_refs * sizeof(ring->refs[0]));
	while (1u << blkif->order < ring->nr_refs)
		blkif->order++;
	blkif->proto = protos[ring->abi];
	blkif->port = ring->port;
	blkif->poll_duration = polling->duration_us;
	blkif->poll_idle_threshold = polling->idle_threshold;
	start(tap, &request, done);
}

void tap_connect(struct tap *tap, const struct frontend_keys *ring,
		 const struct tap_polling *polling)
{
	assert(tap->call == TAP_NONE);
	tap->call = TAP_CONNECT;
	if (tap->ours)
		connect_ours(tap, ring, polling);
	else
		connect_stock(tap, ring, polling);
}

static void disconnected(struct exchange *exchange, int err)
{
	struct tap *tap = exchange->arg;

	note_refusal(tap, err);
	if (tap_is_gone(err) || err == -ESRCH)
		err = 0;
	finish(tap, err);
}

void tap_disconnect(struct tap *tap)
{
	struct client_request request;

	assert(tap->call == TAP_NONE);
	tap->call = TAP_DISCONNECT;
	client_request_disconnect(&request, tap->minor, tap->domid, tap->devid);
	start(tap, &request, disconnected);
}

void tap_poll(struct tap *tap, const struct tap_polling *polling)
{
	struct messages_polling change = {
		.has_duration = true,
		.has_idle_threshold = true,
		.xenstore = true,
		.polling = { .duration_us = polling->duration_us,
			     .idle_threshold = polling->idle_threshold },
	};

	assert(tap->call == TAP_NONE && tap->ours);
	tap->call = TAP_POLL;
	start_json(tap, WIRE_POLLING, messages_polling(&change), done);
}

void tap_cancel(struct tap *tap)
{
	exchange_cancel(&tap->exchange);
	tap->call = TAP_NONE;
}

void tap_init(struct tap *tap)
{
	tap->events.fd = -1;
	tap->events.fn = events_ready;
	tap->events.arg = tap;
}

void tap_fini(struct tap *tap)
{
	tap_cancel(tap);
	stop_events(tap);
}

void tap_point(struct tap *tap, int pid, uint16_t minor)
{
	assert(tap->call == TAP_NONE);
	if (tap->pid == pid && tap->minor == minor)
		return;
	stop_events(tap);
	tap->pid = pid;
	tap->minor = minor;
}
