/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guest does, as a sequence: the gaps between its requests, or threads
 * that think and then ask.  By name and seed, or from a file.  Knows nothing of
 * who waits for it, nor of what waiting costs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_OPS 3 /* read, write, flush */

enum trace_kind {
	TRACE_STATIONARY, /* the same at its end as at its start */
	TRACE_SHIFTING,
	TRACE_LOOP, /* closed: a thread goes on after its answer */
	TRACE_ADVERSARY, /* no steps: the world knows the threshold */
	TRACE_EXTRA, /* not of the core: only by name */
	TRACE_FILE
};

struct trace_step {
	double ns; /* whole numbers, but for loops */
	unsigned op; /* open: with which the wait before ends the wait starts */
};

struct trace {
	const char *name;
	enum trace_kind kind;
	struct trace_step *steps; /* a loop's: thread after thread */
	size_t nr_steps;
	size_t size; /* steps allocated; waits of an adversary */
	/* loops only */
	unsigned threads; /* 0: open, steps are gaps */
	double service_ns[TRACE_OPS];
	double tick_ns; /* not 0: a thread sleeps to the next multiple of it */
};

/* The name of trace number @i, and its kind; NULL after the last. */
const char *trace_name(unsigned i, enum trace_kind *kind);

/*
 * Make @waits steps of a named trace; the result is freed with trace_free.
 * Returns 0, -ENOENT if there is no such trace, or -ENOMEM.
 */
int trace_make(const char *name, uint64_t seed, size_t waits,
	       struct trace *out);

/*
 * Read a recorded one: in each line a gap in ns and, if it likes, what was
 * asked for before it (read, write or flush, the first letter counts); "#"
 * starts a comment.  Returns 0, -errno of reading, -EINVAL and the number of
 * the line that is no gap in @line, or -ENODATA if there is none in it.
 */
int trace_load(const char *path, struct trace *out, unsigned *line);

/* Write it in the format of trace_load; loops have no gaps of their own. */
void trace_print(const struct trace *trace, FILE *file);

void trace_free(struct trace *trace);
