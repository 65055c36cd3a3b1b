/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl polling: show how a disk's rings wait for their guest, or change it.
 *
 * The tapdisk's reply is shown as it came, so that a newer one can say more;
 * for people its known keys are put in words.
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include "tools/ctl/messages.h"
#include "tools/ctl/wire.h"
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"
#include "tools/tap-ctl/talk.h"

/* The words of --mode, in their order there. */
enum { MODE_EVENT, MODE_FIXED, MODE_ADAPTIVE, MODE_DEFAULT };

static void set_change(const struct options *options,
		       struct messages_polling *out)
{
	memset(out, 0, sizeof(*out));
	out->has_mode = options->mode != OPTIONS_UNSET;
	out->to_default = options->mode == MODE_DEFAULT;
	if (options->mode == MODE_FIXED)
		out->polling.mode = WAIT_FIXED;
	else if (options->mode == MODE_ADAPTIVE)
		out->polling.mode = WAIT_ADAPTIVE;
	out->has_duration = options->duration_us != OPTIONS_UNSET;
	if (out->has_duration)
		out->polling.duration_us = (uint32_t)options->duration_us;
	out->has_idle_threshold = options->idle_threshold != OPTIONS_UNSET;
	if (out->has_idle_threshold)
		out->polling.idle_threshold = (uint8_t)options->idle_threshold;
	out->has_align = options->align != OPTIONS_UNSET;
	out->polling.align = options->align == 0;
}

static const char *text_of(struct json_object *json, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(json, key, &value) || !value)
		return "unknown";
	return json_object_get_string(value);
}

static int64_t number_of(struct json_object *json, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(json, key, &value))
		return 0;
	return json_object_get_int64(value);
}

static void print_settings(struct json_object *json)
{
	static const char *const source_words[][2] = {
		{ "tap-ctl", "set by tap-ctl" },
		{ "connect", "from the connect message" },
		{ "xenstore", "from xenstore" },
		{ "default", "the default" },
	};
	const char *source = text_of(json, "source");
	struct json_object *align;
	bool aligned = false;

	for (size_t i = 0; i < 4; i++) {
		if (strcmp(source, source_words[i][0]))
			continue;
		source = source_words[i][1];
		break;
	}
	if (json_object_object_get_ex(json, "align", &align))
		aligned = json_object_get_boolean(align);
	printf("mode            %s, %s\n", text_of(json, "mode"), source);
	printf("requested       %s us\n", text_of(json, "requested_us"));
	printf("effective       %s us, align %s\n",
	       text_of(json, "effective_us"), aligned ? "on" : "off");
	printf("granularity     %s us, from %s\n",
	       text_of(json, "granularity_us"),
	       text_of(json, "granularity_source"));
	printf("idle threshold  %s %%\n", text_of(json, "idle_threshold"));
}

static void print_counters(struct json_object *json)
{
	static const char *const lines[][2] = {
		{ "requests", "requests" },
		{ "spins hit", "hits" },
		{ "spins missed", "misses" },
		{ "lost CPU", "lost" },
		{ "sleeps", "sleeps" },
		{ "arms", "arms" },
		{ "guest events", "guest_events" },
		{ "notifications", "notifications" },
	};

	printf("time spinning   %.6f s\n",
	       (double)number_of(json, "spin_ns") / 1e9);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		printf("%-16s%" PRId64 "\n", lines[i][0],
		       number_of(json, lines[i][1]));
}

int polling_run(const struct options *options)
{
	struct messages_polling change;
	struct json_object *json, *reply;
	int err;

	set_change(options, &change);
	if (change.to_default && (change.has_duration || change.has_align ||
				  change.has_idle_threshold))
		return say_error(options, -EINVAL,
				 "--mode default takes no other setting");
	json = messages_polling(&change);
	err = talk_json(options, WIRE_POLLING, json, &reply);
	json_object_put(json);
	if (err < 0)
		return err;
	if (options->json) {
		printf("%s\n", json_object_to_json_string_ext(
				       reply, JSON_C_TO_STRING_PLAIN));
	} else {
		print_settings(reply);
		print_counters(reply);
	}
	json_object_put(reply);
	return 0;
}
