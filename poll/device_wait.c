/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Six ways to wait for a device, chosen as the policy chooses its experts: by
 * what each would have cost, averaged over about 32 waits.
 *
 * A timer fires as late as any other wake, so a nap is set a wake earlier.
 * Knows a device by the mean and the mean deviation of its times.
 */
#include "poll/device_wait.h"

#include <string.h>

#define Q 16
#define UNIT_LOG2 4 /* of mean and deviation */
#define SMOOTH_LOG2 4
#define AVERAGE_LOG2 5
#define READY 16 /* times before a nap is considered */
#define SEEN_MAX (UINT32_C(1) << 20)

/* Quarters of a deviation. */
#define PAST 16 /* a nap's spin ends these after the mean */

static const int64_t early[DEVICE_WAIT_NAPS] = { 2, 4, 8, 12 };

void device_wait_init(struct device_wait *d, uint64_t max_ns, uint32_t beta_q16,
		      uint64_t w0_ns, uint64_t cw_ns)
{
	memset(d, 0, sizeof(*d));
	policy_init(&d->policy, max_ns, beta_q16, w0_ns, cw_ns);
}

static struct device_wait_plan nap(const struct device_wait *d,
				   int64_t quarters)
{
	int64_t mean = d->mean >> UNIT_LOG2;
	int64_t deviation = d->deviation >> UNIT_LOG2;
	int64_t w0 = (int64_t)d->policy.w0_ns;
	int64_t nap_ns = mean - (quarters * deviation >> 2) - w0;
	int64_t spin_ns = (quarters + PAST) * deviation >> 2;

	/* a timer shorter than half a wake is not worth its calls */
	if (nap_ns <= 0 || nap_ns < w0 >> 1 ||
	    spin_ns > (int64_t)d->policy.max_ns)
		return (struct device_wait_plan){ 0 };
	return (struct device_wait_plan){ (uint64_t)nap_ns, (uint64_t)spin_ns };
}

struct device_wait_plan device_wait_begin(struct device_wait *d,
					  enum policy_op op)
{
	unsigned i, best = DEVICE_WAIT_SPIN;

	d->plans[DEVICE_WAIT_SPIN].spin_ns = policy_begin(&d->policy, op);
	for (i = 0; i < DEVICE_WAIT_NAPS; i++)
		d->plans[DEVICE_WAIT_NAP + i] = nap(d, early[i]);

	if (d->seen >= READY)
		for (i = 0; i < NR_DEVICE_WAIT_WAYS; i++)
			if (d->average[i] < d->average[best])
				best = i;
	d->chosen = (enum device_wait_way)best;
	return d->plans[best];
}

static uint64_t cost(const struct policy *p,
		     const struct device_wait_plan *plan, uint64_t device_ns)
{
	uint64_t awake_ns = plan->nap_ns + p->w0_ns;

	if (!plan->nap_ns)
		return policy_cost(p, plan->spin_ns, device_ns);
	if (device_ns <= plan->nap_ns)
		return p->sleep_ns;
	if (device_ns <= awake_ns)
		return awake_ns - device_ns + (p->beta * p->cw_ns >> Q);
	if (device_ns <= awake_ns + plan->spin_ns)
		return p->beta * (p->cw_ns + device_ns - awake_ns) >> Q;
	return p->sleep_ns + ((p->beta * (p->cw_ns + plan->spin_ns) +
			       p->rho * plan->spin_ns) >>
			      Q);
}

void device_wait_end(struct device_wait *d, uint64_t device_ns)
{
	int64_t error, time;
	unsigned i;

	if (device_ns > POLICY_TIME_MAX_NS)
		device_ns = POLICY_TIME_MAX_NS;
	for (i = 0; i < NR_DEVICE_WAIT_WAYS; i++) {
		error = (int64_t)cost(&d->policy, &d->plans[i], device_ns) -
			d->average[i];
		d->average[i] += error >> AVERAGE_LOG2;
	}
	/* a gap that is known, however we waited for its end */
	policy_end(&d->policy, device_ns, 0, false, POLICY_DELAY_UNKNOWN);

	time = (int64_t)device_ns << UNIT_LOG2;
	if (!d->seen) {
		d->mean = time;
		d->deviation = time >> 3; /* an eighth, until there are more */
	}
	error = time - d->mean;
	d->mean += error >> SMOOTH_LOG2;
	error = error < 0 ? -error : error;
	d->deviation += (error - d->deviation) >> SMOOTH_LOG2;
	if (d->seen < SEEN_MAX)
		d->seen++;
}
