/* SPDX-License-Identifier: BSD-3-Clause */
/* See advise.h. */
#include "tools/ctl/advise.h"

#include <stdio.h>
#include <string.h>
#include "poll/policy.h"

#define MS UINT64_C(1000000)

/* Spinning has to save this much to be worth a setting. */
#define WORTH 0.97

static const struct {
	const char *name;
	uint64_t threshold_ns; /* of those that are looked at as they are */
} ways[NR_ADVISE_WAYS] = {
	[ADVISE_EVENT] = { "event", 0 },
	[ADVISE_FIXED_1MS] = { "fixed 1 ms", MS },
	[ADVISE_FIXED_3MS] = { "fixed 3 ms", 3 * MS },
	[ADVISE_FIXED_6MS] = { "fixed 6 ms", 6 * MS },
	[ADVISE_FIXED_8MS] = { "fixed 8 ms", 8 * MS },
	[ADVISE_STATIC] = { "best fixed", 0 },
	[ADVISE_ADAPTIVE] = { "adaptive", 0 },
};

const char *advise_name(enum advise_way way)
{
	return ways[way].name;
}

/* The policy is asked for its opinion of costs and for nothing else. */
static void judge_init(struct policy *judge, const struct advise_costs *costs)
{
	policy_init(judge, POLICY_TIME_MAX_NS, costs->price, costs->w0_ns,
		    costs->cw_ns);
	policy_rho_is(judge, costs->rho);
}

static void add_bin(const struct policy *judge, const struct gaps_bin *bin,
		    uint64_t threshold_ns, struct advise_cost *out)
{
	uint64_t mean_ns = bin->ns / bin->n;
	double n = (double)bin->n, rho = (double)policy_rho(judge) / POLICY_ONE;

	out->waits += n;
	out->cost_ns += n * (double)policy_cost(judge, threshold_ns, mean_ns);
	if (mean_ns <= threshold_ns) {
		out->hits += n;
		out->cpu_ns += (double)bin->ns;
		out->latency_ns += n * ADVISE_TURN_NS;
		out->cost_ns += n * ADVISE_TURN_NS;
	} else {
		out->cpu_ns += n * (double)(threshold_ns + judge->cw_ns);
		out->latency_ns +=
			n * ((double)judge->w0_ns + rho * (double)threshold_ns);
	}
}

static void sum_bins(const struct policy *judge,
		     const struct gaps_histogram *gaps, uint64_t threshold_ns,
		     struct advise_cost *out)
{
	*out = (struct advise_cost){ 0 };
	for (unsigned i = 0; i < GAPS_BINS; i++)
		if (gaps->bins[i].n)
			add_bin(judge, &gaps->bins[i], threshold_ns, out);
}

void advise_cost(const struct advise_costs *costs,
		 const struct gaps_histogram *gaps, uint64_t threshold_ns,
		 struct advise_cost *out)
{
	struct policy judge;

	judge_init(&judge, costs);
	sum_bins(&judge, gaps, threshold_ns, out);
}

uint64_t advise_best(const struct advise_costs *costs,
		     const struct gaps_histogram *gaps, uint64_t limit_ns,
		     struct advise_cost *out)
{
	uint64_t best_ns = 0, ns = 0;
	struct advise_cost cost;
	struct policy judge;

	judge_init(&judge, costs);
	sum_bins(&judge, gaps, 0, out);
	for (unsigned i = 0; i < GAPS_BINS && ns < limit_ns; i++) {
		ns = gaps_edge_ns(i) < limit_ns ? gaps_edge_ns(i) : limit_ns;
		if (!gaps->bins[i].n)
			continue; /* nothing to gain */
		sum_bins(&judge, gaps, ns, &cost);
		if (cost.cost_ns < out->cost_ns) {
			*out = cost;
			best_ns = ns;
		}
	}
	return best_ns;
}

static void add_cost(const struct advise_cost *from, struct advise_cost *to)
{
	to->waits += from->waits;
	to->hits += from->hits;
	to->latency_ns += from->latency_ns;
	to->cpu_ns += from->cpu_ns;
	to->cost_ns += from->cost_ns;
}

/* Guest, device and both are learned apart. */
static void estimate_adaptive(const struct gaps_histogram gaps[GAPS_KINDS],
			      struct advise *out)
{
	for (unsigned k = 0; k < GAPS_KINDS; k++) {
		out->kind_threshold_ns[k] = advise_best(
			&out->costs, &gaps[k], out->limit_ns, &out->kinds[k]);
		out->kind_waits[k] = out->kinds[k].waits;
		add_cost(&out->kinds[k], &out->ways[ADVISE_ADAPTIVE]);
		if (out->kind_threshold_ns[k] >
		    out->threshold_ns[ADVISE_ADAPTIVE])
			out->threshold_ns[ADVISE_ADAPTIVE] =
				out->kind_threshold_ns[k];
	}
}

static enum advise_way recommend(const struct advise *a)
{
	double event = a->ways[ADVISE_EVENT].cost_ns;

	if (a->ways[ADVISE_ADAPTIVE].cost_ns > WORTH * event)
		return ADVISE_EVENT;
	return ADVISE_ADAPTIVE;
}

void advise_make(const struct advise_costs *costs,
		 const struct gaps_histogram gaps[GAPS_KINDS],
		 uint64_t requests, uint64_t duration_ns, struct advise *out)
{
	struct gaps_histogram all = { 0 };

	memset(out, 0, sizeof(*out));
	out->costs = *costs;
	/* adaptive mode never goes by less either */
	if (out->costs.price < out->costs.rho)
		out->costs.price = out->costs.rho;
	out->limit_ns =
		duration_ns > ADVISE_MAX_NS ? duration_ns : ADVISE_MAX_NS;
	for (unsigned k = 0; k < GAPS_KINDS; k++)
		gaps_sum(&gaps[k], &all);
	for (unsigned i = ADVISE_EVENT; i <= ADVISE_FIXED_8MS; i++) {
		out->threshold_ns[i] = ways[i].threshold_ns;
		advise_cost(&out->costs, &all, ways[i].threshold_ns,
			    &out->ways[i]);
	}
	out->threshold_ns[ADVISE_STATIC] = advise_best(
		&out->costs, &all, out->limit_ns, &out->ways[ADVISE_STATIC]);
	estimate_adaptive(gaps, out);
	out->waits = out->ways[ADVISE_EVENT].waits;
	out->requests = requests ? (double)requests : out->waits;
	if (out->requests < 1)
		out->requests = 1;
	out->enough = out->waits >= ADVISE_WAITS_MIN;
	out->recommended = recommend(out);
}

static double us_per_request(const struct advise *a, enum advise_way way)
{
	return a->ways[way].cost_ns / a->requests / 1000;
}

/* A duration that adaptive mode is not held back by: whole milliseconds. */
static unsigned bound_us(const struct advise *a)
{
	uint64_t ms = (a->threshold_ns[ADVISE_ADAPTIVE] + MS - 1) / MS;

	return (unsigned)(ms ? ms : 1) * 1000;
}

void advise_say(const struct advise *a, char *out, unsigned size)
{
	double event = us_per_request(a, ADVISE_EVENT);

	if (!a->enough) {
		snprintf(
			out, size,
			"no recommendation: %.0f waits are recorded, and fewer "
			"than %d tell nothing",
			a->waits, ADVISE_WAITS_MIN);
		return;
	}
	if (a->recommended == ADVISE_EVENT) {
		snprintf(out, size,
			 "recommended: --mode event; no spinning would cost "
			 "much less than its %.3g us per request",
			 event);
		return;
	}
	snprintf(out, size,
		 "recommended: --mode adaptive --duration %u; about %.3g us "
		 "per request instead of %.3g in event mode; of the fixed "
		 "durations %.4g us with --align off is best, %.3g us",
		 bound_us(a), us_per_request(a, ADVISE_ADAPTIVE), event,
		 (double)a->threshold_ns[ADVISE_STATIC] / 1000,
		 us_per_request(a, ADVISE_STATIC));
}
