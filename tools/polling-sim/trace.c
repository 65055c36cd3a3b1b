/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The named traces.  Each draws its random numbers in a fixed order, because a
 * name and a seed promise the same trace for ever: change none, add new ones.
 */
#include "tools/polling-sim/trace.h"
#include "tools/polling-sim/random.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define US 1000.0
#define MS 1000000.0
#define CAP_NS (100 * MS) /* of what has no mean of its own */

enum { READ, WRITE, FLUSH };

static bool full(const struct trace *t)
{
	return t->nr_steps == t->size;
}

/* What a group has beyond the end is dropped. */
static void add(struct trace *t, double ns, unsigned op)
{
	if (!full(t))
		t->steps[t->nr_steps++] = (struct trace_step){ ns, op };
}

static double exponential(struct random *r, double mean)
{
	return random_exponential(r, 1 / mean);
}

static double pareto(struct random *r, double least_ns, double exponent)
{
	double ns = least_ns * pow(1 - random_share(r), -1 / exponent);

	return ns < CAP_NS ? ns : CAP_NS;
}

/* p: requests a second */
static void poisson(struct trace *t, struct random *r, const double *p)
{
	while (!full(t))
		add(t, exponential(r, 1e9 / p[0]), READ);
}

/* p: median in us, sigma */
static void lognormal(struct trace *t, struct random *r, const double *p)
{
	while (!full(t))
		add(t, random_lognormal(r, p[0] * US, p[1]), READ);
}

/* p: exponent, least in us */
static void tailed(struct trace *t, struct random *r, const double *p)
{
	while (!full(t))
		add(t, pareto(r, p[1] * US, p[0]), READ);
}

/* p: mean idle time in ms */
static void bursts(struct trace *t, struct random *r, const double *p)
{
	int i;

	while (!full(t)) {
		for (i = 0; i < 31; i++)
			add(t, random_lognormal(r, 8 * US, .3), READ);
		add(t, exponential(r, p[0] * MS), READ);
	}
}

/* p: us, sigma relative to it */
static void periodic(struct trace *t, struct random *r, const double *p)
{
	double ns;

	while (!full(t)) {
		ns = random_gauss(r, p[0] * US, p[1] * p[0] * US);
		add(t, ns > 100 ? ns : 100, READ);
	}
}

/* p: two medians in us, share of the first */
static void bimodal(struct trace *t, struct random *r, const double *p)
{
	bool first;

	while (!full(t)) {
		first = random_share(r) < p[2];
		add(t, random_lognormal(r, p[!first] * US, .2), READ);
	}
}

/* Three pages, a sync that waits for the disk, now and then a checkpoint. */
static void sqlite(struct trace *t, struct random *r, const double *p)
{
	int i;

	(void)p;
	while (!full(t)) {
		for (i = 0; i < 3; i++)
			add(t, random_lognormal(r, 25 * US, .3), WRITE);
		add(t, random_lognormal(r, 18 * US, .3), FLUSH);
		add(t, random_lognormal(r, 120 * US, .5), FLUSH);
		if (random_share(r) < .02)
			add(t, random_lognormal(r, 2500 * US, .4), READ);
	}
}

static void alternate(struct trace *t, struct random *r, const double *p)
{
	unsigned odd;

	(void)p;
	while (!full(t)) {
		odd = t->nr_steps % 2;
		add(t, random_lognormal(r, (odd ? 12 : 900) * US, .2), odd);
	}
}

/* p: shortest and longest stay, number of levels, their medians in us */
static void regimes(struct trace *t, struct random *r, const double *p)
{
	uint32_t shortest = (uint32_t)p[0], longest = (uint32_t)p[1], left;
	double median;

	while (!full(t)) {
		median = p[3 + random_below(r, (uint32_t)p[2])] * US;
		left = shortest + random_below(r, longest - shortest + 1);
		for (; left; left--)
			add(t, random_lognormal(r, median, .3), READ);
	}
}

/* From 5 us to 5 ms and back in 1500 gaps. */
static void drift(struct trace *t, struct random *r, const double *p)
{
	double phase;

	(void)p;
	while (!full(t)) {
		phase = 2 * M_PI * (double)t->nr_steps / 1500;
		add(t,
		    random_lognormal(
			    r, 5 * US * pow(1000, .5 - .5 * cos(phase)), .15),
		    READ);
	}
}

/* Poisson whose rate jumps between two. */
static void modulated(struct trace *t, struct random *r, const double *p)
{
	bool slow = false;
	int left;

	(void)p;
	while (!full(t)) {
		slow = !slow;
		left = (int)exponential(r, slow ? 15 : 120) + 1;
		for (; left; left--)
			add(t, exponential(r, (slow ? 2000 : 20) * US), READ);
	}
}

static void weibull(struct trace *t, struct random *r, const double *p)
{
	while (!full(t))
		add(t, random_weibull(r, p[0] * US, p[1]), READ);
}

static void gamma_gaps(struct trace *t, struct random *r, const double *p)
{
	while (!full(t))
		add(t, random_gamma(r, p[0], p[1] * US), READ);
}

static void sawtooth(struct trace *t, struct random *r, const double *p)
{
	size_t step;

	(void)p;
	while (!full(t)) {
		step = t->nr_steps % 40;
		add(t, random_lognormal(r, (4 + 6 * (double)step) * US, .1),
		    READ);
	}
}

static void database(struct trace *t, struct random *r, const double *p)
{
	uint32_t left;

	(void)p;
	while (!full(t)) {
		for (left = 1 + random_below(r, 12); left; left--)
			add(t, random_lognormal(r, 30 * US, .6), READ);
		for (left = 1 + random_below(r, 4); left; left--)
			add(t, random_lognormal(r, 12 * US, .3), WRITE);
		add(t, random_lognormal(r, 250 * US, .8), FLUSH);
	}
}

static void hyperexponential(struct trace *t, struct random *r, const double *p)
{
	(void)p;
	while (!full(t)) {
		double mean = random_share(r) < .7 ? 10 : 1000;

		add(t, exponential(r, mean * US), READ);
	}
}

/* A random walk of the logarithm, between 2 us and 20 ms. */
static void walk(struct trace *t, struct random *r, const double *p)
{
	double x = log(80);

	(void)p;
	while (!full(t)) {
		x += random_gauss(r, 0, .15);
		x = fmin(log(20000), fmax(log(2), x));
		add(t, exp(x) * US, READ);
	}
}

static void visits(struct trace *t, struct random *r, const double *p)
{
	double ns;
	int left;

	(void)p;
	while (!full(t)) {
		left = 1 + (int)random_exponential(r, 1.0 / 8);
		for (; left; left--) {
			ns = random_lognormal(r, 20 * US, .5);
			add(t, ns, random_share(r) < .3 ? WRITE : READ);
		}
		add(t, pareto(r, 300 * US, 1.1), READ);
	}
}

/* p: threads, median think time in us, sigma, service in us */
static void loop_threads(struct trace *t, struct random *r, const double *p)
{
	size_t rest = t->size % (size_t)p[0]; /* as many for each */

	t->threads = (unsigned)p[0];
	t->size -= rest;
	t->service_ns[READ] = p[3] * US;
	lognormal(t, r, p + 1);
	t->size += rest;
}

/* p: tick in us */
static void loop_timer(struct trace *t, struct random *r, const double *p)
{
	t->threads = 1;
	t->tick_ns = p[0] * US;
	t->service_ns[READ] = 60 * US;
	while (!full(t))
		add(t, random_share(r) * 20 * US, READ);
}

static void loop_commit(struct trace *t, struct random *r, const double *p)
{
	int i;

	(void)p;
	t->threads = 1;
	t->service_ns[READ] = t->service_ns[WRITE] = 60 * US;
	t->service_ns[FLUSH] = 400 * US;
	while (!full(t)) {
		for (i = 0; i < 3; i++)
			add(t, random_lognormal(r, 15 * US, .3), WRITE);
		add(t, random_lognormal(r, 10 * US, .3), FLUSH);
		add(t, random_lognormal(r, 90 * US, .5), READ);
	}
}

/* 8 threads, four quick ones and a pause each: late answers merge bursts. */
static void loop_burst(struct trace *t, struct random *r, const double *p)
{
	size_t step, rest = t->size % 8;

	(void)p;
	t->threads = 8;
	t->size -= rest;
	t->service_ns[READ] = 4 * US;
	while (!full(t)) {
		step = t->nr_steps % (t->size / t->threads);
		add(t, random_lognormal(r, (step % 4 ? 10 : 700) * US, .4),
		    READ);
	}
	t->size += rest;
}

static void nothing(struct trace *t, struct random *r, const double *p)
{
	(void)t;
	(void)r;
	(void)p;
}

static const struct {
	const char *name;
	enum trace_kind kind;
	void (*make)(struct trace *t, struct random *r, const double *p);
	double p[8];
} traces[] = {
	{ "poisson-100", TRACE_STATIONARY, poisson, { 100 } },
	{ "poisson-1k", TRACE_STATIONARY, poisson, { 1000 } },
	{ "poisson-5k", TRACE_STATIONARY, poisson, { 5000 } },
	{ "poisson-20k", TRACE_STATIONARY, poisson, { 20000 } },
	{ "poisson-50k", TRACE_STATIONARY, poisson, { 50000 } },
	{ "pareto-1.2", TRACE_STATIONARY, tailed, { 1.2, 10 } },
	{ "pareto-1.7", TRACE_STATIONARY, tailed, { 1.7, 20 } },
	{ "think-15us", TRACE_STATIONARY, lognormal, { 15, .35 } },
	{ "think-100us", TRACE_STATIONARY, lognormal, { 100, .35 } },
	{ "bimodal", TRACE_STATIONARY, bimodal, { 10, 400, .5 } },
	{ "burst32-1ms", TRACE_STATIONARY, bursts, { 1 } },
	{ "burst32-5ms", TRACE_STATIONARY, bursts, { 5 } },
	{ "burst32-50ms", TRACE_STATIONARY, bursts, { 50 } },
	{ "periodic-300us", TRACE_STATIONARY, periodic, { 300, .1 } },
	{ "periodic-1.3ms", TRACE_STATIONARY, periodic, { 1300, .05 } },
	{ "periodic-8ms", TRACE_STATIONARY, periodic, { 8000, .05 } },
	{ "idle-20ms", TRACE_STATIONARY, periodic, { 20000, .02 } },
	{ "sqlite", TRACE_STATIONARY, sqlite, { 0 } },
	{ "alternate", TRACE_STATIONARY, alternate, { 0 } },
	{ "regimes",
	  TRACE_SHIFTING,
	  regimes,
	  { 50, 400, 4, 20, 80, 400, 3000 } },
	{ "regimes-fast",
	  TRACE_SHIFTING,
	  regimes,
	  { 10, 60, 3, 10, 60, 1500 } },
	{ "drift", TRACE_SHIFTING, drift, { 0 } },
	{ "loop-2x30us", TRACE_LOOP, loop_threads, { 2, 30, .5, 5 } },
	{ "loop-8x200us", TRACE_LOOP, loop_threads, { 8, 200, .5, 5 } },
	{ "loop-timer-1ms", TRACE_LOOP, loop_timer, { 1000 } },
	{ "loop-commit", TRACE_LOOP, loop_commit, { 0 } },
	{ "loop-burst", TRACE_LOOP, loop_burst, { 0 } },
	{ "adversary", TRACE_ADVERSARY, nothing, { 0 } },
	{ "x-mmpp", TRACE_EXTRA, modulated, { 0 } },
	{ "x-weibull", TRACE_EXTRA, weibull, { 60, .5 } },
	{ "x-lognormal", TRACE_EXTRA, lognormal, { 60, 1.5 } },
	{ "x-sawtooth", TRACE_EXTRA, sawtooth, { 0 } },
	{ "x-dbmix", TRACE_EXTRA, database, { 0 } },
	{ "y-gamma", TRACE_EXTRA, gamma_gaps, { .5, 300 } },
	{ "y-hyper", TRACE_EXTRA, hyperexponential, { 0 } },
	{ "y-walk", TRACE_EXTRA, walk, { 0 } },
	{ "y-visits", TRACE_EXTRA, visits, { 0 } },
};

#define NR_TRACES (sizeof(traces) / sizeof(*traces))

const char *trace_name(unsigned i, enum trace_kind *kind)
{
	if (i >= NR_TRACES)
		return NULL;
	*kind = traces[i].kind;
	return traces[i].name;
}

int trace_make(const char *name, uint64_t seed, size_t waits, struct trace *out)
{
	struct random r;
	char text[64];
	size_t i, k;

	for (i = 0; i < NR_TRACES && strcmp(traces[i].name, name) != 0; i++)
		;
	if (i == NR_TRACES)
		return -ENOENT;
	*out = (struct trace){ .name = traces[i].name,
			       .kind = traces[i].kind,
			       .size = waits };
	out->steps = calloc(waits, sizeof(*out->steps));
	if (!out->steps)
		return -ENOMEM;
	snprintf(text, sizeof(text), "%s/%" PRIu64, name, seed);
	random_seed(&r, text);
	traces[i].make(out, &r, traces[i].p);
	for (k = 0; k < out->nr_steps && !out->threads; k++)
		out->steps[k].ns = trunc(out->steps[k].ns);
	return 0;
}

void trace_free(struct trace *t)
{
	free(t->steps);
	t->steps = NULL;
}
