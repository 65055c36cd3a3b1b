/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl connect, tap-ctl disconnect: what tapback does, by hand.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include "tools/ctl/messages.h"
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"
#include "tools/tap-ctl/talk.h"

/* "8,9,10,11" to numbers.  Returns how many, or -EINVAL. */
static int read_refs(const char *text, uint32_t *out)
{
	unsigned long long ref;
	char *end;
	int n = 0;

	for (;; text = end + 1) {
		if (*text < '0' || *text > '9' || n == VBD_RING_PAGES_MAX)
			return -EINVAL;
		errno = 0;
		ref = strtoull(text, &end, 10);
		if (errno || ref > UINT32_MAX)
			return -EINVAL;
		out[n++] = (uint32_t)ref;
		if (!*end)
			break;
		if (*end != ',')
			return -EINVAL;
	}
	return n & (n - 1) ? -EINVAL : n;
}

static bool is_guest(const char *guest)
{
	return !strcmp(guest, "xen") ||
	       (!strncmp(guest, "local:", 6) && guest[6]);
}

static void set_polling(const struct options *options, struct vbd_connect *out)
{
	struct vbd_polling *polling = &out->polling;

	out->has_polling = options->duration_us != OPTIONS_UNSET ||
			   options->idle_threshold != OPTIONS_UNSET;
	polling->align = true;
	if (options->duration_us > 0) {
		polling->mode = WAIT_ADAPTIVE;
		polling->duration_us = (uint32_t)options->duration_us;
	}
	if (options->idle_threshold != OPTIONS_UNSET)
		polling->idle_threshold = (uint8_t)options->idle_threshold;
}

int connect_run(const struct options *options)
{
	/* the words of --protocol, each long and short */
	static const enum abi abis[] = { ABI_NATIVE, ABI_X86_32, ABI_X86_64,
					 ABI_X86_32, ABI_X86_64 };
	struct vbd_connect connect = {
		.domid = (uint32_t)options->domid,
		.devid = (uint32_t)options->devid,
		.port = (uint32_t)options->port,
		.abi = ABI_NATIVE,
		.guest = options->guest ? options->guest : "xen",
	};
	struct json_object *json, *reply;
	int err;

	err = read_refs(options->ring_refs, connect.refs);
	if (err < 0)
		return say_error(options, err,
				 "--ring-ref %s: not 1, 2, 4, 8 or 16 grant "
				 "references separated by commas",
				 options->ring_refs);
	connect.nr_refs = (unsigned)err;
	if (!is_guest(connect.guest))
		return say_error(options, -EINVAL,
				 "--guest %s: not xen or local:PATH",
				 connect.guest);
	if (options->protocol != OPTIONS_UNSET)
		connect.abi = abis[options->protocol];
	set_polling(options, &connect);

	json = messages_connect(&connect);
	err = talk_json(options, WIRE_CONNECT, json, &reply);
	json_object_put(json);
	if (err == 0)
		json_object_put(reply);
	return err;
}

int connect_run_disconnect(const struct options *options)
{
	struct client_request request;

	client_request_disconnect(&request, (uint16_t)options->minor,
				  (uint32_t)options->domid,
				  (uint32_t)options->devid);
	return talk(options, TALK_TIMEOUT_MS, &request);
}
