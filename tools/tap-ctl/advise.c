/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl polling --advise: the histogram of a disk's waits, since it was
 * attached or for some seconds from now, and what it says about how to wait.
 */
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/ctl/advise.h"
#include "tools/ctl/fields.h"
#include "tools/ctl/messages.h"
#include "tools/ctl/plot.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/polling.h"
#include "tools/tap-ctl/say.h"

struct view {
	struct gaps_histogram gaps[GAPS_KINDS];
	int64_t requests;
	uint64_t duration_ns;
	struct advise_costs costs;
};

static uint32_t q16(struct json_object *policy, const char *key)
{
	return (uint32_t)lrint(polling_fraction(policy, key) * POLICY_ONE);
}

static uint64_t ns(struct json_object *policy, const char *key)
{
	return (uint64_t)llrint(polling_fraction(policy, key) * 1000);
}

static int look(const struct options *options, struct view *out)
{
	struct json_object *reply, *policy;
	int err = polling_ask(options, true, &reply);

	if (err < 0)
		return err;
	policy = polling_object(reply, "policy");
	out->requests = polling_number(reply, "requests");
	out->duration_ns =
		(uint64_t)polling_number(reply, "effective_us") * 1000;
	out->costs = (struct advise_costs){
		.price = q16(policy, "price"),
		.rho = q16(policy, "rho"),
		.w0_ns = ns(policy, "w0_us"),
		.cw_ns = ns(policy, "cw_us"),
	};
	err = policy ? messages_gaps_read(reply, out->gaps) : -EINVAL;
	json_object_put(reply);
	if (err < 0)
		say_error(options, -EPROTO,
			  "tapdisk %d: it does not tell its waits",
			  (int)options->pid);
	return err < 0 ? -EPROTO : 0;
}

/* What happened between two looks. */
static void subtract(const struct view *before, struct view *now)
{
	for (unsigned k = 0; k < GAPS_KINDS; k++)
		for (unsigned i = 0; i < GAPS_BINS; i++) {
			now->gaps[k].bins[i].n -= before->gaps[k].bins[i].n;
			now->gaps[k].bins[i].ns -= before->gaps[k].bins[i].ns;
		}
	now->requests -= before->requests;
}

static double us(const struct advise *a, double total_ns)
{
	return total_ns / a->requests / 1000;
}

static double share(double part, double of)
{
	return of > 0 ? 100 * part / of : 0;
}

static void print_way(const struct advise *a, enum advise_way way)
{
	const struct advise_cost *c = &a->ways[way];
	char threshold[32] = "-";

	if (way != ADVISE_EVENT && way != ADVISE_ADAPTIVE)
		snprintf(threshold, sizeof(threshold), "%.4g us",
			 (double)a->threshold_ns[way] / 1000);
	printf("%-12s %12s %10.2f %10.2f %10.2f %7.1f %%\n", advise_name(way),
	       threshold, us(a, c->latency_ns), us(a, c->cpu_ns),
	       us(a, c->cost_ns), share(c->hits, c->waits));
}

static void print_text(const struct advise *a, const char *sentence)
{
	const struct advise_costs *c = &a->costs;

	printf("%.0f waits (guest %.0f, device %.0f, both %.0f) of %.0f "
	       "requests\n",
	       a->waits, a->kind_waits[0], a->kind_waits[1], a->kind_waits[2],
	       a->requests);
	printf("a sleep costs %.3g us of latency and %.3g us of CPU; price of "
	       "CPU %.3g, rho %.3g\n\n",
	       (double)c->w0_ns / 1000, (double)c->cw_ns / 1000,
	       (double)c->price / POLICY_ONE, (double)c->rho / POLICY_ONE);
	printf("%-12s %12s %10s %10s %10s %9s\n", "us a request", "spin up to",
	       "latency", "CPU", "cost", "hits");
	for (unsigned i = 0; i < NR_ADVISE_WAYS; i++)
		print_way(a, (enum advise_way)i);
	printf("\nlatency is what waiting adds to it, cost is latency + price "
	       "x CPU; adaptive is an\nestimate: the best threshold for each "
	       "kind of wait\n");
	printf("%s\n", sentence);
}

static void add_cost(struct json_object *json, const struct advise *a,
		     const struct advise_cost *c, uint64_t threshold_ns)
{
	fields_add_u64(json, "threshold_ns", threshold_ns);
	fields_add_u64(json, "waits", (uint64_t)c->waits);
	fields_add_u64(json, "hits", (uint64_t)c->hits);
	fields_add_u64(json, "cost_ns", (uint64_t)c->cost_ns);
	fields_add_fraction(json, "latency_us", us(a, c->latency_ns));
	fields_add_fraction(json, "cpu_us", us(a, c->cpu_ns));
	fields_add_fraction(json, "cost_us", us(a, c->cost_ns));
}

static struct json_object *ways_json(const struct advise *a)
{
	struct json_object *ways = json_object_new_array(), *way;

	for (unsigned i = 0; i < NR_ADVISE_WAYS; i++) {
		way = json_object_new_object();
		fields_add_text(way, "way", advise_name((enum advise_way)i));
		add_cost(way, a, &a->ways[i], a->threshold_ns[i]);
		json_object_array_add(ways, way);
	}
	return ways;
}

static void print_json(const struct advise *a, const char *sentence)
{
	struct json_object *json = json_object_new_object();
	struct json_object *kinds = json_object_new_object(), *kind;

	fields_add_u64(json, "waits", (uint64_t)a->waits);
	fields_add_u64(json, "requests", (uint64_t)a->requests);
	fields_add_fraction(json, "price", (double)a->costs.price / POLICY_ONE);
	fields_add_fraction(json, "rho", (double)a->costs.rho / POLICY_ONE);
	fields_add_fraction(json, "w0_us", (double)a->costs.w0_ns / 1000);
	fields_add_fraction(json, "cw_us", (double)a->costs.cw_ns / 1000);
	json_object_object_add(json, "ways", ways_json(a));
	for (unsigned k = 0; k < GAPS_KINDS; k++) {
		kind = json_object_new_object();
		add_cost(kind, a, &a->kinds[k], a->kind_threshold_ns[k]);
		json_object_object_add(
			kinds,
			messages_kind_name((enum wait_kind)(WAIT_GUEST + k)),
			kind);
	}
	json_object_object_add(json, "kinds", kinds);
	if (a->enough)
		fields_add_text(json, "recommended",
				a->recommended == ADVISE_EVENT ? "event"
							       : "adaptive");
	fields_add_text(json, "advice", sentence);
	printf("%s\n",
	       json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN));
	json_object_put(json);
}

static int draw(const struct options *options, const struct advise *a,
		const struct view *view)
{
	char title[64];
	FILE *file;
	int err;

	file = fopen(options->plot, "we");
	if (!file)
		return say_error(options, -errno, "%s", options->plot);
	snprintf(title, sizeof(title), "How to wait: tapdisk %d, minor %d",
		 (int)options->pid, (int)options->minor);
	err = plot_write(file, title, a, view->gaps);
	if (fclose(file) && err == 0)
		err = -errno;
	return err < 0 ? say_error(options, err, "%s", options->plot) : 0;
}

static int advise_on(const struct options *options, const struct view *view)
{
	struct advise advise;
	char sentence[512];
	int err = 0;

	advise_make(&view->costs, view->gaps,
		    view->requests > 0 ? (uint64_t)view->requests : 0,
		    view->duration_ns, &advise);
	advise_say(&advise, sentence, sizeof(sentence));
	if (options->plot)
		err = draw(options, &advise, view);
	if (err < 0)
		return err;
	if (options->json)
		print_json(&advise, sentence);
	else
		print_text(&advise, sentence);
	return 0;
}

int advise_run(const struct options *options)
{
	struct view before, now;
	int err;

	if (options->seconds != OPTIONS_UNSET) {
		err = look(options, &before);
		if (err)
			return err;
		sleep((unsigned)options->seconds);
	}
	err = look(options, &now);
	if (err)
		return err;
	if (options->seconds != OPTIONS_UNSET)
		subtract(&before, &now);
	return advise_on(options, &now);
}
