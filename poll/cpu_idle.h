/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How idle the host is: what /proc/stat, /proc/pressure/cpu and cpumond say.
 * Parsing and arithmetic only; whoever has the rights reads the files.  Text
 * that is not understood is -EINVAL and never a figure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Clock ticks since boot over all CPUs. */
struct cpu_times {
	uint64_t idle; /* idle and waiting for a disk; never stolen time */
	uint64_t total; /* all, stolen too; guests once */
};

/* The first line of /proc/stat.  0 or -EINVAL. */
int cpu_idle_parse(const char *text, struct cpu_times *out);

/*
 * The idle share from @before to @now in 1/100 of a per cent, with @spun more
 * ticks that were spent on what stops when somebody needs the CPU.  -1 if no
 * time has passed, or time went back.
 */
int32_t cpu_idle_share(const struct cpu_times *before,
		       const struct cpu_times *now, uint64_t spun);

/* "some" of /proc/pressure/cpu. */
struct cpu_pressure {
	int32_t avg10_bp; /* average of ten seconds, in 1/100 of a per cent */
	uint64_t total_us; /* time since boot in which somebody waited */
};

/* 0 or -EINVAL. */
int cpu_idle_parse_pressure(const char *text, struct cpu_pressure *out);

/* utime + stime of /proc/PID/stat, in ticks.  0 or -EINVAL. */
int cpu_idle_parse_process(const char *text, uint64_t *out);

/*
 * cpumond's page: busy and idle in per cent, as floats.  Returns the idle share
 * in 1/100 of a per cent, or -1 if these 8 bytes cannot be its.
 */
int32_t cpu_idle_cpumond(const void *page, size_t len);
