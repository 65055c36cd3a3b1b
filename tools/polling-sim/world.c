/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three worlds: gaps that come whatever we do, threads that go on only after
 * their answer, and an adversary that knows the threshold.
 */
#include "tools/polling-sim/world.h"
#include "tools/polling-sim/random.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SIGMA 0.15 /* relative noise of a wake */
#define DELAY_ERROR_NS 3000.0
#define ADVERSARY_NS 1000.0 /* how long after the spin it comes */
#define THREADS_MAX 16
#define CANDIDATES_MAX 64

int noise_init(struct noise *noise, uint64_t seed, size_t n)
{
	struct random r;
	char text[64];
	size_t i;

	noise->n = n;
	noise->wake = calloc(3 * n, sizeof(double));
	if (!noise->wake)
		return -ENOMEM;
	noise->delay = noise->wake + n;
	noise->error_ns = noise->delay + n;
	snprintf(text, sizeof(text), "noise/%" PRIu64, seed);
	random_seed(&r, text);
	/* lognormal with mean 1 */
	for (i = 0; i < 2 * n; i++)
		noise->wake[i] =
			exp(random_gauss(&r, -SIGMA * SIGMA / 2, SIGMA));
	for (i = 0; i < n; i++)
		noise->error_ns[i] = random_share(&r) * DELAY_ERROR_NS;
	return 0;
}

void noise_fini(struct noise *noise)
{
	free(noise->wake);
	noise->wake = NULL;
}

static double sleep_ns(const struct model *m)
{
	return m->w0_ns + m->beta * m->cw_ns;
}

static double hit_ns(const struct model *m, double gap_ns)
{
	return WORLD_TURN_NS + m->beta * gap_ns;
}

/* One wait: latency, CPU and what was spun of it. */
struct wait_cost {
	bool hit;
	double latency_ns, cpu_ns, spin_ns;
};

static struct wait_cost wait_hit(double gap_ns)
{
	return (struct wait_cost){ true, WORLD_TURN_NS, gap_ns, gap_ns };
}

static struct wait_cost meet(struct player *player, double spin_ns,
			     double gap_ns, const struct model *m,
			     const struct noise *noise, size_t i)
{
	struct outcome o = { .delay_ns = POLICY_DELAY_UNKNOWN };
	struct wait_cost w;
	double delay;

	if (gap_ns <= spin_ns) {
		o.observed_ns = o.spun_ns = (uint64_t)gap_ns;
		w = wait_hit(gap_ns);
	} else {
		delay = m->rho * spin_ns * noise->delay[i];
		w.hit = false;
		w.latency_ns = m->w0_ns * noise->wake[i] + delay;
		w.cpu_ns = spin_ns + m->cw_ns;
		w.spin_ns = spin_ns;
		o.observed_ns = (uint64_t)(gap_ns + w.latency_ns);
		o.spun_ns = (uint64_t)spin_ns;
		o.missed = true;
		o.delay_ns = (int64_t)(delay + noise->error_ns[i]);
	}
	player_end(player, &o);
	return w;
}

static struct wait_cost foresee(double gap_ns, const struct model *m)
{
	if (hit_ns(m, gap_ns) <= sleep_ns(m))
		return wait_hit(gap_ns);
	return (struct wait_cost){ false, m->w0_ns, m->cw_ns, 0 };
}

static void count(struct result *r, const struct wait_cost *w)
{
	r->cpu_ns += w->cpu_ns;
	r->spin_ns += w->spin_ns;
	if (w->hit)
		r->hits++;
	else
		r->misses++;
}

static void charge(struct result *r, double latency_ns, double cost_ns,
		   bool late)
{
	r->latency_ns += latency_ns;
	r->cost_ns += cost_ns;
	if (late)
		r->late_ns += cost_ns;
}

static void account(struct result *r, const struct wait_cost *w, double gap_ns,
		    const struct model *m)
{
	bool late = r->hits + r->misses >= WORLD_START_WAITS;

	count(r, w);
	charge(r, w->latency_ns, w->latency_ns + m->beta * w->cpu_ns, late);
	r->time_ns += gap_ns + w->latency_ns;
}

/* Gaps of @trace, or of an adversary: it comes just after the spin. */
static void run_open(struct player *player, const struct trace *trace,
		     const struct model *m, const struct noise *noise,
		     struct result *out, struct result *oracle)
{
	bool adversary = trace->kind == TRACE_ADVERSARY;
	size_t n = adversary ? trace->size : trace->nr_steps, i;
	struct wait_cost w;
	double spin, gap;

	for (i = 0; i < n; i++) {
		spin = player_begin(player, adversary ? 0 : trace->steps[i].op);
		/* who spins for ever meets it just after the longest spin */
		gap = adversary ? trunc(fmin(spin, m->max_ns)) + ADVERSARY_NS
				: trace->steps[i].ns;
		w = meet(player, spin, gap, m, noise, i);
		account(out, &w, gap, m);
		if (oracle) {
			w = foresee(gap, m);
			account(oracle, &w, gap, m);
		}
	}
}

/* The thread that is ready first, the lower one of two; -1: all are done. */
static int first_thread(const double *ready_ns, const size_t *done,
			const struct trace *t)
{
	size_t each = t->nr_steps / t->threads;
	int first = -1;
	unsigned k;

	for (k = 0; k < t->threads; k++)
		if (done[k] < each &&
		    (first < 0 || ready_ns[k] < ready_ns[first]))
			first = (int)k;
	return first;
}

/* When a thread that was answered at @now asks again. */
static double next_ready(const struct trace *t, double now, double think_ns)
{
	if (t->tick_ns > 0)
		now = fmax(now, ceil(now / t->tick_ns) * t->tick_ns);
	return now + think_ns;
}

/*
 * Latency is counted by request and with its queueing: a late wake delays all
 * who stand behind it.  Without a player the clairvoyant plays.
 */
static void run_loop(struct player *player, const struct trace *t,
		     const struct model *m, const struct noise *noise,
		     struct result *out)
{
	double ready[THREADS_MAX], now = 0, cpu_cost, gap, spin;
	size_t done[THREADS_MAX] = { 0 }, each = t->nr_steps / t->threads;
	size_t waits = 0;
	const struct trace_step *step;
	struct wait_cost w;
	unsigned op = 0;
	int k;

	for (k = 0; k < (int)t->threads; k++)
		ready[k] = t->steps[(size_t)k * each].ns;
	while ((k = first_thread(ready, done, t)) >= 0) {
		cpu_cost = 0;
		if (ready[k] > now) {
			gap = ready[k] - now;
			spin = player ? player_begin(player, op) : 0;
			w = player ? meet(player, spin, gap, m, noise,
					  waits % noise->n)
				   : foresee(gap, m);
			count(out, &w);
			cpu_cost = m->beta * w.cpu_ns;
			waits++;
			now = ready[k] + w.latency_ns;
		}
		charge(out, now - ready[k], cpu_cost + now - ready[k],
		       waits > WORLD_START_WAITS);
		step = &t->steps[(size_t)k * each + done[k]];
		op = step->op;
		now += t->service_ns[op];
		if (++done[k] < each)
			ready[k] = next_ready(t, now, step[1].ns);
	}
	out->time_ns = now;
}

void world_run(struct player *player, const struct trace *trace,
	       const struct model *m, const struct noise *noise,
	       struct result *out, struct result *oracle)
{
	*out = (struct result){ 0 };
	if (oracle)
		*oracle = (struct result){ 0 };
	if (trace->kind != TRACE_LOOP) {
		run_open(player, trace, m, noise, out, oracle);
		return;
	}
	run_loop(player, trace, m, noise, out);
	if (oracle)
		run_loop(NULL, trace, m, noise, oracle);
}

/* 0, every quarter octave from 500 ns, and the maximum.  Returns how many. */
static size_t candidates(const struct model *m, double *ns)
{
	size_t n = 0;
	double next = 0;

	while (next <= m->max_ns && n < CANDIDATES_MAX - 1) {
		ns[n] = next;
		next = trunc(500 * pow(2, (double)n / 4));
		n++;
	}
	ns[n++] = m->max_ns;
	return n;
}

static int by_length(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double miss_ns(const struct model *m, double spin_ns)
{
	return sleep_ns(m) + (m->beta + m->rho) * spin_ns;
}

/* By what is to be expected of each: one pass over the sorted gaps. */
static double best_of_gaps(const struct trace *t, const struct model *m,
			   double *gaps)
{
	double spins[CANDIDATES_MAX], hit = 0, cost, least = INFINITY, best = 0;
	size_t nr_spins = candidates(m, spins), n = t->nr_steps, i, k = 0;

	for (i = 0; i < n; i++)
		gaps[i] = t->steps[i].ns;
	qsort(gaps, n, sizeof(*gaps), by_length);
	for (i = 0; i < nr_spins; i++) {
		for (; k < n && gaps[k] <= spins[i]; k++)
			hit += gaps[k];
		cost = (double)k * WORLD_TURN_NS + m->beta * hit +
		       (double)(n - k) * miss_ns(m, spins[i]);
		if (cost < least) {
			least = cost;
			best = spins[i];
		}
	}
	return best;
}

/* A world that reacts has to be tried, with every other candidate. */
static double best_by_trial(const struct trace *trace, const struct model *m,
			    const struct noise *noise)
{
	double spins[CANDIDATES_MAX], least = INFINITY, best = 0;
	size_t n = candidates(m, spins), i;
	struct player player;
	struct result r;

	for (i = 0; i < n; i += 2) {
		player_init_static(&player, spins[i]);
		world_run(&player, trace, m, noise, &r, NULL);
		if (r.cost_ns < least) {
			least = r.cost_ns;
			best = spins[i];
		}
	}
	return best;
}

/* Without noise: a bound is no matter of luck. */
static void expect_gaps(double spin_ns, const struct trace *t,
			const struct model *m, struct result *out,
			struct result *oracle)
{
	struct wait_cost w;
	double gap;
	size_t i;

	*out = *oracle = (struct result){ 0 };
	for (i = 0; i < t->nr_steps; i++) {
		gap = t->steps[i].ns;
		w = (struct wait_cost){ false, m->w0_ns + m->rho * spin_ns,
					m->cw_ns + spin_ns, spin_ns };
		if (gap <= spin_ns)
			w = wait_hit(gap);
		account(out, &w, gap, m);
		w = foresee(gap, m);
		account(oracle, &w, gap, m);
	}
}

int world_best_static(const struct trace *trace, const struct model *m,
		      const struct noise *noise, struct result *out,
		      struct result *oracle)
{
	struct player player;
	double *gaps;

	if (trace->kind == TRACE_LOOP || trace->kind == TRACE_ADVERSARY) {
		player_init_static(&player, best_by_trial(trace, m, noise));
		world_run(&player, trace, m, noise, out, oracle);
		return 0;
	}
	gaps = calloc(trace->nr_steps, sizeof(*gaps));
	if (!gaps)
		return -ENOMEM;
	expect_gaps(best_of_gaps(trace, m, gaps), trace, m, out, oracle);
	free(gaps);
	return 0;
}
