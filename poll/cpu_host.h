/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The governor's eyes on the host: idle CPU, pressure, the local guest's own
 * CPU, cpumond.  Files are opened once and read at most once a second, and only
 * when somebody asks.  It decides nothing.  Logs once if idle CPU cannot be
 * known.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "poll/cpu_idle.h"

struct cpu_host {
	/* the figures, in 1/100 of a per cent, or -1 if not known */
	int32_t idle_bp; /* with all spinning counted as idle */
	int32_t pressure_bp;
	int32_t cpumond_bp;
	const char *idle_source; /* "/proc/stat", "cpumond", "none" */
	int err; /* why idle_bp is not known; 0 also before there is a second */
	/* its own */
	char proc[64];
	int stat_fd, pressure_fd, cpumond_fd, guest_fd;
	struct cpu_times times;
	struct cpu_pressure pressure;
	bool have_times, have_pressure;
	uint64_t read_ns;
	uint64_t spent_ns; /* by us, when we read */
	uint64_t guest_ticks;
};

/* @proc is "/proc" but for tests. */
void cpu_host_open(struct cpu_host *host, const char *proc, uint64_t now_ns);
void cpu_host_close(struct cpu_host *host);

/* Do not count the CPU time of @pid; 0: of nobody. */
void cpu_host_set_guest(struct cpu_host *host, pid_t pid);

/*
 * Bring the figures up to date if a second has passed.  @spent_ns is what we
 * have spent spinning since the start, @others_rate what others spend, ns a
 * second.
 */
void cpu_host_read(struct cpu_host *host, uint64_t now_ns, uint64_t spent_ns,
		   uint64_t others_rate);
