/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Share, purse and price: see cpu_price.h.
 *
 * Prices move in octaves, so that a step means the same at each end of the
 * scale: 1/256 of an octave, straight lines between powers of two.
 */
#include "poll/cpu_price.h"
#include "poll/cpu_verdict.h"

#include <string.h>

enum {
	OCTAVE = 256,
	/* of a second: how fast the price moves */
	RAISE = OCTAVE * 5 / 16, /* while more than an eighth is refused */
	LOWER = OCTAVE * 5 / 4, /* while nothing is */
	RELAX = OCTAVE * 11 / 8, /* when pressure is gone: 1.1 in 100 ms */
	/* pressure: an octave for each 10 % of waiting above 10 %, ... */
	PRESSURE_FREE_BP = 1000,
	PRESSURE_OCTAVE_BP = 1000,
	/* ..., 7 octaves from 10 % of idle CPU down to none */
	IDLE_FREE_BP = 1000,
	IDLE_OCTAVES = 7,
	/* ..., and two for a CPU that was lost twice */
	LOST_OCTAVES = 2,
	PRESSURE_MAX = 10 * OCTAVE,
};

#define SECOND_NS UINT64_C(1000000000)
#define LATE_NS (SECOND_NS / 5)
#define MOST_NS (UINT64_C(3600) * SECOND_NS) /* of time in one step */
#define DEBT_NS SECOND_NS
#define HUNGRY_NS (2 * SECOND_NS)

static int32_t to_level(uint32_t price_q16)
{
	int32_t octave = 31 - __builtin_clz(price_q16);
	uint64_t part = ((uint64_t)price_q16 << 8) >> octave;

	return (octave - 16) * OCTAVE + (int32_t)(part - OCTAVE);
}

static uint32_t to_price(int32_t level)
{
	int32_t octave, part;

	if (level <= to_level(CPU_PRICE_MIN))
		return CPU_PRICE_MIN;
	if (level >= to_level(CPU_PRICE_MAX))
		return CPU_PRICE_MAX;
	octave = (level + 16 * OCTAVE) / OCTAVE; /* of 1/65536: 10 to 20 */
	part = (level + 16 * OCTAVE) % OCTAVE;
	return (uint32_t)((((uint64_t)OCTAVE + (uint64_t)part) << octave) >> 8);
}

static uint32_t base(const struct cpu_price_settings *settings)
{
	uint32_t price = settings->base_q16;

	if (!price)
		return CPU_PRICE_BASE;
	if (price < CPU_PRICE_MIN)
		return CPU_PRICE_MIN;
	return price < CPU_PRICE_MAX ? price : CPU_PRICE_MAX;
}

void cpu_price_init(struct cpu_price *price,
		    const struct cpu_price_settings *settings)
{
	*price = (struct cpu_price){ .level = to_level(base(settings)) };
}

uint32_t cpu_price_share(uint64_t cap, const struct cpu_price_peer *peers,
			 size_t n)
{
	uint64_t level = cap / (n + 1), higher, used;
	size_t rest, i;

	/* whoever takes less than the level leaves the others more */
	for (;;) {
		used = 0;
		rest = 1;
		for (i = 0; i < n; i++) {
			if (!peers[i].hungry && peers[i].rate <= level)
				used += peers[i].rate;
			else
				rest++;
		}
		higher = (cap - used) / rest;
		if (higher <= level)
			break;
		level = higher;
	}
	return level < UINT32_MAX ? (uint32_t)level : UINT32_MAX;
}

/* ns of CPU in @time_ns at @rate. */
static int64_t earned(uint32_t rate, uint64_t time_ns)
{
	return (int64_t)(time_ns / SECOND_NS * rate +
			 time_ns % SECOND_NS * rate / SECOND_NS);
}

/*
 * How fast the purse fills: at our share, but what the others leave of it is
 * given only as it is used.  Else all who want nothing yet would save up for
 * the same rest, and spend it at once.
 */
static uint32_t income(const struct cpu_price *price, uint64_t cap,
		       uint32_t share, size_t nr_peers)
{
	uint64_t rate = cap / (nr_peers + 1) + 2 * (uint64_t)price->rate;

	return rate < share ? (uint32_t)rate : share;
}

/*
 * The time to fill the purse for in advance.  The next step may be late, the
 * later the fewer we are without harm to the sum; but at first we have not seen
 * who else is there.
 */
static uint64_t advance(const struct cpu_price_inputs *in)
{
	uint64_t ahead = in->next_ns + in->next_ns / 4;

	return in->first ? ahead : ahead + LATE_NS / (in->nr_peers + 1);
}

/*
 * Pay what was spent, and fill up until the next step.  A purse holds that, and
 * one spin as it was asked for of late.
 */
static uint64_t fill(struct cpu_price *price, uint32_t rate,
		     const struct cpu_price_inputs *in)
{
	uint64_t ahead = advance(in), due = ahead;
	int64_t most, debt = MOST_NS;

	price->wanted_ns -= price->wanted_ns / 16;
	if (price->wanted_ns < in->wanted_ns)
		price->wanted_ns = in->wanted_ns;
	if (price->wanted_ns > CPU_VERDICT_STAKE_NS)
		price->wanted_ns = CPU_VERDICT_STAKE_NS;
	due += in->elapsed_ns < MOST_NS ? in->elapsed_ns : MOST_NS;
	if (in->spent_ns < (uint64_t)debt)
		debt = (int64_t)in->spent_ns;
	price->purse_ns -= debt;
	if (price->purse_ns < -(int64_t)DEBT_NS)
		price->purse_ns = -(int64_t)DEBT_NS;
	if (due > price->ahead_ns)
		price->purse_ns += earned(rate, due - price->ahead_ns);
	price->ahead_ns = ahead;
	/* a rest pays debts, and saves nothing */
	most = earned(rate, ahead);
	if (!in->first)
		most += (int64_t)price->wanted_ns / 4;
	if (price->purse_ns > most)
		price->purse_ns = most;
	return price->purse_ns > 0 ? (uint64_t)price->purse_ns : 0;
}

static int32_t pressure(const struct cpu_price_inputs *in)
{
	int32_t most = 0, p;

	if (in->pressure_bp > PRESSURE_FREE_BP)
		most = (in->pressure_bp - PRESSURE_FREE_BP) * OCTAVE /
		       PRESSURE_OCTAVE_BP;
	if (in->idle_bp >= 0 && in->idle_bp < IDLE_FREE_BP) {
		p = (IDLE_FREE_BP - in->idle_bp) * IDLE_OCTAVES * OCTAVE /
		    IDLE_FREE_BP;
		most = p > most ? p : most;
	}
	if (in->lost >= 2 && most < LOST_OCTAVES * OCTAVE)
		most = LOST_OCTAVES * OCTAVE;
	return most < PRESSURE_MAX ? most : PRESSURE_MAX;
}

/* How far something that moves @a_second gets; more than 16 s is all the way.
 */
static int32_t moved(int32_t a_second, uint64_t elapsed_ns)
{
	uint64_t ms = elapsed_ns / 1000000;

	return (int32_t)((ms < 16000 ? ms : 16000) * (uint32_t)a_second / 1000);
}

static void move_price(struct cpu_price *price,
		       const struct cpu_price_settings *settings,
		       const struct cpu_price_inputs *in)
{
	int32_t low = settings->spend ? to_level(CPU_PRICE_MIN)
				      : to_level(base(settings));
	int32_t high = to_level(CPU_PRICE_MAX), now = pressure(in);

	/*
	 * The purse keeps the cap, so there is no haste; a demand that is all
	 * or nothing swings around its price and is there most of the time.
	 */
	if (in->refused > in->asked / 8)
		price->level += moved(RAISE, in->elapsed_ns);
	else if (!in->refused)
		price->level -= moved(LOWER, in->elapsed_ns);
	if (price->level < low)
		price->level = low;
	if (price->level > high)
		price->level = high;

	price->pressure -= moved(RELAX, in->elapsed_ns);
	if (price->pressure < now)
		price->pressure = now;
}

static uint32_t average(uint32_t rate, const struct cpu_price_inputs *in)
{
	uint64_t now, ns = in->elapsed_ns;

	if (!ns)
		return rate;
	/* four CPUs' worth at most, and nothing overflows */
	if (in->spent_ns / 4 >= ns)
		now = UINT64_C(4) * CPU_PRICE_CPU;
	else
		now = ns > SECOND_NS * 10 ? in->spent_ns / (ns / SECOND_NS)
					  : in->spent_ns * SECOND_NS / ns;
	if (now > UINT64_C(4) * CPU_PRICE_CPU)
		now = UINT64_C(4) * CPU_PRICE_CPU;
	if (ns >= SECOND_NS)
		return (uint32_t)now;
	return (uint32_t)((rate * (SECOND_NS - ns) + now * ns) / SECOND_NS);
}

void cpu_price_step(struct cpu_price *price,
		    const struct cpu_price_settings *settings,
		    const struct cpu_price_inputs *in,
		    struct cpu_price_answer *out)
{
	uint64_t cap = (uint64_t)settings->cap_pct * (CPU_PRICE_CPU / 100);
	uint64_t ns = in->elapsed_ns;

	memset(out, 0, sizeof(*out));
	price->rate = average(price->rate, in);
	if (in->refused)
		price->hungry_ns = HUNGRY_NS;
	else
		price->hungry_ns -=
			ns < price->hungry_ns ? ns : price->hungry_ns;
	out->rate = price->rate;
	out->share = cap ? cpu_price_share(cap, in->peers, in->nr_peers)
			 : UINT32_MAX;
	out->hungry =
		cap && (price->hungry_ns || price->rate > out->share / 4 * 3);
	out->purse_ns =
		fill(price, income(price, cap, out->share, in->nr_peers), in);
	if (out->share == UINT32_MAX)
		out->purse_ns = UINT64_MAX;
	move_price(price, settings, in);
	out->price_q16 = to_price(price->level + price->pressure);
	out->allowed = !settings->threshold_pct || in->idle_bp < 0 ||
		       in->idle_bp > (int64_t)settings->threshold_pct * 100;
}
