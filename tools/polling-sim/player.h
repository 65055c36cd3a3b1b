/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who decides how long to spin: our policy and its rivals, each as published.
 * They see what a backend sees, and nothing of the trace or of true costs.
 */
#pragma once

#include "poll/policy.h"

/* What a wait costs; times in ns. */
struct model {
	double w0_ns; /* latency of a wake, its mean */
	double cw_ns; /* CPU of a sleep and a wake */
	double beta; /* price of CPU in latency */
	double rho; /* part of a failed spin that comes back as delay */
	double max_ns; /* the configured duration */
};

struct player {
	const struct player_kind *kind;
	double spin_ns; /* of those that have one threshold at a time */
	double max_ns;
	double average_ns;
	struct policy policy;
};

/* What became of a wait, as policy_end wants it. */
struct outcome {
	uint64_t observed_ns, spun_ns;
	bool missed;
	int64_t delay_ns;
};

/* Number @i of the players that need no oracle; false after the last. */
bool player_init(struct player *player, unsigned i, const struct model *model);

/* One that always spins for @spin_ns. */
void player_init_static(struct player *player, double spin_ns);

const char *player_name(const struct player *player);

/* As policy_begin (INFINITY is for ever) and policy_end. */
double player_begin(struct player *player, unsigned op);
void player_end(struct player *player, const struct outcome *outcome);
