/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line.  Says on stderr what is wrong with it. */
#pragma once

#include "tools/polling-sim/player.h"

#include <stdbool.h>
#include <stddef.h>

struct options {
	const char *policy; /* a name, or "all" */
	const char *trace; /* a name, a file, or "all" */
	uint64_t seed;
	size_t waits;
	struct model model;
	bool json;
	bool gaps; /* print the trace, run nothing */
};

/* Returns 0; 1 when help was asked for and given; or -EINVAL. */
int options_parse(int argc, char **argv, struct options *out);
