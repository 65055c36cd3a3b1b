/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words into figures within sane bounds.  Does not know which policies and
 * traces there are.
 */
#include "tools/polling-sim/options.h"
#include "tools/polling-sim/world.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WAITS_MIN 1
#define WAITS_MAX 10000000
#define EXACT_MAX 9007199254740992.0 /* 2^53 */

static const char usage[] =
	"usage: polling-sim [options]\n"
	"Replay gaps between requests through polling policies.\n"
	"  --policy NAME|all      default all\n"
	"  --trace NAME|FILE|all  default all, the core traces\n"
	"  --seed N               of trace and noise, default 1001\n"
	"  --waits N              per named trace, default 2000\n"
	"  --w0-us X              latency of a wake, default 35\n"
	"  --beta X               price of CPU in latency, default 0.2\n"
	"  --rho X                share of a failed spin that delays the "
	"wake,\n"
	"                         default 0\n"
	"  --json                 one object per policy and trace\n"
	"  --gaps                 only print the trace, for --trace FILE\n"
	"  --help\n";

enum { POLICY = 1, TRACE, SEED, WAITS, W0, BETA, RHO, JSON, GAPS, HELP };

static const struct option table[] = {
	{ "policy", required_argument, NULL, POLICY },
	{ "trace", required_argument, NULL, TRACE },
	{ "seed", required_argument, NULL, SEED },
	{ "waits", required_argument, NULL, WAITS },
	{ "w0-us", required_argument, NULL, W0 },
	{ "beta", required_argument, NULL, BETA },
	{ "rho", required_argument, NULL, RHO },
	{ "json", no_argument, NULL, JSON },
	{ "gaps", no_argument, NULL, GAPS },
	{ "help", no_argument, NULL, HELP },
	{ 0 },
};

static int number(const char *name, double least, double most, double *out)
{
	char *end;
	double value = strtod(optarg, &end);

	if (end == optarg || *end || !(value >= least && value <= most)) {
		fprintf(stderr,
			"polling-sim: --%s: %s: not a number from %g to %g\n",
			name, optarg, least, most);
		return -EINVAL;
	}
	*out = value;
	return 0;
}

static int whole(const char *name, double least, double most, uint64_t *out)
{
	double value;
	int err = number(name, least, most, &value);

	if (err)
		return err;
	if (trunc(value) < value) {
		fprintf(stderr, "polling-sim: --%s: %s: not a whole number\n",
			name, optarg);
		return -EINVAL;
	}
	*out = (uint64_t)value;
	return 0;
}

static int take(int option, struct options *o)
{
	double price = 1.0 / POLICY_ONE;
	uint64_t waits;
	int err = 0;

	switch (option) {
	case POLICY:
		o->policy = optarg;
		break;
	case TRACE:
		o->trace = optarg;
		break;
	case SEED:
		err = whole("seed", 0, EXACT_MAX, &o->seed);
		break;
	case WAITS:
		err = whole("waits", WAITS_MIN, WAITS_MAX, &waits);
		if (!err)
			o->waits = (size_t)waits;
		break;
	case W0:
		err = number("w0-us", .001, 100000, &o->model.w0_ns);
		o->model.w0_ns *= 1000;
		break;
	case BETA:
		err = number("beta", price, 16, &o->model.beta);
		break;
	case RHO:
		err = number("rho", 0, 100, &o->model.rho);
		break;
	case JSON:
		o->json = true;
		break;
	case GAPS:
		o->gaps = true;
		break;
	case HELP:
		fputs(usage, stdout);
		return 1;
	default: /* getopt has said it */
		fputs(usage, stderr);
		return -EINVAL;
	}
	return err;
}

int options_parse(int argc, char **argv, struct options *out)
{
	int option, err;

	*out = (struct options){ .policy = "all",
				 .trace = "all",
				 .seed = 1001,
				 .waits = 2000,
				 .model = { .w0_ns = 35000,
					    .cw_ns = WORLD_CW_NS,
					    .beta = .2,
					    .max_ns = WORLD_MAX_NS } };
	while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
		err = take(option, out);
		if (err)
			return err;
	}
	if (optind < argc) {
		fprintf(stderr, "polling-sim: %s: no operand expected\n",
			argv[optind]);
		return -EINVAL;
	}
	return 0;
}
