/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The players, as a table.  A rival is judged by this project's costs, which it
 * never heard of; that is the point.
 */
#include "tools/polling-sim/player.h"

#include <math.h>
#include <stddef.h>

#define US 1000.0
#define MS 1000000.0
#define SERVICE_NS \
	(5 * US) /* of a window from the request, what serving eats */
#define QEMU_FIRST_NS (4 * US)

struct player_kind {
	const char *name;
	double p; /* of init */
	void (*init)(struct player *, const struct model *, double p);
	double (*begin)(struct player *, unsigned op);
	void (*end)(struct player *, const struct outcome *);
};

static void init_adaptive(struct player *p, const struct model *m,
			  double unused)
{
	(void)unused;
	policy_init(&p->policy, (uint64_t)m->max_ns,
		    (uint32_t)(m->beta * POLICY_ONE), (uint64_t)m->w0_ns,
		    (uint64_t)m->cw_ns);
}

static double begin_adaptive(struct player *p, unsigned op)
{
	return (double)policy_begin(&p->policy, (enum policy_op)op);
}

static void end_adaptive(struct player *p, const struct outcome *o)
{
	policy_end(&p->policy, o->observed_ns, o->spun_ns, o->missed,
		   o->delay_ns);
}

static void init_fixed(struct player *p, const struct model *m, double ns)
{
	(void)m;
	p->spin_ns = ns;
}

static void init_even(struct player *p, const struct model *m, double unused)
{
	(void)unused;
	p->spin_ns = (m->w0_ns + m->beta * m->cw_ns) / m->beta;
}

static void init_growing(struct player *p, const struct model *m, double max_ns)
{
	(void)m;
	p->max_ns = max_ns;
}

static double begin_threshold(struct player *p, unsigned op)
{
	(void)op;
	return p->spin_ns;
}

static void end_fixed(struct player *p, const struct outcome *o)
{
	(void)p;
	(void)o;
}

/* QEMU: what the wait took, its wake included, doubles the window or ends it.
 */
static void end_qemu(struct player *p, const struct outcome *o)
{
	double observed = (double)o->observed_ns;

	if (observed <= p->spin_ns)
		return;
	if (observed > p->max_ns)
		p->spin_ns = 0;
	else if (p->spin_ns < p->max_ns)
		p->spin_ns = fmin(p->max_ns, p->spin_ns > 0 ? p->spin_ns * 2
							    : QEMU_FIRST_NS);
}

/* Its poll-weight, first version with shift 3: a weighted average does. */
static void end_weight(struct player *p, const struct outcome *o)
{
	double observed = (double)o->observed_ns, average = p->average_ns;

	average = average > 0 ? average - average / 8 + observed / 8 : observed;
	if (average >= p->max_ns)
		average = 0;
	p->average_ns = average;
	if (average > p->spin_ns)
		p->spin_ns = fmin(p->max_ns, fmax(average, p->spin_ns * 2));
	else if (average < p->spin_ns / 2)
		p->spin_ns /= 2;
}

static const struct player_kind kinds[] = {
	{ "adaptive", 0, init_adaptive, begin_adaptive, end_adaptive },
	{ "event", 0, init_fixed, begin_threshold, end_fixed },
	{ "always", INFINITY, init_fixed, begin_threshold, end_fixed },
	{ "fixed-1ms", 1 * MS - SERVICE_NS, init_fixed, begin_threshold,
	  end_fixed },
	{ "fixed-3ms", 3 * MS - SERVICE_NS, init_fixed, begin_threshold,
	  end_fixed },
	{ "fixed-6ms", 6 * MS - SERVICE_NS, init_fixed, begin_threshold,
	  end_fixed },
	{ "fixed-8ms", 8 * MS - SERVICE_NS, init_fixed, begin_threshold,
	  end_fixed },
	{ "qemu-32us", 32768, init_growing, begin_threshold, end_qemu },
	{ "qemu-1ms", MS, init_growing, begin_threshold, end_qemu },
	{ "weight-32us", 32768, init_growing, begin_threshold, end_weight },
	{ "weight-1ms", MS, init_growing, begin_threshold, end_weight },
	{ "break-even", 0, init_even, begin_threshold, end_fixed },
};

static const struct player_kind fixed = { "best-static", 0, init_fixed,
					  begin_threshold, end_fixed };

bool player_init(struct player *p, unsigned i, const struct model *m)
{
	if (i >= sizeof(kinds) / sizeof(*kinds))
		return false;
	*p = (struct player){ .kind = &kinds[i] };
	p->kind->init(p, m, p->kind->p);
	return true;
}

void player_init_static(struct player *p, double spin_ns)
{
	*p = (struct player){ .kind = &fixed, .spin_ns = spin_ns };
}

const char *player_name(const struct player *p)
{
	return p->kind->name;
}

double player_begin(struct player *p, unsigned op)
{
	return p->kind->begin(p, op);
}

void player_end(struct player *p, const struct outcome *o)
{
	p->kind->end(p, o);
}
