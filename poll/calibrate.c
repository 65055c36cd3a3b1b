/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measure what waiting costs: see calibrate.h.
 *
 * Loops of cheap things are timed as a whole, several times.  For the dear ones
 * a second thread sleeps as a data thread does, in epoll on an eventfd, and the
 * first wakes it, a little later each time than it needs to fall asleep.
 */
#include "poll/calibrate.h"
#include "poll/clock.h"
#include "poll/relax.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
	BATCHES = 9,
	LOOPS = 200, /* in a batch */
	WAKES = 64, /* wanted; */
	WAKES_FIRST = 8, /* these are not counted, */
	WAKES_LEAST = 16, /* fewer tell nothing */
	FALL_ASLEEP_NS = 50000, /* and the timer's slack, another 50000 */
	SPIN_NS = 200000, /* for an answer, before others get the CPU */
	STACK = 128 * 1024,
};

/* Leaves time for starting and ending the threads. */
#define WAKES_TIME_NS (UINT64_C(1000000) * CALIBRATE_MAX_MS * 3 / 5)

void calibrate_defaults(struct calibration *out)
{
	*out = (struct calibration){ .clock_ns = 25,
				     .turn_ns = 25,
				     .arm_ns = 50,
				     .block_ns = 12000,
				     .wake_ns = 40000 };
}

bool calibrate_plausible(const struct calibration *figures)
{
	return figures->clock_ns >= 1 && figures->clock_ns <= 10000 &&
	       figures->turn_ns >= 1 && figures->turn_ns <= 10000 &&
	       figures->arm_ns >= 1 && figures->arm_ns <= 100000 &&
	       figures->block_ns >= 500 && figures->block_ns <= 500000 &&
	       figures->wake_ns >= 1000 && figures->wake_ns <= 2000000;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t median(uint32_t *values, unsigned n)
{
	qsort(values, n, sizeof(*values), by_size);
	return values[n / 2];
}

static uint32_t clip(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* What stands for the words of a ring: another thread could write them. */
struct words {
	uint32_t req_prod, completed, mail;
	uint32_t req_event;
};

static void read_clock(struct words *words)
{
	(void)words;
	clock_ns();
}

static void turn(struct words *words)
{
	__atomic_load_n(&words->req_prod, __ATOMIC_ACQUIRE);
	__atomic_load_n(&words->completed, __ATOMIC_ACQUIRE);
	__atomic_load_n(&words->mail, __ATOMIC_ACQUIRE);
	relax();
}

/* The store must be seen before we look, as in a ring. */
static void arm(struct words *words)
{
	__atomic_store_n(&words->req_event, words->req_event + 1,
			 __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_load_n(&words->req_prod, __ATOMIC_ACQUIRE);
}

/* At least 1: what takes less is rounded up. */
static uint32_t time_of(void (*what)(struct words *))
{
	uint32_t batch[BATCHES];
	struct words words = { 0 };
	uint64_t start;

	for (unsigned i = 0; i < BATCHES; i++) {
		start = clock_ns();
		for (unsigned k = 0; k < LOOPS; k++)
			what(&words);
		batch[i] = clip((clock_ns() - start + LOOPS - 1) / LOOPS);
	}
	return median(batch, BATCHES);
}

struct sleeper {
	pthread_t thread;
	int epoll_fd;
	int kick_fd;
	uint32_t answers; /* grows with each wake; announces what is below */
	bool stop;
	uint64_t woken_ns;
	uint64_t cpu_ns; /* of the thread, so far */
};

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * CLOCK_SECOND + (uint64_t)ts.tv_nsec;
}

static void *sleeper_main(void *arg)
{
	struct sleeper *sleeper = arg;
	struct epoll_event event;
	uint64_t kicks;

	while (!__atomic_load_n(&sleeper->stop, __ATOMIC_ACQUIRE)) {
		if (epoll_wait(sleeper->epoll_fd, &event, 1, -1) < 1)
			continue;
		sleeper->woken_ns = clock_ns();
		if (read(sleeper->kick_fd, &kicks, sizeof(kicks)) < 0)
			continue;
		sleeper->cpu_ns = thread_cpu_ns();
		__atomic_store_n(&sleeper->answers, sleeper->answers + 1,
				 __ATOMIC_RELEASE);
	}
	return NULL;
}

static int create(pthread_t *out, void *(*fn)(void *), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + STACK);
	sigfillset(&all); /* signals are for the main thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(out, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

static void kick(int fd)
{
	const uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* False: no answer before @deadline. */
static bool await(const struct sleeper *sleeper, uint32_t answers,
		  uint64_t patience_ns, uint64_t deadline)
{
	uint64_t start = clock_ns(), now = start;

	while (__atomic_load_n(&sleeper->answers, __ATOMIC_ACQUIRE) ==
	       answers) {
		if (now >= deadline)
			return false;
		if (now - start < patience_ns)
			relax();
		else
			sched_yield(); /* he may want this very CPU */
		now = clock_ns();
	}
	return true;
}

/* Wake the sleeper over and over.  How many wakes are in the two arrays. */
static unsigned wake(struct sleeper *sleeper, bool apart, uint32_t *wakes,
		     uint32_t *blocks)
{
	const struct timespec pause = { .tv_nsec = FALL_ASLEEP_NS };
	uint64_t start = clock_ns(), deadline = start + WAKES_TIME_NS;
	uint64_t patience = apart ? SPIN_NS : 0, cpu = 0;
	unsigned n = 0;

	for (unsigned i = 0; n < WAKES && clock_ns() < deadline; i++) {
		uint32_t answers =
			__atomic_load_n(&sleeper->answers, __ATOMIC_RELAXED);

		nanosleep(&pause, NULL);
		start = clock_ns();
		kick(sleeper->kick_fd);
		if (!await(sleeper, answers, patience, deadline))
			break;
		if (i >= WAKES_FIRST) {
			wakes[n] = clip(sleeper->woken_ns - start);
			blocks[n++] = clip(sleeper->cpu_ns - cpu);
		}
		cpu = sleeper->cpu_ns;
	}
	return n;
}

/*
 * A guest kicks from another CPU than the one that will run us, and the
 * scheduler likes to bring the two together: give the sleeper one of our CPUs,
 * and us any other of the machine, for a guest is not held to those that a
 * tapdisk was pinned to.  False: there is no other, or no right to choose.
 * @before is what to go back to.
 */
static bool keep_apart(pthread_t sleeper, cpu_set_t *before)
{
	cpu_set_t his, ours;
	int cpu = sched_getcpu();

	if (cpu < 0 || cpu >= CPU_SETSIZE ||
	    sched_getaffinity(0, sizeof(*before), before))
		return false;
	CPU_ZERO(&his);
	CPU_SET(cpu, &his);
	memset(&ours, 0xff, sizeof(ours)); /* those that there are */
	CPU_CLR(cpu, &ours);
	return !pthread_setaffinity_np(sleeper, sizeof(his), &his) &&
	       !sched_setaffinity(0, sizeof(ours), &ours);
}

/*
 * What a wake takes on average, which is what policies add up: most are alike,
 * some are far dearer.  Those count, but for four times the usual at most: the
 * few that met somebody else are not to decide.
 */
static uint32_t average_wake(uint32_t *wakes, unsigned n)
{
	uint64_t most = UINT64_C(4) * median(wakes, n), sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += wakes[i] < most ? wakes[i] : most;
	return clip(sum / n);
}

static int measure_wakes(struct sleeper *sleeper, struct calibration *out)
{
	uint32_t wakes[WAKES], blocks[WAKES];
	cpu_set_t before;
	bool apart;
	unsigned n;
	int err;

	err = create(&sleeper->thread, sleeper_main, sleeper);
	if (err)
		return err;
	apart = keep_apart(sleeper->thread, &before);
	n = wake(sleeper, apart, wakes, blocks);
	if (apart)
		sched_setaffinity(0, sizeof(before), &before);
	__atomic_store_n(&sleeper->stop, true, __ATOMIC_RELEASE);
	kick(sleeper->kick_fd);
	pthread_join(sleeper->thread, NULL);
	if (n < WAKES_LEAST)
		return -ETIMEDOUT;
	out->wake_ns = average_wake(wakes, n);
	out->block_ns = median(blocks, n);
	return 0;
}

int calibrate_measure(struct calibration *out)
{
	struct sleeper sleeper = { .epoll_fd = -1, .kick_fd = -1 };
	struct epoll_event event = { .events = EPOLLIN };
	struct calibration figures;
	int err;

	sleeper.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (sleeper.kick_fd < 0)
		return -errno;
	sleeper.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (sleeper.epoll_fd < 0 || epoll_ctl(sleeper.epoll_fd, EPOLL_CTL_ADD,
					      sleeper.kick_fd, &event)) {
		err = -errno;
		goto out;
	}
	figures.clock_ns = time_of(read_clock);
	figures.turn_ns = time_of(turn);
	figures.arm_ns = time_of(arm);
	err = measure_wakes(&sleeper, &figures);
	if (!err && !calibrate_plausible(&figures))
		err = -ERANGE;
	if (!err)
		*out = figures;
out:
	if (sleeper.epoll_fd >= 0)
		close(sleeper.epoll_fd);
	close(sleeper.kick_fd);
	return err;
}

static void *background(void *arg)
{
	struct calibrate *run = arg;

	run->err = calibrate_measure(&run->figures);
	/* announces the two; the last that we touch of the run is its fd */
	__atomic_store_n(&run->done, true, __ATOMIC_RELEASE);
	kick(run->fd);
	return NULL;
}

int calibrate_start(struct calibrate *run, int fd)
{
	int err;

	if (run->running)
		return -EALREADY;
	*run = (struct calibrate){ .fd = fd };
	err = create(&run->thread, background, run);
	run->running = !err;
	return err;
}

int calibrate_finish(struct calibrate *run, bool wait, struct calibration *out)
{
	if (!run->running)
		return -ENOENT;
	if (!wait && !__atomic_load_n(&run->done, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	pthread_join(run->thread, NULL);
	run->running = false;
	if (!run->err)
		*out = run->figures;
	return run->err;
}
