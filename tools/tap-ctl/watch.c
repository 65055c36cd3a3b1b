/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl polling --watch: what a disk's rings do, a line a second, from the
 * growth of their counters.
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "poll/clock.h"
#include "tools/ctl/fields.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/polling.h"

enum { HEADING_LINES = 20 };

static const char *const counters[] = { "requests", "spin_ns", "hits", "misses",
					"lost",	    "sleeps",  "arms" };

enum { REQUESTS, SPIN_NS, HITS, MISSES, LOST, SLEEPS, ARMS, NR_COUNTERS };

struct sample {
	uint64_t at_ns;
	int64_t count[NR_COUNTERS];
	struct json_object *reply;
};

/* Per second, but for the time spent spinning: the share of a CPU. */
struct rates {
	double seconds;
	double of[NR_COUNTERS];
};

static int take(const struct options *options, struct sample *out)
{
	int err = polling_ask(options, false, &out->reply);

	if (err < 0)
		return err;
	out->at_ns = clock_ns();
	for (int i = 0; i < NR_COUNTERS; i++)
		out->count[i] = polling_number(out->reply, counters[i]);
	return 0;
}

static void compare(const struct sample *before, const struct sample *now,
		    struct rates *out)
{
	out->seconds = (double)(now->at_ns - before->at_ns) / 1e9;
	for (int i = 0; i < NR_COUNTERS; i++)
		out->of[i] = (double)(now->count[i] - before->count[i]) /
			     out->seconds;
	out->of[SPIN_NS] /= 1e7; /* per cent of a second */
}

static double threshold_us(const struct sample *s, const char *kind)
{
	struct json_object *policy = polling_object(s->reply, "policy");

	return polling_fraction(polling_object(policy, kind), "threshold_us");
}

static const char *mode_of(const struct sample *s)
{
	const char *mode =
		json_object_get_string(polling_object(s->reply, "mode"));

	return mode ? mode : "unknown";
}

static void print_heading(void)
{
	printf("%-9s %6s %9s %9s %9s %9s %6s %6s %s\n", "mode", "spin %",
	       "requests", "hits", "misses", "sleeps", "lost", "price",
	       "spin up to, us: guest device both");
}

static void print_line(const struct sample *s, const struct rates *r)
{
	struct json_object *policy = polling_object(s->reply, "policy");

	printf("%-9s %6.1f %9.0f %9.0f %9.0f %9.0f %6.0f %6.3f", mode_of(s),
	       r->of[SPIN_NS], r->of[REQUESTS], r->of[HITS], r->of[MISSES],
	       r->of[SLEEPS], r->of[LOST], polling_fraction(policy, "price"));
	printf(" %12.1f %8.1f %8.1f\n", threshold_us(s, "guest"),
	       threshold_us(s, "device"), threshold_us(s, "both"));
}

static void print_json(const struct sample *s, const struct rates *r)
{
	struct json_object *policy = polling_object(s->reply, "policy");
	struct json_object *json = json_object_new_object();
	struct json_object *thresholds = json_object_new_object();
	static const char *const kinds[] = { "guest", "device", "both" };

	fields_add_text(json, "mode", mode_of(s));
	fields_add_fraction(json, "seconds", r->seconds);
	fields_add_fraction(json, "spin_pct", r->of[SPIN_NS]);
	for (int i = 0; i < NR_COUNTERS; i++)
		if (i != SPIN_NS)
			fields_add_fraction(json, counters[i], r->of[i]);
	fields_add_fraction(json, "price", polling_fraction(policy, "price"));
	fields_add_fraction(json, "rho", polling_fraction(policy, "rho"));
	for (size_t i = 0; i < 3; i++)
		fields_add_fraction(thresholds, kinds[i],
				    threshold_us(s, kinds[i]));
	json_object_object_add(json, "threshold_us", thresholds);
	printf("%s\n",
	       json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN));
	json_object_put(json);
}

static void print(const struct options *options, const struct sample *s,
		  const struct rates *rates, int64_t lines)
{
	if (options->json) {
		print_json(s, rates);
		return;
	}
	/* a screen scrolls, a file does not */
	if (lines == 0 || (isatty(STDOUT_FILENO) && lines % HEADING_LINES == 0))
		print_heading();
	print_line(s, rates);
}

int watch_run(const struct options *options)
{
	struct sample before, now;
	struct rates rates;
	int err;

	err = take(options, &before);
	for (int64_t lines = 0; err == 0; lines++) {
		if (options->seconds != OPTIONS_UNSET &&
		    lines == options->seconds)
			break;
		sleep(1);
		err = take(options, &now);
		if (err < 0)
			break;
		compare(&before, &now, &rates);
		print(options, &now, &rates, lines);
		json_object_put(before.reply);
		before = now;
		/* whoever reads has gone: so may we; main says why */
		if (fflush(stdout))
			break;
	}
	json_object_put(before.reply);
	return err;
}
