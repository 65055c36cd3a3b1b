/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens when a player waits for a trace, and what it costs:
 *
 *	hit:	CPU gap			latency a turn
 *	miss:	CPU spin + cw		latency w0 * noise + rho * spin * noise
 *	cost	latency + beta * CPU
 *
 * The clairvoyant knows the gap, and spins where it will hit and that is
 * cheaper.  All time is virtual; nothing here reads a clock.
 */
#pragma once

#include "tools/polling-sim/player.h"
#include "tools/polling-sim/trace.h"

#include <stddef.h>

#define WORLD_TURN_NS 25.0 /* one look while spinning */
#define WORLD_CW_NS 12000.0 /* CPU of a sleep, arming and waking included */
#define WORLD_MAX_NS 8000000.0 /* xapi's default duration */
#define WORLD_START_WAITS 64 /* that a policy may take to learn */

/* The same wakes for every player, whatever it decided before. */
struct noise {
	size_t n;
	double *wake; /* factors */
	double *delay;
	double *error_ns; /* of the delay that a player is told */
};

struct result {
	uint64_t hits, misses;
	double cost_ns;
	double late_ns; /* cost after the first WORLD_START_WAITS */
	double latency_ns;
	double cpu_ns;
	double spin_ns; /* of the CPU, what was spun */
	double time_ns; /* how long it all took */
};

/* 0 or -ENOMEM. */
int noise_init(struct noise *noise, uint64_t seed, size_t n);
void noise_fini(struct noise *noise);

/*
 * @player (already initialised) meets @trace.  @oracle gets what the
 * clairvoyant pays for the same: in a closed loop that is for a run of its own,
 * and against an adversary for the gaps that it had for @player.  May be NULL.
 */
void world_run(struct player *player, const struct trace *trace,
	       const struct model *model, const struct noise *noise,
	       struct result *out, struct result *oracle);

/*
 * The one threshold that costs least in hindsight, and what becomes of it; with
 * gaps, that is what is to be expected, without noise.  0 or -ENOMEM.
 */
int world_best_static(const struct trace *trace, const struct model *model,
		      const struct noise *noise, struct result *out,
		      struct result *oracle);
