/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How to wait for one request in flight: block, spin, or nap and then spin.
 *
 * A *nap* is a block with a timeout on the same descriptors: set to wake a
 * little before the completion is due, so that only the rest is spun, while an
 * early completion wakes as ever.  Device time is learned here, apart from the
 * guest's think time: this has a policy of its own, for the plain spin.
 *
 * As pure as poll/policy.h.  Never logs.
 */
#pragma once

#include "poll/policy.h"

#define DEVICE_WAIT_NAPS 4

/* Both 0 is to block; @nap_ns 0 is to spin at once. */
struct device_wait_plan {
	uint64_t nap_ns; /* block for at most this */
	uint64_t spin_ns; /* then spin for at most this, then block */
};

enum device_wait_way {
	DEVICE_WAIT_BLOCK,
	DEVICE_WAIT_SPIN,
	DEVICE_WAIT_NAP, /* the first of the naps, the latest to wake */
	NR_DEVICE_WAIT_WAYS = DEVICE_WAIT_NAP + DEVICE_WAIT_NAPS
};

struct device_wait {
	struct policy policy;
	int64_t mean, deviation; /* of the device's time, in 1/16 ns */
	uint32_t seen;
	int64_t average[NR_DEVICE_WAIT_WAYS]; /* decayed cost, ns */
	struct device_wait_plan plans[NR_DEVICE_WAIT_WAYS];
	enum device_wait_way chosen;
};

/*
 * As policy_init.  New figures go to the policy inside: policy_price,
 * policy_limit and policy_costs of &wait->policy.
 */
void device_wait_init(struct device_wait *wait, uint64_t max_ns,
		      uint32_t beta_q16, uint64_t w0_ns, uint64_t cw_ns);

/*
 * One request, an @op, was submitted and nothing else is in flight: how to wait
 * for it.  Neither spins longer than the maximum.
 */
struct device_wait_plan device_wait_begin(struct device_wait *wait,
					  enum policy_op op);

/*
 * It took @device_ns from begin: exactly, if its completion was seen to come,
 * else the best estimate, the time of waking less a wake.
 */
void device_wait_end(struct device_wait *wait, uint64_t device_ns);
