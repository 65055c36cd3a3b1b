/* SPDX-License-Identifier: BSD-3-Clause */
/* See adapt.h. */
#include "poll/adapt.h"
#include "poll/counter.h"

void adapt_init(struct adapt *adapt, uint64_t max_ns, uint32_t price,
		uint64_t w0_ns, uint64_t cw_ns)
{
	*adapt = (struct adapt){ .price = price };
	policy_init(&adapt->guest, max_ns, price, w0_ns, cw_ns);
	policy_init(&adapt->both, max_ns, price, w0_ns, cw_ns);
	device_wait_init(&adapt->device, max_ns, price, w0_ns, cw_ns);
}

void adapt_limit(struct adapt *adapt, uint64_t max_ns)
{
	policy_limit(&adapt->guest, max_ns);
	policy_limit(&adapt->both, max_ns);
	policy_limit(&adapt->device.policy, max_ns);
}

void adapt_costs(struct adapt *adapt, uint64_t w0_ns, uint64_t cw_ns)
{
	policy_costs(&adapt->guest, w0_ns, cw_ns);
	policy_costs(&adapt->both, w0_ns, cw_ns);
	policy_costs(&adapt->device.policy, w0_ns, cw_ns);
}

/*
 * Never below the learned rho: there no rule can bound what a spin loses.  The
 * guess that a policy starts with is no reason: who only ever hits learns no
 * better one, and would be held at it for good.
 */
static void give_price(struct policy *policy, uint32_t price)
{
	uint32_t rho = policy_rho_known(policy) ? policy_rho(policy) : 0;

	if (price < rho)
		price = rho;
	if (policy->beta != price)
		policy_price(policy, price);
}

/* One thread on one CPU: what one has learned of it holds for all. */
static void share_rho(struct adapt *adapt, const struct policy *from)
{
	struct policy *all[] = { &adapt->guest, &adapt->both,
				 &adapt->device.policy };

	if (!policy_rho_known(from))
		return;
	for (unsigned i = 0; i < 3; i++)
		if (policy_rho(all[i]) != policy_rho(from))
			policy_rho_is(all[i], policy_rho(from));
}

static void put(uint64_t *to, uint64_t value)
{
	__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

/* For those who look on. */
static void show(struct adapt *adapt, const struct policy *policy,
		 const struct device_wait_plan *plan, const char *decider)
{
	struct adapt_shown *shown = &adapt->shown;
	unsigned i = (unsigned)adapt->kind - WAIT_GUEST;

	put(&shown->price, policy->beta);
	put(&shown->rho, policy_rho(policy));
	counter_add(&shown->of[i].waits, 1);
	put(&shown->of[i].nap_ns, plan->nap_ns);
	put(&shown->of[i].spin_ns, plan->spin_ns);
	__atomic_store_n(&shown->of[i].decider, decider, __ATOMIC_RELAXED);
}

static const char *device_decider(const struct device_wait *device)
{
	switch (device->chosen) {
	case DEVICE_WAIT_BLOCK:
		return "block";
	case DEVICE_WAIT_SPIN:
		return policy_decider(&device->policy);
	default:
		return "nap";
	}
}

struct device_wait_plan adapt_begin(struct adapt *adapt, enum wait_kind kind,
				    enum policy_op op, uint32_t price,
				    uint64_t now)
{
	struct device_wait_plan plan = { 0 };

	adapt->open = true;
	adapt->missed = false;
	adapt->kind = kind;
	adapt->start_ns = now;
	adapt->spun_ns = 0;
	adapt->delay_ns = POLICY_DELAY_UNKNOWN;
	adapt->price = price;
	switch (kind) {
	case WAIT_NOBODY:
		adapt->open = false;
		break;
	case WAIT_GUEST:
		give_price(&adapt->guest, price);
		plan.spin_ns = policy_begin(&adapt->guest, op);
		show(adapt, &adapt->guest, &plan,
		     policy_decider(&adapt->guest));
		break;
	case WAIT_DEVICE:
		give_price(&adapt->device.policy, price);
		plan = device_wait_begin(&adapt->device, op);
		show(adapt, &adapt->device.policy, &plan,
		     device_decider(&adapt->device));
		break;
	case WAIT_BOTH:
		give_price(&adapt->both, price);
		plan.spin_ns = policy_begin(&adapt->both, op);
		show(adapt, &adapt->both, &plan, policy_decider(&adapt->both));
		break;
	}
	return plan;
}

static uint64_t device_time(const struct adapt *adapt, uint64_t observed)
{
	uint64_t wake = adapt->missed ? adapt->device.policy.w0_ns : 0;

	if (adapt->missed && adapt->delay_ns > 0)
		wake += (uint64_t)adapt->delay_ns;
	return observed > wake ? observed - wake : 1;
}

void adapt_learn(struct adapt *adapt, enum wait_kind next)
{
	uint64_t observed = adapt->end_ns - adapt->start_ns;

	adapt->open = false;
	switch (adapt->kind) {
	case WAIT_NOBODY:
		break;
	case WAIT_GUEST:
		policy_end(&adapt->guest, observed, adapt->spun_ns,
			   adapt->missed, adapt->delay_ns);
		share_rho(adapt, &adapt->guest);
		break;
	case WAIT_DEVICE:
		if (next != WAIT_BOTH)
			device_wait_end(&adapt->device,
					device_time(adapt, observed));
		break;
	case WAIT_BOTH:
		policy_end(&adapt->both, observed, adapt->spun_ns,
			   adapt->missed, adapt->delay_ns);
		share_rho(adapt, &adapt->both);
		break;
	}
}

void adapt_shown_read(const struct adapt *from, struct adapt_shown *to)
{
	const struct adapt_shown *shown = &from->shown;

	to->price = counter_read(&shown->price);
	to->rho = counter_read(&shown->rho);
	for (unsigned i = 0; i < 3; i++) {
		to->of[i].waits = counter_read(&shown->of[i].waits);
		to->of[i].nap_ns = counter_read(&shown->of[i].nap_ns);
		to->of[i].spin_ns = counter_read(&shown->of[i].spin_ns);
		to->of[i].decider = __atomic_load_n(&shown->of[i].decider,
						    __ATOMIC_RELAXED);
	}
}
