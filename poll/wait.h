/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a data thread waits: spin on a few words, then sleep on descriptors.
 *
 * The only place that does.  It knows words, descriptors and dates, and
 * nothing of rings, disks or guests: whoever can end a wait is a *source*.
 * Spinning makes no system call.  Sleeping follows one order, the one that
 * cannot lose a wake-up: every source asks to be woken, then every source
 * looks once more, then the thread sleeps.  Never logs.
 *
 * A wait whose thread never sleeps in it (the main thread's) can be *foreign*:
 * its descriptor is watched by another epoll, see wait_arm.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/adapt.h"
#include "poll/gaps.h"

#define WAIT_SOURCES_MAX 80

/* Spinning ends when *word is no longer @seen. */
struct wait_word {
	const uint32_t *word;
	uint32_t seen;
};

struct cpu_verdict;

struct wait_source {
	/*
	 * Ask to be woken by descriptor, then look once more.  True: there is
	 * work already, do not sleep.  NULL: nothing to ask for.
	 */
	bool (*arm)(void *arg);
	/* Awake or going on after arm: do not wake us any more.  May be NULL.
	 */
	void (*disarm)(void *arg);
	/* One of its descriptors ended a sleep.  May be NULL. */
	void (*woken)(void *arg);
	void *arg;
	uint64_t due_ns; /* end a wait at this time; CLOCK_NEVER */
	/* wait's own */
	unsigned slot;
};

enum wait_mode {
	WAIT_EVENT, /* never spin */
	WAIT_FIXED, /* spin until spin_ns after the last activity */
	WAIT_ADAPTIVE, /* as long as it is likely to pay, never beyond spin_ns
			*/
	NR_WAIT_MODES
};

struct wait_settings {
	enum wait_mode mode;
	uint64_t spin_ns; /* 0 is event mode whatever the mode says */
	/* adaptive: see policy.h */
	uint32_t price; /* of CPU, Q16 */
	uint64_t w0_ns, cw_ns; /* what a sleep costs */
};

/* Written by the waiting thread only; others read with wait_counters_read. */
struct wait_counters {
	uint64_t spin_ns; /* time spent spinning */
	uint64_t hits; /* spins that a word ended */
	uint64_t misses; /* spins that the limit, or a lost CPU, ended */
	uint64_t lost; /* of these: the scheduler took the CPU */
	uint64_t sleeps; /* times the thread slept */
	uint64_t arms; /* times the sources were armed */
};

struct wait {
	/* one cache line: all that spinning touches, beside the words */
	struct wait_word words[WAIT_SOURCES_MAX];
	unsigned nr_words; /* highest slot in use + 1 */
	struct wait_settings settings;
	uint64_t anchor_ns; /* last activity that was timed */
	bool untimed; /* there was one since: it opens the window when timed */
	uint64_t batch_ns; /* what a batch of looks takes, measured */
	uint64_t lost_ns[2]; /* the last two times the CPU was lost */
	uint64_t calm_ns; /* no spinning before this; 0: go ahead */
	struct wait_source *sources[WAIT_SOURCES_MAX];
	int epoll_fd;
	int timer_fd; /* made when epoll_pwait2 is missing, or foreign */
	bool foreign;
	bool no_pwait2;
	struct cpu_verdict *verdict; /* NULL: spin as the settings say */
	uint64_t paid_ns; /* of counters.spin_ns: told to the verdict */
	enum policy_op op; /* the last one taken: the waiting thread sets it */
	int schedstat_fd; /* of its thread, -1: none; the wait's to close */
	struct adapt adapt;
	struct gaps *gaps; /* where waits are recorded, NULL: nowhere */
	struct gaps_wait gap;
	uint64_t forced_ns; /* spin until then, whatever the mode; 0: no */
	/* how to sleep with I/O in flight, NULL: epoll alone */
	int (*sleep)(void *arg, uint64_t timeout_ns);
	void *sleep_arg;
	struct wait_counters counters;
};

/* 0 or -errno of epoll_create1, timerfd_create. */
int wait_init(struct wait *wait, bool foreign);
void wait_fini(struct wait *wait);

/*
 * Add @source; @word may be NULL (it has none to watch).  Returns 0 or -ENOSPC.
 * The source is the caller's and must stay until wait_remove.
 */
int wait_add(struct wait *wait, struct wait_source *source,
	     const uint32_t *word);
void wait_remove(struct wait *wait, struct wait_source *source);

/*
 * A sleep also ends when @fd is ready for @events (EPOLLIN, EPOLLONESHOT...);
 * @source is told by woken().  Returns 0 or -errno of epoll_ctl.
 */
int wait_add_fd(struct wait *wait, struct wait_source *source, int fd,
		uint32_t events);
/* Enable a EPOLLONESHOT descriptor again. */
int wait_rearm_fd(struct wait *wait, struct wait_source *source, int fd,
		  uint32_t events);
void wait_remove_fd(struct wait *wait, int fd);

/* From now on spinning ends when the source's word differs from @value. */
static inline void wait_seen(struct wait *wait, struct wait_source *source,
			     uint32_t value)
{
	wait->words[source->slot].seen = value;
}

/* Watch @word, or with NULL nothing, on behalf of @source. */
void wait_watch(struct wait *wait, struct wait_source *source,
		const uint32_t *word, uint32_t seen);

/*
 * How the thread sleeps while I/O is in flight: @sleep waits for an I/O or for
 * wait->epoll_fd to be readable, at most timeout_ns (CLOCK_NEVER: for ever),
 * and returns 1 if wait->epoll_fd may be readable, 0 if not, or -errno.  NULL
 * goes back to epoll alone.
 */
void wait_set_sleep(struct wait *wait, int (*sleep)(void *, uint64_t),
		    void *arg);

/* Takes effect at the next look; called by the waiting thread. */
void wait_configure(struct wait *wait, const struct wait_settings *settings);

/*
 * "Poll now": for the next @ns every wait spins, whatever the mode is.  Called
 * by the waiting thread.
 */
void wait_force(struct wait *wait, uint64_t ns);

/*
 * Wait until a source may have work.  @active: this turn took a request,
 * reaped a completion or pushed a response, so the window opens anew.  @kind
 * is what for; with WAIT_NOBODY there is no spinning.
 */
void wait_for(struct wait *wait, bool active, enum wait_kind kind);

/*
 * Foreign only: arm every source and the clock.  True: there is work, do the
 * turn again.  False: wait->epoll_fd becomes readable when there is; call
 * wait_awake then, before the turn.
 */
bool wait_arm(struct wait *wait);
void wait_awake(struct wait *wait);

/* Any thread: a copy that is never torn field by field. */
void wait_counters_read(const struct wait_counters *from,
			struct wait_counters *to);
