/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals, the tapdisk's death and its CPU time; see watchdog.h.
 */
#include "tests/bench/watchdog.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOOK_EVERY_NS UINT64_C(10000000)

void watchdog_init(struct watchdog *w, pid_t pid)
{
	sigset_t set;

	*w = (struct watchdog){ .pid = pid };
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* It stays pending, so that every thread sees it. */
static bool signal_came(void)
{
	sigset_t set;

	return sigpending(&set) == 0 &&
	       (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM));
}

/* kill(pid, 0) finds zombies too: their parent may be slow to wait for them. */
static bool is_gone(pid_t pid)
{
	char path[32], line[512], *state;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return true;
	n = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[n] = 0;
	state = strrchr(line, ')'); /* the name may hold anything */
	return !state || strchr("ZXx", state[1] ? state[2] : 'X');
}

int watchdog_look(struct watchdog *w, uint64_t now_ns)
{
	if (w->err || now_ns < w->next_ns)
		return w->err;
	w->next_ns = now_ns + LOOK_EVERY_NS;
	if (signal_came())
		w->err = -EINTR;
	else if (w->pid && is_gone(w->pid))
		w->err = -ESRCH;
	return w->err;
}

int watchdog_cpu_ns(pid_t pid, uint64_t *out)
{
	struct timespec ts;
	clockid_t clock;

	/* exact, where /proc counts ticks and forgets threads that ended */
	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
		return -ESRCH;
	*out = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	return 0;
}

const char *watchdog_reason(int err)
{
	switch (err) {
	case -EINTR:
		return "interrupted";
	case -ESRCH:
		return "the tapdisk is gone";
	case -EPROTO:
		return "the tapdisk broke a rule of the ring";
	case -ETIMEDOUT:
		return "no answer for two minutes";
	default:
		return strerror(-err);
	}
}
