/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * polling-sim: what polling policies cost on traces of gaps, against what a
 * clairvoyant would have paid.  Runs the policy that tapdisk runs, and needs
 * neither a disk nor a guest.
 */
#include "tools/polling-sim/options.h"
#include "tools/polling-sim/player.h"
#include "tools/polling-sim/trace.h"
#include "tools/polling-sim/world.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NR_PLAYERS_MAX 16
#define US 1000.0

enum { EXIT_FAILED = 1, EXIT_MISUSE = 2 };

static const char best_static[] = "best-static";
static const char clairvoyant[] = "clairvoyant";

/* The geometric mean of cost / clairvoyant, by policy in order of the lines. */
struct means {
	const char *name[NR_PLAYERS_MAX];
	double logs[NR_PLAYERS_MAX];
	unsigned n, traces;
};

static double ratio(const struct result *r, const struct result *oracle)
{
	return oracle->cost_ns > 0 ? r->cost_ns / oracle->cost_ns : 1;
}

static void add_ns(json_object *o, const char *key, double ns)
{
	json_object_object_add(o, key, json_object_new_int64(llround(ns)));
}

static void print_json(const struct options *options, const char *policy,
		       const struct trace *trace, const struct result *r,
		       const struct result *oracle)
{
	json_object *o = json_object_new_object();

	json_object_object_add(o, "policy", json_object_new_string(policy));
	json_object_object_add(o, "trace", json_object_new_string(trace->name));
	json_object_object_add(o, "seed",
			       json_object_new_int64((int64_t)options->seed));
	add_ns(o, "cost_ns", r->cost_ns);
	add_ns(o, "cost_clairvoyant_ns", oracle->cost_ns);
	add_ns(o, "spin_ns", r->spin_ns);
	json_object_object_add(o, "hits",
			       json_object_new_int64((int64_t)r->hits));
	json_object_object_add(o, "misses",
			       json_object_new_int64((int64_t)r->misses));
	add_ns(o, "late_cost_ns", r->late_ns);
	add_ns(o, "latency_ns", r->latency_ns);
	add_ns(o, "cpu_ns", r->cpu_ns);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

static void print_text(const char *policy, const struct trace *trace,
		       const struct result *r, const struct result *oracle)
{
	double waits = (double)(r->hits + r->misses);

	waits = waits > 0 ? waits : 1;
	printf("%-15s %-12s %8.3f %9.2f %10.2f %9.2f %5.1f %8llu %8llu\n",
	       trace->name, policy, ratio(r, oracle), r->cost_ns / waits / US,
	       r->latency_ns / waits / US, r->cpu_ns / waits / US,
	       r->time_ns > 0 ? 100 * r->cpu_ns / r->time_ns : 0,
	       (unsigned long long)r->hits, (unsigned long long)r->misses);
}

static void print_heading(void)
{
	printf("%-15s %-12s %8s %9s %10s %9s %5s %8s %8s\n", "trace", "policy",
	       "ratio", "cost us", "latency us", "cpu us", "cpu %", "hits",
	       "misses");
}

static bool wanted(const struct options *options, const char *policy)
{
	return !strcmp(options->policy, "all") ||
	       !strcmp(options->policy, policy);
}

/* One line, and its part of the means. */
static void report(const struct options *options, const char *policy,
		   const struct trace *trace, const struct result *r,
		   const struct result *oracle, struct means *means,
		   unsigned at)
{
	if (!wanted(options, policy))
		return;
	if (options->json)
		print_json(options, policy, trace, r, oracle);
	else
		print_text(policy, trace, r, oracle);
	if (trace->kind == TRACE_ADVERSARY)
		return;
	means->name[at] = policy;
	means->logs[at] += log(ratio(r, oracle));
	if (at >= means->n)
		means->n = at + 1;
}

/* Every player on one trace.  0 or -ENOMEM. */
static int play(const struct options *options, const struct trace *trace,
		struct means *means)
{
	struct result r, oracle, against_us = { 0 };
	struct noise noise;
	struct player player;
	unsigned i;
	int err;

	err = noise_init(&noise, options->seed, trace->size);
	if (err)
		return err;
	for (i = 0; player_init(&player, i, &options->model); i++) {
		/* the first, ours, also tells what the clairvoyant pays */
		if (i && !wanted(options, player_name(&player)))
			continue;
		world_run(&player, trace, &options->model, &noise, &r, &oracle);
		if (!i)
			against_us = oracle;
		report(options, player_name(&player), trace, &r, &oracle, means,
		       i);
	}
	if (wanted(options, best_static)) {
		err = world_best_static(trace, &options->model, &noise, &r,
					&oracle);
		if (!err)
			report(options, best_static, trace, &r, &oracle, means,
			       i);
	}
	i++;
	report(options, clairvoyant, trace, &against_us, &against_us, means, i);
	means->traces += trace->kind != TRACE_ADVERSARY;
	noise_fini(&noise);
	return err;
}

/* A named trace, or else a file.  Says what is wrong. */
static int get_trace(const struct options *options, const char *name,
		     struct trace *out)
{
	unsigned line;
	int err = trace_make(name, options->seed, options->waits, out);

	if (err == -ENOENT) {
		err = trace_load(name, out, &line);
		if (err == -EINVAL)
			fprintf(stderr,
				"polling-sim: %s: line %u: not a gap in ns and "
				"read, write or flush\n",
				name, line);
		else if (err == -ENOENT)
			fprintf(stderr,
				"polling-sim: %s: no such trace, no such "
				"file\n",
				name);
		else if (err == -ENODATA)
			fprintf(stderr, "polling-sim: %s: no gap in it\n",
				name);
		else if (err)
			fprintf(stderr, "polling-sim: %s: %s\n", name,
				strerror(-err));
	} else if (err) {
		fprintf(stderr, "polling-sim: %s: %s\n", name, strerror(-err));
	}
	return err;
}

static int play_one(const struct options *options, const char *name,
		    struct means *means)
{
	struct trace trace;
	int err = get_trace(options, name, &trace);

	if (err)
		return err;
	if (!options->gaps) {
		err = play(options, &trace, means);
		if (err)
			fprintf(stderr, "polling-sim: %s: %s\n", name,
				strerror(-err));
	} else if (trace.kind == TRACE_LOOP || trace.kind == TRACE_ADVERSARY) {
		fprintf(stderr,
			"polling-sim: %s: its gaps depend on the "
			"policy\n",
			name);
		err = -EINVAL;
	} else {
		trace_print(&trace, stdout);
	}
	trace_free(&trace);
	return err;
}

static int play_core(const struct options *options, struct means *means)
{
	enum trace_kind kind;
	const char *name;
	unsigned i;
	int err = 0;

	for (i = 0; !err && (name = trace_name(i, &kind)); i++)
		if (kind != TRACE_EXTRA)
			err = play_one(options, name, means);
	return err;
}

static void print_means(const struct means *means)
{
	unsigned i;

	if (means->traces < 2)
		return;
	printf("geometric mean of the ratio over %u traces, without the "
	       "adversary:\n",
	       means->traces);
	for (i = 0; i < means->n; i++)
		if (means->name[i])
			printf("%-15s %-12s %8.3f\n", "", means->name[i],
			       exp(means->logs[i] / means->traces));
}

static bool policy_exists(const struct options *options)
{
	struct player player;
	unsigned i;

	for (i = 0; player_init(&player, i, &options->model); i++)
		if (wanted(options, player_name(&player)))
			return true;
	return wanted(options, best_static) || wanted(options, clairvoyant);
}

int main(int argc, char **argv)
{
	struct means means = { 0 };
	struct options options;
	int err;

	err = options_parse(argc, argv, &options);
	if (err)
		return err > 0 ? 0 : EXIT_MISUSE;
	if (!policy_exists(&options)) {
		fprintf(stderr, "polling-sim: --policy: %s: no such policy\n",
			options.policy);
		return EXIT_MISUSE;
	}
	if (options.gaps && !strcmp(options.trace, "all")) {
		fputs("polling-sim: --gaps: needs one --trace\n", stderr);
		return EXIT_MISUSE;
	}
	if (!options.json && !options.gaps)
		print_heading();
	err = strcmp(options.trace, "all")
		      ? play_one(&options, options.trace, &means)
		      : play_core(&options, &means);
	if (err)
		return EXIT_FAILED;
	if (!options.json && !options.gaps)
		print_means(&means);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "polling-sim: stdout: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	return 0;
}
