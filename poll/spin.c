/* SPDX-License-Identifier: BSD-3-Clause */
/* See spin.h. */
#include "poll/clock.h"
#include "poll/counter.h"
#include "poll/cpu_verdict.h"
#include "poll/relax.h"
#include "poll/spin.h"
#include "poll/wait.h"

enum {
	/* Looks between two readings of the clock: some 200 ns. */
	BATCH = 8,
};

/*
 * Two readings LOST_GAP_NS apart mean that the scheduler took the CPU; a timer
 * interrupt takes 20 to 50 us.  Three within LOST_WINDOW_NS, or one as long as
 * a time slice, and somebody else needs the CPU more than we do: spinning on
 * would cost him the CPU and us the place in the queue.  So there is none for
 * another window; a thread that sleeps is woken before one that spun.
 */
#define LOST_GAP_NS UINT64_C(100000)
#define LOST_SLICE_NS UINT64_C(1000000)
#define LOST_WINDOW_NS UINT64_C(10000000)

/* One look at every word.  An acquire: what the word announces comes after. */
static bool changed(const struct wait *wait)
{
	const struct wait_word *w = wait->words;

	for (unsigned i = 0; i < wait->nr_words; i++)
		if (__atomic_load_n(w[i].word, __ATOMIC_ACQUIRE) != w[i].seen)
			return true;
	return false;
}

/* A batch of looks.  The number of looks that saw nothing, BATCH if all. */
static unsigned look(const struct wait *wait)
{
	unsigned i;

	for (i = 0; i < BATCH && !changed(wait); i++)
		relax();
	return i;
}

static uint64_t time_of(const struct wait *wait, unsigned looks)
{
	return wait->batch_ns * looks / BATCH;
}

bool spin_free(struct wait *wait, unsigned batches, uint64_t *ns)
{
	unsigned looks = 0, n;

	for (unsigned i = 0; i < batches; i++) {
		n = look(wait);
		looks += n;
		if (n == BATCH)
			continue;
		*ns = time_of(wait, looks);
		counter_add(&wait->counters.spin_ns, *ns);
		counter_add(&wait->counters.hits, 1);
		return true;
	}
	*ns = time_of(wait, looks);
	return false;
}

/* The CPU was gone from @last to @now.  True if that was once too often. */
static bool lost_cpu(struct wait *wait, uint64_t last, uint64_t now)
{
	bool often = now - wait->lost_ns[1] < LOST_WINDOW_NS ||
		     now - last >= LOST_SLICE_NS;

	wait->lost_ns[1] = wait->lost_ns[0];
	wait->lost_ns[0] = now;
	if (!often)
		return false;
	wait->calm_ns = now + LOST_WINDOW_NS;
	counter_add(&wait->counters.lost, 1);
	if (wait->verdict)
		cpu_verdict_lost(wait->verdict);
	return true;
}

bool spin_is_unwelcome(struct wait *wait)
{
	if (!wait->calm_ns)
		return false;
	if (clock_ns() < wait->calm_ns)
		return true;
	wait->calm_ns = 0;
	return false;
}

static void learn_batch(struct wait *wait, uint64_t ns)
{
	wait->batch_ns += ns / 8;
	wait->batch_ns -= wait->batch_ns / 8;
}

/* The idle threshold is looked at within a session too. */
static bool may_go_on(const struct wait *wait)
{
	return !wait->verdict || cpu_verdict_allowed(wait->verdict);
}

enum spun spin_until(struct wait *wait, uint64_t started, uint64_t now,
		     uint64_t end, uint64_t due, uint64_t *out)
{
	enum spun spun = SPUN_MISS;
	uint64_t last;
	unsigned looks;

	for (;;) {
		if (now >= due) {
			spun = SPUN_DUE;
			break;
		}
		last = now;
		looks = look(wait);
		if (looks < BATCH) {
			now += time_of(wait, looks);
			spun = SPUN_HIT;
			break;
		}
		now = clock_ns();
		if (now - last < LOST_GAP_NS)
			learn_batch(wait, now - last);
		else
			started += now - last; /* somebody else had the CPU */
		if (now - last >= LOST_GAP_NS && lost_cpu(wait, last, now))
			break;
		if (now >= end || !may_go_on(wait))
			break;
	}
	counter_add(&wait->counters.spin_ns, now - started);
	if (spun == SPUN_HIT)
		counter_add(&wait->counters.hits, 1);
	*out = now;
	return spun;
}
