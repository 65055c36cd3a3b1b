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
#include "tools/tap-ctl/polling.h"
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
	out->polling.has_cap = options->cap != OPTIONS_UNSET;
	if (out->polling.has_cap)
		out->polling.cap = (uint32_t)options->cap;
	out->has_sync = options->sync != OPTIONS_UNSET;
	if (out->has_sync)
		out->polling.sync = (enum sync_mode)options->sync;
}

static bool changes(const struct messages_polling *change)
{
	return change->has_mode || change->has_duration ||
	       change->has_idle_threshold || change->has_align ||
	       change->polling.has_cap || change->has_sync;
}

static const char *text_of(struct json_object *json, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(json, key, &value) || !value)
		return "unknown";
	return json_object_get_string(value);
}

struct json_object *polling_object(struct json_object *json, const char *key)
{
	struct json_object *value;

	if (!json || !json_object_is_type(json, json_type_object) ||
	    !json_object_object_get_ex(json, key, &value))
		return NULL;
	return value;
}

int64_t polling_number(struct json_object *json, const char *key)
{
	return json_object_get_int64(polling_object(json, key));
}

double polling_fraction(struct json_object *json, const char *key)
{
	return json_object_get_double(polling_object(json, key));
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
	printf("cap             %s %%\n", text_of(json, "cap"));
	printf("sync            %s\n", text_of(json, "sync"));
}

/* What adaptive mode has learned, kind by kind. */
static void print_policy(struct json_object *policy)
{
	static const char *const kinds[] = { "guest", "device", "both" };
	struct json_object *kind;

	if (!policy)
		return;
	printf("price of CPU    %.3g, rho %.3g\n",
	       polling_fraction(policy, "price"),
	       polling_fraction(policy, "rho"));
	printf("a sleep costs   %.3g us, and %.3g us of CPU\n",
	       polling_fraction(policy, "w0_us"),
	       polling_fraction(policy, "cw_us"));
	for (size_t i = 0; i < 3; i++) {
		kind = polling_object(policy, kinds[i]);
		if (!kind)
			continue;
		printf("waits, %-8s %" PRId64, kinds[i],
		       polling_number(kind, "gaps"));
		if (polling_number(kind, "decided"))
			printf("; last spin up to %.4g us, by %s",
			       polling_fraction(kind, "threshold_us"),
			       text_of(kind, "decider"));
		printf("\n");
	}
}

/* Whether, and for how much, the host lets it spin. */
static void print_governor(struct json_object *governor)
{
	struct json_object *missing = polling_object(governor, "missing");

	if (!governor)
		return;
	printf("spinning        %s, %.3g %% of a CPU now",
	       json_object_get_boolean(polling_object(governor, "allowed"))
		       ? "allowed"
		       : "not allowed",
	       polling_fraction(governor, "spinning_pct"));
	if (polling_object(governor, "share_pct"))
		printf(" of %.3g %%", polling_fraction(governor, "share_pct"));
	printf(", %" PRId64 " tapdisks\n",
	       polling_number(governor, "tapdisks"));
	if (polling_object(governor, "idle_pct"))
		printf("idle CPU        %.3g %%, from %s\n",
		       polling_fraction(governor, "idle_pct"),
		       text_of(governor, "idle_source"));
	printf("costs           %s\n", text_of(governor, "costs_source"));
	for (size_t i = 0;
	     missing && json_object_is_type(missing, json_type_array) &&
	     i < (size_t)json_object_array_length(missing);
	     i++)
		printf("missing         %s\n",
		       json_object_get_string(
			       json_object_array_get_idx(missing, i)));
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
	       (double)polling_number(json, "spin_ns") / 1e9);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		printf("%-16s%" PRId64 "\n", lines[i][0],
		       polling_number(json, lines[i][1]));
}

static int exchange(const struct options *options,
		    const struct messages_polling *change,
		    struct json_object **reply)
{
	struct json_object *json = messages_polling(change);
	int err = talk_json(options, WIRE_POLLING, json, reply);

	json_object_put(json);
	return err;
}

int polling_ask(const struct options *options, bool gaps,
		struct json_object **reply)
{
	struct messages_polling nothing = { .want_gaps = gaps };

	return exchange(options, &nothing, reply);
}

static int set_or_show(const struct options *options,
		       const struct messages_polling *change)
{
	struct json_object *reply;
	int err;

	err = exchange(options, change, &reply);
	if (err < 0)
		return err;
	if (options->json) {
		printf("%s\n", json_object_to_json_string_ext(
				       reply, JSON_C_TO_STRING_PLAIN));
	} else {
		print_settings(reply);
		print_counters(reply);
		print_policy(polling_object(reply, "policy"));
		print_governor(polling_object(reply, "governor"));
	}
	json_object_put(reply);
	return 0;
}

/* What goes with what.  0 or -EINVAL, said. */
static int check(const struct options *options,
		 const struct messages_polling *change)
{
	int views = options->watch + options->advise + !!options->trace;

	if (change->to_default && (change->has_duration || change->has_align ||
				   change->has_idle_threshold ||
				   change->polling.has_cap || change->has_sync))
		return say_error(options, -EINVAL,
				 "--mode default takes no other setting");
	if (views > 1 || (views && changes(change)))
		return say_error(options, -EINVAL,
				 "only one of --watch, --advise, --trace and "
				 "settings at a time");
	if (options->plot && !options->advise)
		return say_error(options, -EINVAL, "--plot without --advise");
	if (options->kind != OPTIONS_UNSET && !options->trace)
		return say_error(options, -EINVAL, "--kind without --trace");
	if (options->trace && options->json)
		return say_error(options, -EINVAL, "--json with --trace");
	if (options->seconds != OPTIONS_UNSET && !views)
		return say_error(options, -EINVAL,
				 "--seconds without --watch, --advise or "
				 "--trace");
	return 0;
}

int polling_run(const struct options *options)
{
	struct messages_polling change;
	int err;

	set_change(options, &change);
	err = check(options, &change);
	if (err < 0)
		return err;
	if (options->watch)
		return watch_run(options);
	if (options->advise)
		return advise_run(options);
	if (options->trace)
		return trace_run(options);
	return set_or_show(options, &change);
}
