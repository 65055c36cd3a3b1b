/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spinning: when it starts, what ends it, what it counts.  On a clock of our
 * own, so that every nanosecond is where the test puts it: time passes only by
 * being read, and what happens "meanwhile" happens in a reading.  Sleeping is
 * test_wait.c's.
 */
#include <check.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/wait.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define WINDOW MS

enum { STEP = 200 }; /* what one reading takes, as on a real machine */

/* ---- the clock ---- */

static struct {
	bool ours;
	uint64_t now;
	unsigned readings;
	void (*meanwhile)(unsigned reading); /* may be NULL */
} fake;

/* In place of libc's, for spin.c and for libcheck, which wants the real one. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (!fake.ours || id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	fake.now += STEP;
	if (fake.meanwhile)
		fake.meanwhile(fake.readings);
	fake.readings++;
	ts->tv_sec = (time_t)(fake.now / CLOCK_SECOND);
	ts->tv_nsec = (long)(fake.now % CLOCK_SECOND);
	return 0;
}

/* ---- one wait with a source that never lets it sleep ---- */

static struct wait waiter;
static struct wait_source source, others[WAIT_SOURCES_MAX];
static uint32_t word, more[WAIT_SOURCES_MAX];
static unsigned armed, disarmed;

static bool arm(void *arg)
{
	(void)arg;
	armed++;
	return true;
}

static void disarm(void *arg)
{
	(void)arg;
	disarmed++;
}

static void configure(enum wait_mode mode, uint64_t spin_ns)
{
	struct wait_settings settings = { .mode = mode, .spin_ns = spin_ns };

	wait_configure(&waiter, &settings);
}

static void setup(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.now = 1000 * CLOCK_SECOND;
	word = 7;
	source = (struct wait_source){ .arm = arm,
				       .disarm = disarm,
				       .due_ns = CLOCK_NEVER };
	ck_assert_int_eq(wait_init(&waiter, false), 0);
	ck_assert_int_eq(wait_add(&waiter, &source, &word), 0);
	configure(WAIT_FIXED, WINDOW);
}

static void teardown(void)
{
	wait_fini(&waiter);
}

/* One wait; returns how long it took by the clock. */
static uint64_t wait_once(bool active, bool may_spin)
{
	uint64_t start = fake.now;

	fake.readings = 0;
	fake.ours = true;
	wait_for(&waiter, active, may_spin);
	fake.ours = false;
	return fake.now - start;
}

static void assert_counts(unsigned hits, unsigned misses, unsigned arms)
{
	ck_assert_uint_eq(waiter.counters.hits, hits);
	ck_assert_uint_eq(waiter.counters.misses, misses);
	ck_assert_uint_eq(waiter.counters.arms, arms);
	ck_assert_uint_eq(armed, arms);
	ck_assert_uint_eq(disarmed, arms);
	ck_assert_uint_eq(waiter.counters.sleeps, 0);
}

/* @got is @want, but for what two readings and a batch of looks take. */
static void assert_near(uint64_t got, uint64_t want)
{
	ck_assert_uint_le(want, got + 4 * STEP);
	ck_assert_uint_le(got, want + 4 * STEP);
}

static unsigned at; /* the reading in which it happens */

static void change_word(unsigned reading)
{
	if (reading == at)
		word++;
}

/* ---- when it spins ---- */

START_TEST(a_miss_lasts_as_long_as_the_window)
{
	uint64_t took = wait_once(true, true);

	assert_near(took, WINDOW);
	assert_near(waiter.counters.spin_ns, WINDOW);
	assert_counts(0, 1, 1);
}
END_TEST

static const struct {
	const char *why;
	enum wait_mode mode;
	uint64_t spin_ns;
	bool may_spin;
} still[] = {
	{ "event mode", WAIT_EVENT, WINDOW, true },
	{ "no duration", WAIT_FIXED, 0, true },
	{ "nothing to expect", WAIT_FIXED, WINDOW, false },
};

START_TEST(does_not_spin_without_leave)
{
	configure(still[_i].mode, still[_i].spin_ns);
	wait_once(true, still[_i].may_spin);
	/* nor is it paid for: the clock is not even read */
	ck_assert_msg(fake.readings == 0, "%s", still[_i].why);
	ck_assert_uint_eq(waiter.counters.spin_ns, 0);
	assert_counts(0, 0, 1);
}
END_TEST

/* ---- what ends it ---- */

/* @_i: the slot whose word changes. */
START_TEST(any_watched_word_ends_a_spin)
{
	for (unsigned i = 1; i < WAIT_SOURCES_MAX; i++) {
		others[i].due_ns = CLOCK_NEVER;
		more[i] = i;
		ck_assert_int_eq(wait_add(&waiter, &others[i], &more[i]), 0);
	}
	ck_assert_uint_lt(wait_once(true, true), WINDOW + 2 * US);
	assert_counts(0, 1, 1);
	if (_i)
		more[_i]--;
	else
		word--;
	ck_assert_uint_eq(wait_once(true, true), 0);
	assert_counts(1, 1, 1);
}
END_TEST

/* @_i: the reading before which it changes. */
START_TEST(a_hit_ends_at_once_and_arms_nothing)
{
	uint64_t took;

	at = (unsigned)_i;
	fake.meanwhile = change_word;
	took = wait_once(true, true);
	assert_near(took, at * STEP);
	assert_near(waiter.counters.spin_ns, took);
	assert_counts(1, 0, 0);
	ck_assert_uint_eq(fake.readings, at + 1);
}
END_TEST

START_TEST(what_is_there_already_costs_no_reading_of_the_clock)
{
	word++;
	ck_assert_uint_eq(wait_once(true, true), 0);
	ck_assert_uint_eq(fake.readings, 0);
	assert_counts(1, 0, 0);
	ck_assert_uint_eq(waiter.counters.spin_ns, 0);
}
END_TEST

START_TEST(what_was_seen_does_not_end_it_again)
{
	word++;
	wait_seen(&waiter, &source, word);
	assert_near(wait_once(true, true), WINDOW);
	assert_counts(0, 1, 1);
	wait_watch(&waiter, &source, NULL, 0);
	word++;
	assert_near(wait_once(true, true), WINDOW);
	assert_counts(0, 2, 2);
	wait_watch(&waiter, &source, &word, word - 1);
	wait_once(true, true);
	assert_counts(1, 2, 2);
}
END_TEST

START_TEST(a_due_date_ends_a_spin)
{
	source.due_ns = fake.now + WINDOW / 2;
	assert_near(wait_once(true, true), WINDOW / 2);
	ck_assert_uint_ge(fake.now, source.due_ns);
	assert_near(waiter.counters.spin_ns, WINDOW / 2);
	assert_counts(0, 0, 0); /* neither a hit nor a miss, and no sleep */
	/* one that has passed ends it before it starts */
	wait_once(true, true);
	ck_assert_uint_le(fake.readings, 1);
	assert_counts(0, 0, 0);
}
END_TEST

START_TEST(the_earliest_date_counts)
{
	for (unsigned i = 1; i < 4; i++) {
		others[i].due_ns = fake.now + (5 - i) * 100 * US;
		ck_assert_int_eq(wait_add(&waiter, &others[i], NULL), 0);
	}
	assert_near(wait_once(true, true), 200 * US);
}
END_TEST

/* ---- the window ---- */

/* Where it is: from the last activity on, whatever else ends waits in it. */
START_TEST(the_window_is_anchored_at_the_last_activity)
{
	uint64_t start = fake.now;

	at = 400 * US / STEP;
	fake.meanwhile = change_word;
	wait_once(true, true); /* a hit after 400 us... */
	fake.meanwhile = NULL;
	wait_seen(&waiter, &source, word);
	wait_once(false, true); /* ...that was none of a request */
	assert_near(fake.now - start, WINDOW);
	assert_counts(1, 1, 1);
	/* the window is closed: the next idle wait does not spin at all */
	wait_once(false, true);
	ck_assert_uint_le(fake.readings, 1);
	assert_counts(1, 1, 2);
	/* and opens with the next activity */
	assert_near(wait_once(true, true), WINDOW);
	assert_counts(1, 2, 3);
}
END_TEST

/* The time of an activity is not read while there is more to do at once. */
START_TEST(an_activity_that_was_not_timed_opens_the_window_too)
{
	word++;
	wait_once(true, true);
	ck_assert_uint_eq(fake.readings, 0);
	wait_seen(&waiter, &source, word);
	assert_near(wait_once(false, true), WINDOW);
	assert_counts(1, 1, 1);
}
END_TEST

START_TEST(a_wake_without_work_opens_no_window)
{
	wait_once(true, true);
	assert_counts(0, 1, 1);
	for (unsigned i = 0; i < 10; i++) {
		fake.now += 10 * WINDOW; /* a long sleep, and woken */
		wait_once(false, true);
		ck_assert_uint_le(fake.readings, 1);
		assert_counts(0, 1, 2 + i);
	}
	assert_near(waiter.counters.spin_ns, WINDOW);
}
END_TEST

START_TEST(a_retune_ends_a_spin_at_once)
{
	/* the word of a mailbox, in which the new settings are */
	at = 10;
	fake.meanwhile = change_word;
	configure(WAIT_FIXED, 60 * CLOCK_SECOND);
	ck_assert_uint_lt(wait_once(true, true), 20 * STEP);
	wait_seen(&waiter, &source, word);
	configure(WAIT_EVENT, 0);
	wait_once(true, true);
	ck_assert_uint_eq(fake.readings, 0);
	assert_counts(1, 0, 1);
	/* and back: shorter than before */
	fake.meanwhile = NULL;
	configure(WAIT_FIXED, 50 * US);
	assert_near(wait_once(true, true), 50 * US);
	assert_counts(1, 1, 2);
}
END_TEST

/* ---- who is gone ends nothing ---- */

START_TEST(a_removed_source_ends_no_spin)
{
	uint32_t others_word = 1;

	others[0].due_ns = fake.now + 10 * US;
	others[1].due_ns = CLOCK_NEVER;
	ck_assert_int_eq(wait_add(&waiter, &others[0], &others_word), 0);
	ck_assert_int_eq(wait_add(&waiter, &others[1], NULL), 0);
	wait_remove(&waiter, &others[0]); /* in the middle */
	others_word++;
	assert_near(wait_once(true, true), WINDOW);
	assert_counts(0, 1, 1);
	/* its slot is another's now */
	others[2].due_ns = CLOCK_NEVER;
	ck_assert_int_eq(wait_add(&waiter, &others[2], &others_word), 0);
	assert_near(wait_once(true, true), WINDOW); /* seen when it was added */
	others_word++;
	wait_once(true, true);
	assert_counts(1, 2, 2);
}
END_TEST

/* ---- the scheduler ---- */

static unsigned gaps; /* how many */
static uint64_t gap, apart; /* how long, and how far from one to the next */
static uint64_t next_gap;

static void lose_the_cpu(unsigned reading)
{
	if (reading == 0)
		next_gap = fake.now + apart;
	if (!gaps || fake.now < next_gap)
		return;
	gaps--;
	fake.now += gap;
	next_gap = fake.now + apart;
}

static const struct {
	const char *why;
	unsigned gaps;
	uint64_t gap, apart;
	bool lost;
} schedules[] = {
	{ "timer ticks", 1000, 50 * US, 50 * US, false },
	{ "once", 1, 900 * US, 2 * MS, false },
	{ "twice", 2, 150 * US, MS, false },
	{ "three times in a row", 3, 150 * US, US, true },
	{ "three times in 10 ms", 3, 150 * US, 4 * MS, true },
	{ "now and then", 100, 150 * US, 8 * MS, false },
	{ "one time slice", 1, MS, 2 * MS, true },
	{ "time slices", 100, 3 * MS, MS, true },
};

START_TEST(stops_spinning_when_others_need_the_cpu)
{
	uint64_t took;

	configure(WAIT_FIXED, 100 * MS);
	gaps = schedules[_i].gaps;
	gap = schedules[_i].gap;
	apart = schedules[_i].apart;
	fake.meanwhile = lose_the_cpu;
	took = wait_once(true, true);
	ck_assert_msg((took < 50 * MS) == schedules[_i].lost, "%s: %llu us",
		      schedules[_i].why, (unsigned long long)(took / US));
	ck_assert_uint_eq(waiter.counters.lost, schedules[_i].lost);
	assert_counts(0, 1, 1);
}
END_TEST

/* Who sleeps is woken before one who spun: for 10 ms it does not. */
START_TEST(a_lost_cpu_is_left_to_others_for_a_while)
{
	gaps = 1;
	gap = 2 * MS;
	apart = 10 * US;
	fake.meanwhile = lose_the_cpu;
	wait_once(true, true);
	ck_assert_uint_eq(waiter.counters.lost, 1);
	for (unsigned i = 0; i < 9; i++) {
		ck_assert_uint_lt(wait_once(true, true), 4 * STEP);
		assert_counts(0, 1, 2 + i);
		fake.now += MS;
	}
	fake.now += MS;
	assert_near(wait_once(true, true), WINDOW);
	assert_counts(0, 2, 11);
	ck_assert_uint_eq(waiter.counters.lost, 1);
}
END_TEST

/* ---- and costs nothing but time ---- */

static bool forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
	};
	struct sock_fprog prog = { .len = 4, .filter = filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

START_TEST(spinning_makes_no_system_call)
{
	int status;
	pid_t pid;

	at = 4000;
	fake.meanwhile = change_word;
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		if (!forbid_system_calls())
			_exit(77);
		wait_once(true, true);
		/* not _exit, around which sanitizers make calls of their own */
		syscall(__NR_exit_group, waiter.counters.hits == 1 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "a system call was made");
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

static void add(TCase *tcase)
{
	tcase_add_test(tcase, a_miss_lasts_as_long_as_the_window);
	tcase_add_loop_test(tcase, does_not_spin_without_leave, 0,
			    (int)(sizeof(still) / sizeof(still[0])));
	tcase_add_loop_test(tcase, any_watched_word_ends_a_spin, 0,
			    WAIT_SOURCES_MAX);
	tcase_add_loop_test(tcase, a_hit_ends_at_once_and_arms_nothing, 0, 20);
	tcase_add_test(tcase,
		       what_is_there_already_costs_no_reading_of_the_clock);
	tcase_add_test(tcase, what_was_seen_does_not_end_it_again);
	tcase_add_test(tcase, a_due_date_ends_a_spin);
	tcase_add_test(tcase, the_earliest_date_counts);
	tcase_add_test(tcase, the_window_is_anchored_at_the_last_activity);
	tcase_add_test(tcase,
		       an_activity_that_was_not_timed_opens_the_window_too);
	tcase_add_test(tcase, a_wake_without_work_opens_no_window);
	tcase_add_test(tcase, a_retune_ends_a_spin_at_once);
	tcase_add_test(tcase, a_removed_source_ends_no_spin);
	tcase_add_loop_test(tcase, stops_spinning_when_others_need_the_cpu, 0,
			    (int)(sizeof(schedules) / sizeof(schedules[0])));
	tcase_add_test(tcase, a_lost_cpu_is_left_to_others_for_a_while);
	tcase_add_test(tcase, spinning_makes_no_system_call);
}

int main(void)
{
	Suite *suite = suite_create("wait_spin");
	TCase *tcase = tcase_create("wait_spin");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, teardown);
	add(tcase);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
