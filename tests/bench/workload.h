/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the benchmark does with its database: transactions of so many INSERTs,
 * one after the other, each commit timed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "tests/bench/histogram.h"

struct database;
struct watchdog;

struct workload {
	uint32_t transactions;
	uint32_t rows; /* of each */
	uint64_t think_ns; /* between them */
	bool spin; /* how to think */
	FILE *acked; /* gets the last id of each commit; may be NULL */
};

struct workload_result {
	uint64_t commits;
	uint64_t elapsed_ns;
	struct histogram commit; /* ns of the statement that commits */
};

/*
 * Insert ids from 1 on.  0, -EIO (see @d->why), -EINTR and -ESRCH of
 * @watchdog.
 */
int workload_run(const struct workload *w, struct database *d,
		 struct watchdog *watchdog, struct workload_result *out);
