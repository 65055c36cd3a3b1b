/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spin, arm, look, sleep: see wait.h.  The only file that sleeps on behalf of
 * a data thread, and the only one that knows how a kernel can be told to.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/counter.h"
#include "poll/relax.h"
#include "poll/wait.h"

enum {
	/* Looks between two readings of the clock: some 200 ns. */
	BATCH = 8,
	BATCH_NS = 200,
	/* The same number on every architecture; in Linux since 5.11. */
	NR_EPOLL_PWAIT2 = 441,
};

/*
 * Two readings LOST_GAP_NS apart mean that the scheduler took the CPU; a timer
 * interrupt takes 20 to 50 us.  Three within LOST_WINDOW_NS, or one as long as
 * a time slice, and somebody else needs the CPU more than we do: spinning on
 * would cost him the CPU and us the place in the queue.  So there is none for
 * another window; a thread that sleeps is woken before one that spun.
 */
#define LOST_GAP_NS UINT64_C(100000)
#define LOST_SLICE_NS UINT64_C(1000000)
#define LOST_WINDOW_NS UINT64_C(10000000)

/* What an unused slot watches. */
static const uint32_t nothing;

enum spun { SPUN_HIT, SPUN_DUE, SPUN_MISS };

int wait_init(struct wait *wait, bool foreign)
{
	int err;

	memset(wait, 0, sizeof(*wait));
	wait->timer_fd = -1;
	wait->foreign = foreign;
	wait->batch_ns = BATCH_NS;
	for (unsigned i = 0; i < WAIT_SOURCES_MAX; i++)
		wait->words[i].word = &nothing;
	wait->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (wait->epoll_fd < 0) {
		err = -errno;
		return err;
	}
	return 0;
}

void wait_fini(struct wait *wait)
{
	if (wait->timer_fd >= 0)
		close(wait->timer_fd);
	close(wait->epoll_fd);
}

int wait_add(struct wait *wait, struct wait_source *source,
	     const uint32_t *word)
{
	unsigned i;

	for (i = 0; i < WAIT_SOURCES_MAX && wait->sources[i]; i++)
		;
	if (i == WAIT_SOURCES_MAX)
		return -ENOSPC;
	wait->sources[i] = source;
	if (i >= wait->nr_words)
		wait->nr_words = i + 1;
	source->slot = i;
	wait_watch(wait, source, word,
		   word ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : 0);
	return 0;
}

void wait_remove(struct wait *wait, struct wait_source *source)
{
	wait_watch(wait, source, NULL, 0);
	wait->sources[source->slot] = NULL;
	while (wait->nr_words && !wait->sources[wait->nr_words - 1])
		wait->nr_words--;
}

void wait_watch(struct wait *wait, struct wait_source *source,
		const uint32_t *word, uint32_t seen)
{
	struct wait_word *w = &wait->words[source->slot];

	w->word = word ? word : &nothing;
	w->seen = word ? seen : 0;
}

static int control_fd(struct wait *wait, int op, struct wait_source *source,
		      int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(wait->epoll_fd, op, fd, &event) < 0 ? -errno : 0;
}

int wait_add_fd(struct wait *wait, struct wait_source *source, int fd,
		uint32_t events)
{
	return control_fd(wait, EPOLL_CTL_ADD, source, fd, events);
}

int wait_rearm_fd(struct wait *wait, struct wait_source *source, int fd,
		  uint32_t events)
{
	return control_fd(wait, EPOLL_CTL_MOD, source, fd, events);
}

void wait_remove_fd(struct wait *wait, int fd)
{
	control_fd(wait, EPOLL_CTL_DEL, NULL, fd, 0);
}

void wait_set_sleep(struct wait *wait, int (*sleep_fn)(void *, uint64_t),
		    void *arg)
{
	wait->sleep = sleep_fn;
	wait->sleep_arg = arg;
}

void wait_configure(struct wait *wait, const struct wait_settings *settings)
{
	wait->settings = *settings;
}

static uint64_t earliest(const struct wait *wait)
{
	uint64_t due = CLOCK_NEVER;

	for (unsigned i = 0; i < wait->nr_words; i++)
		if (wait->sources[i] && wait->sources[i]->due_ns < due)
			due = wait->sources[i]->due_ns;
	return due;
}

/* One look at every word.  An acquire: what the word announces comes after. */
static bool changed(const struct wait *wait)
{
	const struct wait_word *w = wait->words;

	for (unsigned i = 0; i < wait->nr_words; i++)
		if (__atomic_load_n(w[i].word, __ATOMIC_ACQUIRE) != w[i].seen)
			return true;
	return false;
}

/* A batch of looks.  The number of looks that saw nothing, BATCH if all. */
static unsigned look(const struct wait *wait)
{
	unsigned i;

	for (i = 0; i < BATCH && !changed(wait); i++)
		relax();
	return i;
}

/* The CPU was gone from @last to @now.  True if that was once too often. */
static bool lost_cpu(struct wait *wait, uint64_t last, uint64_t now)
{
	bool often = now - wait->lost_ns[1] < LOST_WINDOW_NS ||
		     now - last >= LOST_SLICE_NS;

	wait->lost_ns[1] = wait->lost_ns[0];
	wait->lost_ns[0] = now;
	if (often)
		wait->calm_ns = now + LOST_WINDOW_NS;
	return often;
}

/* Is there a window, and nobody who needs the CPU more? */
static bool spins(struct wait *wait)
{
	if (wait->settings.mode == WAIT_EVENT || !wait->settings.spin_ns)
		return false;
	if (wait->calm_ns && clock_ns() < wait->calm_ns)
		return false;
	wait->calm_ns = 0;
	return true;
}

/*
 * Spin until a word changes, a source is due, or the window closes.  A wait
 * that ends within the first batch costs no reading of the clock.
 */
static enum spun spin(struct wait *wait, bool active, uint64_t due)
{
	uint64_t start, now, last, end;
	unsigned looks;

	active |= wait->untimed;
	looks = active ? look(wait) : 0;
	if (active && looks < BATCH) {
		wait->untimed = true;
		counter_add(&wait->counters.spin_ns,
			    wait->batch_ns * looks / BATCH);
		counter_add(&wait->counters.hits, 1);
		return SPUN_HIT;
	}
	wait->untimed = false;
	now = clock_ns();
	start = active ? now - wait->batch_ns : now;
	if (active)
		wait->anchor_ns = start;
	end = wait->anchor_ns + wait->settings.spin_ns;
	if (now >= end)
		return SPUN_MISS; /* the window was closed: no spin */
	for (;;) {
		if (now >= due) {
			counter_add(&wait->counters.spin_ns, now - start);
			return SPUN_DUE;
		}
		last = now;
		looks = look(wait);
		if (looks < BATCH) {
			counter_add(&wait->counters.spin_ns,
				    now - start +
					    wait->batch_ns * looks / BATCH);
			counter_add(&wait->counters.hits, 1);
			return SPUN_HIT;
		}
		now = clock_ns();
		if (now - last < LOST_GAP_NS) {
			wait->batch_ns += (now - last) / 8;
			wait->batch_ns -= wait->batch_ns / 8;
		} else if (lost_cpu(wait, last, now)) {
			counter_add(&wait->counters.lost, 1);
			break;
		}
		if (now >= end)
			break;
	}
	counter_add(&wait->counters.spin_ns, now - start);
	counter_add(&wait->counters.misses, 1);
	return SPUN_MISS;
}

static void disarm(struct wait *wait, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (wait->sources[i] && wait->sources[i]->disarm)
			wait->sources[i]->disarm(wait->sources[i]->arg);
}

/*
 * Every source asks to be woken and then looks.  Whatever comes after its look
 * makes its descriptor readable, so nothing falls between look and sleep.
 */
static bool arm(struct wait *wait)
{
	counter_add(&wait->counters.arms, 1);
	for (unsigned i = 0; i < wait->nr_words; i++) {
		struct wait_source *source = wait->sources[i];

		if (source && source->arm && source->arm(source->arg)) {
			disarm(wait, i + 1);
			return true;
		}
	}
	return false;
}

/* Tell the sources whose descriptors are ready; @timeout as epoll_wait's. */
static void collect(struct wait *wait, int timeout)
{
	struct epoll_event events[WAIT_SOURCES_MAX];
	struct wait_source *source;
	uint64_t expirations;
	int n;

	n = epoll_wait(wait->epoll_fd, events, WAIT_SOURCES_MAX, timeout);
	for (int i = 0; i < n; i++) {
		source = events[i].data.ptr;
		if (source && source->woken)
			source->woken(source->arg);
		if (!source &&
		    read(wait->timer_fd, &expirations, sizeof(expirations)) < 0)
			continue; /* it was set anew meanwhile */
	}
}

/* Make epoll_fd readable at @due. */
static int set_timer(struct wait *wait, uint64_t due)
{
	struct itimerspec at = {
		.it_value.tv_sec = due == CLOCK_NEVER ? 0 : due / CLOCK_SECOND,
		.it_value.tv_nsec = due == CLOCK_NEVER ? 0 : due % CLOCK_SECOND,
	};
	int err;

	if (due == 0)
		at.it_value.tv_nsec = 1; /* zero is how timerfd spells never */

	if (wait->timer_fd < 0) {
		wait->timer_fd = timerfd_create(CLOCK_MONOTONIC,
						TFD_NONBLOCK | TFD_CLOEXEC);
		if (wait->timer_fd < 0)
			return -errno;
		err = wait_add_fd(wait, NULL, wait->timer_fd, EPOLLIN);
		if (err) {
			close(wait->timer_fd);
			wait->timer_fd = -1;
			return err;
		}
	}
	if (timerfd_settime(wait->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) < 0)
		return -errno;
	return 0;
}

/* Sleep in epoll until @due, to the nanosecond. */
static void sleep_epoll(struct wait *wait, uint64_t due, uint64_t timeout_ns)
{
	struct epoll_event events[WAIT_SOURCES_MAX];
	struct timespec ts = {
		.tv_sec = timeout_ns / CLOCK_SECOND,
		.tv_nsec = timeout_ns % CLOCK_SECOND,
	};
	struct wait_source *source;
	long n;

	if (due == CLOCK_NEVER) {
		collect(wait, -1);
		return;
	}
	if (!wait->no_pwait2) {
		n = syscall(NR_EPOLL_PWAIT2, wait->epoll_fd, events,
			    WAIT_SOURCES_MAX, &ts, NULL, 0);
		for (long i = 0; i < n; i++) {
			source = events[i].data.ptr;
			if (source && source->woken)
				source->woken(source->arg);
		}
		if (n >= 0 || errno == EINTR)
			return;
		/* ENOSYS, or EPERM from a filter that is older than the call */
		wait->no_pwait2 = true;
	}
	if (set_timer(wait, due))
		collect(wait, (int)(timeout_ns / 1000000) + 1);
	else
		collect(wait, -1);
}

void wait_for(struct wait *wait, bool active, bool may_spin)
{
	uint64_t due, now, timeout = CLOCK_NEVER;
	int rc;

	if (may_spin && spins(wait) &&
	    spin(wait, active, earliest(wait)) != SPUN_MISS)
		return;
	if (arm(wait))
		return;
	due = earliest(wait); /* arming may set a date */
	if (due != CLOCK_NEVER) {
		now = clock_ns();
		timeout = due > now ? due - now : 0;
	}
	counter_add(&wait->counters.sleeps, 1);
	if (wait->sleep) {
		rc = wait->sleep(wait->sleep_arg, timeout);
		if (rc)
			collect(wait, 0);
	} else {
		sleep_epoll(wait, due, timeout);
	}
	disarm(wait, wait->nr_words);
}

bool wait_arm(struct wait *wait)
{
	uint64_t due;

	if (arm(wait))
		return true;
	due = earliest(wait);
	/* an unset clock need not be made only to be unset again */
	if ((due != CLOCK_NEVER || wait->timer_fd >= 0) &&
	    set_timer(wait, due) && due != CLOCK_NEVER) {
		disarm(wait, wait->nr_words);
		return true; /* no clock: look again rather than too late */
	}
	return false;
}

void wait_awake(struct wait *wait)
{
	collect(wait, 0);
	disarm(wait, wait->nr_words);
}

void wait_counters_read(const struct wait_counters *from,
			struct wait_counters *to)
{
	to->spin_ns = counter_read(&from->spin_ns);
	to->hits = counter_read(&from->hits);
	to->misses = counter_read(&from->misses);
	to->lost = counter_read(&from->lost);
	to->sleeps = counter_read(&from->sleeps);
	to->arms = counter_read(&from->arms);
}
