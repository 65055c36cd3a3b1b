/* SPDX-License-Identifier: BSD-3-Clause */
/* See sync.h. */
#include "poll/sync.h"

enum {
	ENOUGH = 4, /* timed calls before the mean is believed */
	TIME_EVERY = 16, /* calls that are fast */
	TRY_EVERY = 1024, /* requests where calls are slow */
	FAST_NS = 8000, /* a call that did not sleep */
	BLOCK_NS = 1000000, /* longer than that nobody is blind to the ring */
	ONE = 4096,
	REGRET = ONE / 16, /* stop beyond one of sixteen */
	PAUSE = 256, /* requests */
};

static bool time_it(struct sync_op *o, uint32_t every)
{
	if (o->timed < ENOUGH || ++o->since >= every) {
		o->since = 0;
		return true;
	}
	return false;
}

enum sync_way sync_choose(struct sync *sync, enum policy_op op, bool spins)
{
	struct sync_op *o = &sync->ops[op];

	if (sync->mode != SYNC_AUTO)
		return sync->mode == SYNC_ON ? SYNC_NOW : SYNC_LATER;
	if (sync->pause) {
		sync->pause--;
		return SYNC_LATER;
	}
	if (o->timed < ENOUGH || o->mean_ns <= FAST_NS)
		return time_it(o, TIME_EVERY) ? SYNC_TIMED : SYNC_NOW;
	/* media that sleep */
	if (!spins && o->mean_ns <= BLOCK_NS)
		return time_it(o, TIME_EVERY) ? SYNC_TIMED : SYNC_NOW;
	return time_it(o, TRY_EVERY) ? SYNC_TIMED : SYNC_LATER;
}

void sync_took(struct sync *sync, enum policy_op op, uint64_t ns)
{
	struct sync_op *o = &sync->ops[op];
	uint32_t time = ns > INT32_MAX ? INT32_MAX : (uint32_t)ns;

	if (o->timed < ENOUGH) {
		/* the least of the first: one of them met a cold cache */
		if (!o->timed || time < o->mean_ns)
			o->mean_ns = time;
		o->timed++;
		return;
	}
	/* one slow call among fast ones is a lost CPU, not another medium */
	if (time > 4 * o->mean_ns)
		time = 4 * o->mean_ns;
	o->mean_ns += time / 8;
	o->mean_ns -= o->mean_ns / 8;
}

void sync_returned(struct sync *sync, bool filled)
{
	sync->regret += filled ? ONE / 32 : 0;
	sync->regret -= sync->regret / 32;
	if (sync->regret > REGRET) {
		sync->regret = 0;
		sync->pause = PAUSE;
	}
}
