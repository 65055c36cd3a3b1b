/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decide, for each wait, whether to spin, how long, and when to sleep instead:
 * see wait.h.  Knows neither how to look (spin.c) nor how to sleep
 * (wait_sleep.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/counter.h"
#include "poll/cpu_verdict.h"
#include "poll/spin.h"
#include "poll/wait.h"
#include "poll/wait_sleep.h"

enum {
	BATCH_NS = 200, /* of spin.c, until measured */
	/* Free looks in adaptive mode, in batches: a microsecond if they pay.
	 */
	FREE = 1,
	FREE_IF_QUICK = 5,
	QUICK = 2, /* of the last 16 waits ended while looks were free */
};

/* What an unused slot watches. */
static const uint32_t nothing;

int wait_init(struct wait *wait, bool foreign)
{
	int err;

	memset(wait, 0, sizeof(*wait));
	wait->timer_fd = -1;
	wait->schedstat_fd = -1;
	wait->foreign = foreign;
	wait->batch_ns = BATCH_NS;
	for (unsigned i = 0; i < WAIT_SOURCES_MAX; i++)
		wait->words[i].word = &nothing;
	wait->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (wait->epoll_fd < 0) {
		err = -errno;
		return err;
	}
	return 0;
}

void wait_fini(struct wait *wait)
{
	if (wait->timer_fd >= 0)
		close(wait->timer_fd);
	if (wait->schedstat_fd >= 0)
		close(wait->schedstat_fd);
	close(wait->epoll_fd);
}

int wait_add(struct wait *wait, struct wait_source *source,
	     const uint32_t *word)
{
	unsigned i;

	for (i = 0; i < WAIT_SOURCES_MAX && wait->sources[i]; i++)
		;
	if (i == WAIT_SOURCES_MAX)
		return -ENOSPC;
	wait->sources[i] = source;
	if (i >= wait->nr_words)
		wait->nr_words = i + 1;
	source->slot = i;
	wait_watch(wait, source, word,
		   word ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : 0);
	return 0;
}

void wait_remove(struct wait *wait, struct wait_source *source)
{
	wait_watch(wait, source, NULL, 0);
	wait->sources[source->slot] = NULL;
	while (wait->nr_words && !wait->sources[wait->nr_words - 1])
		wait->nr_words--;
}

void wait_watch(struct wait *wait, struct wait_source *source,
		const uint32_t *word, uint32_t seen)
{
	struct wait_word *w = &wait->words[source->slot];

	w->word = word ? word : &nothing;
	w->seen = word ? seen : 0;
}

void wait_configure(struct wait *wait, const struct wait_settings *settings)
{
	bool learned = wait->settings.mode == WAIT_ADAPTIVE;

	wait->settings = *settings;
	if (settings->mode != WAIT_ADAPTIVE)
		return;
	/* what was learned stays through a change of figures */
	if (!learned)
		adapt_init(&wait->adapt, settings->spin_ns, settings->price,
			   settings->w0_ns, settings->cw_ns);
	adapt_limit(&wait->adapt, settings->spin_ns);
	adapt_costs(&wait->adapt, settings->w0_ns, settings->cw_ns);
}

/* What a wake takes: measured, or as the settings say. */
static uint64_t wake_ns(const struct wait *wait)
{
	const struct cpu_verdict *verdict = wait->verdict;

	return verdict ? __atomic_load_n(&verdict->wake_ns, __ATOMIC_RELAXED)
		       : wait->settings.w0_ns;
}

/* Adaptive mode keeps the same book. */
static void record_adapt(struct wait *wait)
{
	const struct adapt *adapt = &wait->adapt;

	wait->gap.end_ns = adapt->end_ns;
	wait->gap.slept = adapt->missed;
	wait->gap.spun_ns = adapt->spun_ns;
	wait->gap.delay_ns = adapt->delay_ns;
}

/*
 * May a spin of up to @ns begin, and for how long?  Pays for what was spun
 * since the last question, the free looks included.
 */
static uint64_t granted(struct wait *wait, uint64_t ns)
{
	struct cpu_verdict *verdict = wait->verdict;
	uint64_t spun = wait->counters.spin_ns;

	if (!verdict)
		return ns;
	cpu_verdict_look(verdict);
	if (spun != wait->paid_ns)
		cpu_verdict_pay(verdict, spun - wait->paid_ns);
	wait->paid_ns = spun;
	return ns ? cpu_verdict_grant(verdict, ns) : 0;
}

/*
 * Fixed mode: until the window, opened by the last activity, closes.  A wait
 * that ends within the first batch costs no reading of the clock.
 */
static enum spun spin_fixed(struct wait *wait, bool active, uint64_t due)
{
	uint64_t now, started, end, left, stop, ns;
	enum spun spun;

	active |= wait->untimed;
	wait->untimed = active && spin_free(wait, 1, &ns);
	if (wait->untimed) {
		gaps_quick(wait->gaps, &wait->gap, ns);
		return SPUN_HIT;
	}
	now = clock_ns();
	started = active ? now - wait->batch_ns : now;
	gaps_start(&wait->gap, started);
	if (active)
		wait->anchor_ns = started;
	end = wait->anchor_ns + wait->settings.spin_ns;
	if (now >= end)
		return SPUN_MISS; /* the window was closed: no spin */
	left = granted(wait, end - now);
	if (!left)
		return SPUN_MISS;
	do {
		stop = now + left;
		spun = spin_until(wait, started, now, stop, due, &now);
		gaps_spun(&wait->gap, now);
		if (spun != SPUN_MISS)
			return spun;
		started = now;
		/* only a part may have been granted */
		left = now >= stop && now < end ? granted(wait, end - now) : 0;
	} while (left);
	counter_add(&wait->counters.misses, 1);
	return SPUN_MISS;
}

/*
 * "Poll now": until the time that was set when it was said.  The governor
 * forbids it as any other spin, but not for its price.
 */
static enum spun spin_forced(struct wait *wait, uint64_t due)
{
	uint64_t now = clock_ns(), left;
	enum spun spun;

	gaps_start(&wait->gap, now);
	left = wait->forced_ns > now ? wait->forced_ns - now : 0;
	if (!left)
		wait->forced_ns = 0;
	left = granted(wait, left);
	if (!left)
		return SPUN_MISS;
	spun = spin_until(wait, now, now, now + left, due, &now);
	gaps_spun(&wait->gap, now);
	if (spun == SPUN_MISS)
		counter_add(&wait->counters.misses, 1);
	return spun;
}

void wait_force(struct wait *wait, uint64_t ns)
{
	wait->forced_ns = clock_ns() + ns;
}

/* An average over about 16 waits, in sixteenths. */
static void count_quick(struct adapt *adapt, bool quick)
{
	adapt->quick += (quick ? 256 : 0) - (adapt->quick >> 4);
}

/* The governor's figures where there is one, else those of the settings. */
static uint32_t price_now(struct wait *wait)
{
	const struct cpu_verdict *verdict = wait->verdict;
	struct wait_settings *settings = &wait->settings;
	uint32_t wake, cpu;

	if (!verdict)
		return settings->price;
	wake = __atomic_load_n(&verdict->wake_ns, __ATOMIC_RELAXED);
	cpu = __atomic_load_n(&verdict->sleep_cpu_ns, __ATOMIC_RELAXED);
	if (wake != settings->w0_ns || cpu != settings->cw_ns) {
		settings->w0_ns = wake;
		settings->cw_ns = cpu;
		adapt_costs(&wait->adapt, wake, cpu);
	}
	return cpu_verdict_price(verdict);
}

/*
 * Adaptive mode.  The first looks are free: they read no clock and the
 * policies know nothing of them, so they learn what comes after and decide
 * when it matters.  *nap_ns is set if the wait is to begin with a sleep.
 */
static enum spun spin_adaptive(struct wait *wait, bool active,
			       enum wait_kind kind, uint64_t due,
			       struct device_wait_plan *plan)
{
	struct adapt *adapt = &wait->adapt;
	bool quick;
	uint64_t now, ns;
	enum spun spun;

	if (adapt->open && !active)
		return SPUN_MISS; /* awake for nothing: the wait goes on */
	if (adapt->open)
		adapt_learn(adapt, kind);
	quick = spin_free(
		wait, adapt->quick >> 8 >= QUICK ? FREE_IF_QUICK : FREE, &ns);
	count_quick(adapt, quick);
	if (quick) {
		gaps_quick(wait->gaps, &wait->gap, ns);
		return SPUN_HIT;
	}
	now = clock_ns();
	gaps_start(&wait->gap, now - ns);
	*plan = adapt_begin(adapt, kind, wait->op, price_now(wait), now);
	plan->spin_ns = granted(wait, plan->spin_ns);
	if (plan->nap_ns || !plan->spin_ns)
		return SPUN_MISS;
	spun = spin_until(wait, now, now, now + plan->spin_ns, due,
			  &adapt->end_ns);
	adapt->spun_ns = adapt->end_ns - now;
	if (spun == SPUN_MISS)
		counter_add(&wait->counters.misses, 1);
	return spun;
}

/* The thread's run_delay in ns (/proc/thread-self/schedstat), or -1. */
static int64_t run_delay(const struct wait *wait)
{
	char text[64], *end;
	ssize_t n;

	if (wait->schedstat_fd < 0)
		return -1;
	n = pread(wait->schedstat_fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	strtoull(text, &end,
		 10); /* how long it ran; then, how long it waited */
	return *end == ' ' ? (int64_t)strtoull(end, NULL, 10) : -1;
}

/* Sleep after a spin that may have cost us our place in the run queue. */
static void sleep_adaptive(struct wait *wait)
{
	struct adapt *adapt = &wait->adapt;
	int64_t before = adapt->spun_ns ? run_delay(wait) : -1, after;

	if (!wait_sleep_until(wait, CLOCK_NEVER)) {
		adapt->end_ns = clock_ns();
		return;
	}
	adapt->end_ns = clock_ns();
	adapt->missed = true;
	after = before >= 0 ? run_delay(wait) : -1;
	if (after >= 0)
		adapt->delay_ns = after - before;
}

static void wait_adaptive(struct wait *wait, bool active, enum wait_kind kind)
{
	struct adapt *adapt = &wait->adapt;
	struct device_wait_plan plan = { 0 };
	uint64_t now, ns;

	if (spin_adaptive(wait, active, kind, wait_sleep_due(wait), &plan) !=
	    SPUN_MISS)
		return;
	if (plan.nap_ns) {
		if (!wait_sleep_until(wait, adapt->start_ns + plan.nap_ns) ||
		    spin_free(wait, 1, &ns)) {
			adapt->end_ns = clock_ns();
			return;
		}
		now = clock_ns();
		if (spin_until(wait, now, now, now + plan.spin_ns,
			       wait_sleep_due(wait),
			       &adapt->end_ns) != SPUN_MISS)
			return;
		adapt->spun_ns = adapt->end_ns - now;
	}
	sleep_adaptive(wait);
}

void wait_for(struct wait *wait, bool active, enum wait_kind kind)
{
	const struct wait_settings *settings = &wait->settings;
	bool may = kind != WAIT_NOBODY && !spin_is_unwelcome(wait);
	bool spins = may && settings->spin_ns && settings->mode != WAIT_EVENT;

	if (active)
		gaps_begin(wait->gaps, &wait->gap, kind, wait->op,
			   wake_ns(wait));
	if (spins && !wait->forced_ns && settings->mode == WAIT_ADAPTIVE) {
		wait_adaptive(wait, active, kind);
		record_adapt(wait);
		return;
	}
	wait->adapt.open = false; /* what it was is not known */
	if (may && wait->forced_ns) {
		if (spin_forced(wait, wait_sleep_due(wait)) != SPUN_MISS)
			return;
	} else if (spins && spin_fixed(wait, active, wait_sleep_due(wait)) !=
				    SPUN_MISS) {
		return;
	}
	if (wait_sleep_until(wait, CLOCK_NEVER) && wait->gaps) {
		wait->gap.slept = true;
		wait->gap.end_ns = clock_ns();
	}
}

void wait_counters_read(const struct wait_counters *from,
			struct wait_counters *to)
{
	to->spin_ns = counter_read(&from->spin_ns);
	to->hits = counter_read(&from->hits);
	to->misses = counter_read(&from->misses);
	to->lost = counter_read(&from->lost);
	to->sleeps = counter_read(&from->sleeps);
	to->arms = counter_read(&from->arms);
}
