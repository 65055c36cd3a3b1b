/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges as the commands need them.
 */
#include "tools/tap-ctl/talk.h"

#include <errno.h>
#include <stdlib.h>
#include "tools/ctl/client.h"
#include "tools/ctl/messages.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"

int64_t talk_timeout(const struct options *options)
{
	if (options->timeout_s == OPTIONS_UNSET)
		return CLIENT_FOREVER;
	return options->timeout_s * 1000;
}

int talk(const struct options *options, int64_t timeout_ms,
	 const struct client_request *request)
{
	struct wire_message reply;
	int err;

	err = client_call((int)options->pid, timeout_ms, request, &reply);
	return err < 0 ? say_reply(options, err, &reply) : 0;
}

/*
 * EINVAL is what a stock tapdisk answers to any type it does not know, and what
 * ours answers to a wrong value.  Only ours knows HELLO.
 */
static bool speaks_ours(const struct options *options)
{
	struct wire_message reply;
	struct client_request hello;
	char *text = NULL;
	size_t size;
	int err;

	client_request_init(&hello, WIRE_HELLO, (uint16_t)options->minor);
	err = client_call_text((int)options->pid, TALK_TIMEOUT_MS, &hello,
			       &reply, &text, &size);
	free(text);
	return err != -EINVAL;
}

static int exchange(const struct options *options,
		    const struct client_request *request,
		    struct json_object **out)
{
	struct wire_message reply;
	char *text;
	size_t size;
	int err;

	err = client_call_text((int)options->pid, TALK_TIMEOUT_MS, request,
			       &reply, &text, &size);
	if (err == -EINVAL && reply.type == WIRE_ERROR && !speaks_ours(options))
		return say_error(options, err,
				 "tapdisk %d does not know this message: it is "
				 "a stock tapdisk",
				 (int)options->pid);
	if (err < 0)
		return say_reply(options, err, &reply);
	err = messages_parse(text, size, out);
	free(text);
	if (err < 0)
		return say_error(options, -EPROTO,
				 "tapdisk %d: its reply is not JSON",
				 (int)options->pid);
	return 0;
}

int talk_json(const struct options *options, uint16_t type,
	      struct json_object *json, struct json_object **reply)
{
	struct client_request request;
	int err;

	err = client_request_json(&request, type, (uint16_t)options->minor,
				  json);
	if (err < 0)
		return say_error(options, err, "request");
	err = exchange(options, &request, reply);
	client_request_fini(&request);
	return err;
}
