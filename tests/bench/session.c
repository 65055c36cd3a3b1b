/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest of one tapdisk; see session.h.
 */
#include "tests/bench/session.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/watchdog.h"
#include "tests/frontend.h"
#include "tools/ctl/client.h"
#include "tools/ctl/messages.h"
#include "tools/ctl/client_request.h"

#define DEVID_XVDA 51712
#define ANSWER_MS 30000
#define TMPDIR_MAX 80
#define DOMID_RANGE 32000 /* below DOMID_FIRST_RESERVED, 0x7ff0 */

static int complain(const struct session *s, const char *what, int err,
		    const char *why)
{
	fprintf(stderr, "%s: pid %u: minor %u: %s: %s\n", s->options->program,
		s->options->pid, s->options->minor, what,
		why && *why ? why : strerror(-err));
	return err;
}

/* What tapdisk says about its refusal, NULL if it said nothing. */
static const char *refusal(const struct wire_message *reply)
{
	if (reply->type != WIRE_ERROR || !reply->u.response.message[0])
		return NULL;
	return reply->u.response.message;
}

static int parse_reply(const char *text, size_t size, struct json_object **out)
{
	if (size)
		return messages_parse(text, size, out);
	*out = json_object_new_object();
	return *out ? 0 : -ENOMEM;
}

/* One of our messages; eats @json. */
static int call(const struct session *s, uint16_t type, const char *what,
		struct json_object *json, struct json_object **out)
{
	struct wire_message reply = { 0 };
	struct client_request request;
	char *text = NULL;
	size_t size = 0;
	int err;

	err = client_request_json(&request, type, (uint16_t)s->options->minor,
				  json);
	json_object_put(json);
	if (err)
		return complain(s, what, err, NULL);
	err = client_call_text((int)s->options->pid, ANSWER_MS, &request,
			       &reply, &text, &size);
	client_request_fini(&request);
	if (!err)
		err = parse_reply(text, size, out);
	free(text);
	return err ? complain(s, what, err, refusal(&reply)) : 0;
}

static uint64_t number(struct json_object *from, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(from, key, &value))
		return 0;
	return (uint64_t)json_object_get_int64(value);
}

static int hello(struct session *s)
{
	struct json_object *reply;
	int err;

	err = call(s, WIRE_HELLO, "hello", json_object_new_object(), &reply);
	if (err)
		return err;
	s->disk_bytes = number(reply, "sectors") * 512;
	s->physical_block = (uint32_t)number(reply, "physical_sector_size");
	json_object_put(reply);
	if (!s->disk_bytes)
		return complain(s, "hello", -ENODEV, "no image is open");
	return 0;
}

/*
 * messages_connect knows the modes that this tree has; a name it has not is
 * tapdisk's to refuse.
 */
static struct json_object *connect_request(const struct session *s,
					   const char *guest)
{
	const struct session_options *o = s->options;
	struct vbd_connect connect = {
		.domid = s->domid,
		.devid = s->devid,
		.abi = o->abi,
		.guest = guest,
		.port = frontend_port(s->frontend),
		.nr_refs = frontend_nr_refs(s->frontend),
		.has_polling = true, /* else what an earlier guest asked for */
		.polling = {
			.mode = WAIT_FIXED,
			.duration_us = o->duration_us,
			.idle_threshold = (uint8_t)o->idle_threshold,
			.align = !o->no_align,
			.has_cap = true, /* 0: nothing but the mode decides */
			.cap = o->cap,
			.sync = o->sync,
		},
	};
	struct json_object *request, *polling;

	memcpy(connect.refs, frontend_refs(s->frontend),
	       connect.nr_refs * sizeof(connect.refs[0]));
	request = messages_connect(&connect);
	if (request && json_object_object_get_ex(request, "polling", &polling))
		json_object_object_add(
			polling, "mode",
			json_object_new_string(o->mode ? o->mode : "event"));
	return request;
}

/* A setting of tap-ctl's stands above ours: measure nothing else instead. */
static int check_polling(const struct session *s)
{
	const struct session_options *o = s->options;
	struct json_object *reply, *value;
	const char *mode;
	int err;

	if (!o->mode)
		return 0;
	err = call(s, WIRE_POLLING, "polling", json_object_new_object(),
		   &reply);
	if (err)
		return err;
	mode = json_object_object_get_ex(reply, "mode", &value)
		       ? json_object_get_string(value)
		       : "";
	if (strcmp(mode, o->mode) != 0 ||
	    (o->duration_us && number(reply, "requested_us") != o->duration_us))
		err = complain(s, "polling", -EBUSY,
			       "another setting is in force; "
			       "\"tap-ctl polling --mode default\" ends it");
	json_object_put(reply);
	return err;
}

/* @socket: where the guest is, NULL: on Xen. */
static int connect_guest(struct session *s, const char *socket)
{
	const struct frontend_options options = {
		.socket = socket,
		.abi = s->options->abi,
		.ring_order = s->options->ring_order,
		.sleep = !s->options->spin,
	};
	struct json_object *request, *reply;
	char guest[128];
	int err;

	err = frontend_open(&options, &s->frontend);
	if (err)
		return complain(s, socket ? socket : "xen", err, NULL);
	snprintf(guest, sizeof(guest), "%s%s", socket ? "local:" : "xen",
		 socket ? socket : "");
	request = connect_request(s, guest);
	err = request ? call(s, WIRE_CONNECT, "connect", request, &reply)
		      : complain(s, "connect", -ENOMEM, NULL);
	if (err)
		return err;
	s->connected = true;
	json_object_put(reply);
	return check_polling(s);
}

/* The socket is there for as long as it takes to connect. */
static int connect_local(struct session *s)
{
	const char *tmp = getenv("TMPDIR");
	char dir[100], socket[108];
	int err;

	/* a socket's path has room for 107 bytes */
	if (!tmp || strlen(tmp) > TMPDIR_MAX)
		tmp = "/tmp";
	snprintf(dir, sizeof(dir), "%s/blkfront.XXXXXX", tmp);
	if (!mkdtemp(dir))
		return complain(s, dir, -errno, NULL);
	snprintf(socket, sizeof(socket), "%s/guest", dir);
	err = connect_guest(s, socket);
	/* tapdisk has its descriptors by now, or never will */
	unlink(socket);
	rmdir(dir);
	return err;
}

int session_open(const struct session_options *options, struct session *out)
{
	int err;

	*out = (struct session){
		.options = options,
		.domid = options->domid,
		.devid = options->devid ? options->devid : DEVID_XVDA,
	};
	/* on Xen ours is domain 0 */
	if (!out->domid && !options->xen)
		out->domid = 1 + (uint32_t)getpid() % DOMID_RANGE;
	err = hello(out);
	if (err)
		return err;
	err = options->xen ? connect_guest(out, NULL) : connect_local(out);
	if (err)
		session_close(out);
	return err;
}

/* Nobody listens any more, or died with the question in its hands. */
static bool is_gone(int err)
{
	return err == -ECONNREFUSED || err == -ENOENT || err == -EPROTO ||
	       err == -ECONNRESET || err == -EPIPE;
}

static void disconnect(struct session *s)
{
	struct wire_message reply = { 0 };
	struct client_request request;
	int err;

	client_request_disconnect(&request, (uint16_t)s->options->minor,
				  s->domid, s->devid);
	err = client_call((int)s->options->pid, ANSWER_MS, &request, &reply);
	client_request_fini(&request);
	/* a tapdisk that is gone has nothing to disconnect */
	if (err && !is_gone(err))
		complain(s, "disconnect", err, refusal(&reply));
}

void session_close(struct session *s)
{
	if (s->connected)
		disconnect(s);
	s->connected = false;
	if (s->frontend)
		frontend_close(s->frontend);
	s->frontend = NULL;
}

int session_counters_read(const struct session *s, struct session_counters *out)
{
	struct json_object *reply;
	int err;

	err = watchdog_cpu_ns((pid_t)s->options->pid, &out->cpu_ns);
	if (err)
		return complain(s, "CPU time", err, NULL);
	err = call(s, WIRE_POLLING, "polling", json_object_new_object(),
		   &reply);
	if (err)
		return err;
	out->sleeps = number(reply, "sleeps");
	out->arms = number(reply, "arms");
	out->kicks = frontend_counters(s->frontend)->kicks;
	json_object_put(reply);
	return 0;
}
