/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A wait is counted with two additions.  Bins hold sums beside counts, so what
 * a threshold at an edge would have cost is exact, not an estimate.
 */
#include "poll/gaps.h"

#include <stdlib.h>
#include "poll/counter.h"

enum {
	STEPS = 16, /* of an octave; and of the first, which is linear */
	STEPS_LOG2 = 4,
	LINEAR_LOG2 = 10, /* below 2^10 ns: steps of 64 ns */
	/* an entry of a trace: ns, then kind and operation in the low byte */
	OP_BITS = 4,
	LOW_BITS = 8,
};

static_assert(GAPS_BINS == STEPS * (31 - LINEAR_LOG2 + 1), "up to 2^31 ns");
static_assert((uint64_t)POLICY_TIME_MAX_NS < UINT64_C(1) << 31, "the last bin");
static_assert((GAPS_TRACE_SIZE & (GAPS_TRACE_SIZE - 1)) == 0, "a power of two");

unsigned gaps_bin_of(uint64_t ns)
{
	unsigned log2;

	if (ns >= POLICY_TIME_MAX_NS)
		return GAPS_BINS - 1;
	if (ns < UINT64_C(1) << LINEAR_LOG2)
		return (unsigned)(ns >> (LINEAR_LOG2 - STEPS_LOG2));
	log2 = 63 - (unsigned)__builtin_clzll(ns);
	return (log2 - LINEAR_LOG2 + 1) * STEPS +
	       (unsigned)(ns >> (log2 - STEPS_LOG2) & (STEPS - 1));
}

uint64_t gaps_edge_ns(unsigned i)
{
	unsigned octave = i / STEPS, step = i % STEPS;

	if (octave == 0)
		return ((UINT64_C(1) + step) << (LINEAR_LOG2 - STEPS_LOG2)) - 1;
	return ((UINT64_C(1) + STEPS + step)
		<< (octave - 1 + LINEAR_LOG2 - STEPS_LOG2)) -
	       1;
}

static void trace(struct gaps_trace *t, enum wait_kind kind, enum policy_op op,
		  uint64_t ns)
{
	uint64_t head = t->head;
	uint64_t entry = ns << LOW_BITS | (uint64_t)kind << OP_BITS | op;

	__atomic_store_n(&t->entries[head % GAPS_TRACE_SIZE], entry,
			 __ATOMIC_RELAXED);
	/* orders the entry before the number that announces it */
	__atomic_store_n(&t->head, head + 1, __ATOMIC_RELEASE);
}

void gaps_add(struct gaps *gaps, enum wait_kind kind, enum policy_op op,
	      uint64_t ns)
{
	struct gaps_bin *bin;

	if (ns > POLICY_TIME_MAX_NS)
		ns = POLICY_TIME_MAX_NS;
	bin = &gaps->of[gaps_index(kind)].bins[gaps_bin_of(ns)];
	counter_add(&bin->n, 1);
	counter_add(&bin->ns, ns);
	if (gaps->trace)
		trace(gaps->trace, kind, op, ns);
}

static void end(struct gaps *gaps, const struct gaps_wait *wait, uint64_t w0_ns,
		enum wait_kind next)
{
	enum wait_kind kind = wait->kind;
	int64_t ns;

	if (kind == WAIT_NOBODY || !wait->start_ns ||
	    wait->end_ns < wait->start_ns)
		return;
	/* ended by one more request: no time of the device's */
	if (kind == WAIT_DEVICE && next == WAIT_BOTH)
		kind = WAIT_BOTH;
	ns = (int64_t)(wait->end_ns - wait->start_ns);
	if (wait->slept) {
		ns -= (int64_t)w0_ns;
		if (wait->delay_ns > 0)
			ns -= wait->delay_ns;
		/* it was longer than the spin, whatever the figures say */
		if (ns <= (int64_t)wait->spun_ns)
			ns = (int64_t)wait->spun_ns + 1;
	}
	gaps_add(gaps, kind, wait->op, (uint64_t)ns);
}

void gaps_begin(struct gaps *gaps, struct gaps_wait *wait, enum wait_kind kind,
		enum policy_op op, uint64_t w0_ns)
{
	if (!gaps)
		return;
	end(gaps, wait, w0_ns, kind);
	*wait = (struct gaps_wait){
		.kind = kind,
		.op = op,
		.delay_ns = POLICY_DELAY_UNKNOWN,
	};
}

void gaps_quick(struct gaps *gaps, struct gaps_wait *wait, uint64_t ns)
{
	if (!gaps || wait->kind == WAIT_NOBODY || wait->start_ns)
		return;
	gaps_add(gaps, wait->kind, wait->op, ns);
	wait->kind = WAIT_NOBODY;
}

void gaps_found(struct gaps *gaps, struct gaps_wait *wait)
{
	gaps_quick(gaps, wait, 0);
	if (wait->end_ns < wait->start_ns)
		wait->end_ns = wait->start_ns;
}

void gaps_sum(const struct gaps_histogram *from, struct gaps_histogram *to)
{
	for (unsigned i = 0; i < GAPS_BINS; i++) {
		to->bins[i].n += counter_read(&from->bins[i].n);
		to->bins[i].ns += counter_read(&from->bins[i].ns);
	}
}

struct gaps_trace *gaps_trace_new(uint64_t first)
{
	/* not touched until used */
	struct gaps_trace *t = calloc(1, sizeof(*t));

	if (t)
		t->first = t->head = first;
	return t;
}

/* The oldest number that is still there while number @head is being written. */
static uint64_t oldest(const struct gaps_trace *t, uint64_t head)
{
	if (head - t->first < GAPS_TRACE_SIZE)
		return t->first;
	return head + 1 - GAPS_TRACE_SIZE;
}

size_t gaps_trace_read(const struct gaps_trace *t, uint64_t *cursor,
		       struct gaps_entry *out, size_t size, uint64_t *lost)
{
	uint64_t head = __atomic_load_n(&t->head, __ATOMIC_ACQUIRE);
	uint64_t from = *cursor, valid, entry;
	size_t n, gone = 0;

	*lost = 0;
	if (from > head)
		from = head; /* no cursor of ours */
	valid = oldest(t, head);
	if (from < valid) {
		*lost = valid - from;
		from = valid;
	}
	n = head - from < size ? (size_t)(head - from) : size;
	for (size_t i = 0; i < n; i++) {
		entry = __atomic_load_n(
			&t->entries[(from + i) % GAPS_TRACE_SIZE],
			__ATOMIC_RELAXED);
		out[i] = (struct gaps_entry){
			.ns = entry >> LOW_BITS,
			.kind = (enum wait_kind)(entry >> OP_BITS & 15),
			.op = (enum policy_op)(entry & 15),
		};
	}
	*cursor = from + n;
	/* orders the entries before the head that tells which are too new */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	valid = oldest(t, __atomic_load_n(&t->head, __ATOMIC_RELAXED));
	if (valid > from)
		gone = valid - from < n ? (size_t)(valid - from) : n;
	for (size_t i = gone; i < n; i++)
		out[i - gone] = out[i];
	*lost += gone;
	return n - gone;
}
