/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adaptive mode in the wait engine, on a clock of our own and a guest whose
 * next request comes when the test says: what it learns to do, not how the
 * policy decides (test_policy.c).
 */
#include <check.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/wait.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

enum { STEP = 200, W0 = 40000 };

static struct {
	bool ours;
	uint64_t now, event_at;
	unsigned readings, sleeps, naps;
} fake;

static struct wait waiter;
static struct wait_source source;
static uint32_t word;

static void let_it_happen(void)
{
	if (fake.now >= fake.event_at) {
		word++;
		fake.event_at = CLOCK_NEVER;
	}
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (!fake.ours || id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	fake.readings++;
	fake.now += STEP;
	let_it_happen();
	ts->tv_sec = (time_t)(fake.now / CLOCK_SECOND);
	ts->tv_nsec = (long)(fake.now % CLOCK_SECOND);
	return 0;
}

/* A sleep ends with the event, a wake later, or with its time. */
static int sleep_fake(void *arg, uint64_t timeout_ns)
{
	uint64_t wakes = fake.event_at + W0, ends = fake.now + timeout_ns;

	(void)arg;
	if (timeout_ns != CLOCK_NEVER && ends < wakes) {
		fake.naps++;
		fake.now = ends + W0;
	} else {
		fake.sleeps++;
		fake.now = wakes;
	}
	let_it_happen();
	return 0;
}

static bool arm(void *arg)
{
	(void)arg;
	return word != waiter.words[source.slot].seen;
}

static void setup(void)
{
	struct wait_settings settings = {
		.mode = WAIT_ADAPTIVE,
		.spin_ns = 8 * MS,
		.price = POLICY_ONE / 20,
		.w0_ns = W0,
		.cw_ns = 12000,
	};

	fake.now = 1000 * CLOCK_SECOND;
	fake.event_at = CLOCK_NEVER;
	source = (struct wait_source){ .arm = arm, .due_ns = CLOCK_NEVER };
	ck_assert_int_eq(wait_init(&waiter, false), 0);
	ck_assert_int_eq(wait_add(&waiter, &source, &word), 0);
	wait_set_sleep(&waiter, sleep_fake, NULL);
	wait_configure(&waiter, &settings);
}

static void teardown(void)
{
	wait_fini(&waiter);
}

/* @n waits of @kind that each end @gap after they began. */
static void waits(unsigned n, enum wait_kind kind, uint64_t gap)
{
	fake.ours = true;
	for (unsigned i = 0; i < n; i++) {
		uint32_t seen = word;

		wait_seen(&waiter, &source, word);
		fake.event_at = fake.now + gap;
		if (!gap)
			let_it_happen();
		for (unsigned tries = 0; word == seen; tries++) {
			ck_assert_uint_lt(tries, 10);
			wait_for(&waiter, tries == 0, kind);
		}
	}
	fake.ours = false;
}

/* At the price that is given, also by who has never seen a spin fail. */
START_TEST(gaps_that_cost_less_than_a_sleep_are_spun)
{
	static const uint64_t gaps[] = { 2 * US, 10 * US, 30 * US, 100 * US,
					 300 * US };

	waits(200, WAIT_GUEST, gaps[_i]);
	fake.sleeps = 0;
	waits(1000, WAIT_GUEST, gaps[_i]);
	ck_assert_uint_le(fake.sleeps, 10);
}
END_TEST

START_TEST(gaps_that_cannot_pay_are_slept_and_not_spun)
{
	uint64_t spun;

	waits(200, WAIT_GUEST, 20 * MS);
	fake.sleeps = 0;
	spun = waiter.counters.spin_ns;
	waits(1000, WAIT_GUEST, 20 * MS);
	ck_assert_uint_ge(fake.sleeps, 990);
	/* the free looks, and little more */
	ck_assert_uint_le(waiter.counters.spin_ns - spun, 1000 * 2 * US);
}
END_TEST

START_TEST(a_busy_ring_reads_no_clock)
{
	waits(1000, WAIT_GUEST, 0);
	fake.readings = 0;
	waits(1000, WAIT_GUEST, 0);
	ck_assert_uint_eq(fake.readings, 0);
	ck_assert_uint_eq(fake.sleeps, 0);
}
END_TEST

START_TEST(a_change_of_pace_is_followed)
{
	waits(500, WAIT_GUEST, 20 * MS);
	waits(100, WAIT_GUEST, 10 * US);
	fake.sleeps = 0;
	waits(500, WAIT_GUEST, 10 * US);
	ck_assert_uint_le(fake.sleeps, 25);
	waits(100, WAIT_GUEST, 20 * MS);
	fake.sleeps = 0;
	waits(500, WAIT_GUEST, 20 * MS);
	ck_assert_uint_ge(fake.sleeps, 475);
}
END_TEST

START_TEST(guest_and_device_are_learned_apart)
{
	for (unsigned i = 0; i < 500; i++) {
		waits(1, WAIT_DEVICE, 10 * US);
		waits(1, WAIT_GUEST, 20 * MS);
	}
	fake.sleeps = 0;
	waits(1, WAIT_DEVICE, 10 * US);
	ck_assert_uint_eq(fake.sleeps, 0);
	waits(1, WAIT_GUEST, 20 * MS);
	ck_assert_uint_eq(fake.sleeps, 1);
}
END_TEST

START_TEST(a_slow_device_is_napped_for)
{
	uint64_t spun;

	waits(300, WAIT_DEVICE, 500 * US);
	fake.sleeps = fake.naps = 0;
	spun = waiter.counters.spin_ns;
	waits(300, WAIT_DEVICE, 500 * US);
	ck_assert_uint_ge(fake.naps, 250);
	ck_assert_uint_le(fake.sleeps, 30);
	/* the rest is spun, not all of it */
	ck_assert_uint_le(waiter.counters.spin_ns - spun, 300 * 250 * US);
}
END_TEST

START_TEST(nothing_exceeds_the_duration)
{
	struct wait_settings settings = waiter.settings;
	uint64_t start;

	settings.spin_ns = 5 * US;
	wait_configure(&waiter, &settings);
	waits(300, WAIT_GUEST, 10 * US);
	for (unsigned i = 0; i < 100; i++) {
		start = waiter.counters.spin_ns;
		waits(1, WAIT_GUEST, 10 * US);
		ck_assert_uint_le(waiter.counters.spin_ns - start, 7 * US);
	}
}
END_TEST

START_TEST(awake_for_nothing_the_wait_goes_on)
{
	uint64_t misses;

	waits(300, WAIT_GUEST, 30 * US);
	misses = waiter.counters.misses;
	fake.ours = true;
	wait_seen(&waiter, &source, word);
	fake.event_at = fake.now + 50 * MS;
	source.due_ns = fake.now + MS; /* something of its own */
	wait_for(&waiter, true, WAIT_GUEST);
	source.due_ns = CLOCK_NEVER;
	wait_for(&waiter, false, WAIT_GUEST);
	fake.ours = false;
	ck_assert_uint_le(waiter.counters.misses - misses, 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wait_adaptive");
	TCase *t = tcase_create("wait_adaptive");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, gaps_that_cost_less_than_a_sleep_are_spun, 0, 5);
	tcase_add_test(t, gaps_that_cannot_pay_are_slept_and_not_spun);
	tcase_add_test(t, a_busy_ring_reads_no_clock);
	tcase_add_test(t, a_change_of_pace_is_followed);
	tcase_add_test(t, guest_and_device_are_learned_apart);
	tcase_add_test(t, a_slow_device_is_napped_for);
	tcase_add_test(t, nothing_exceeds_the_duration);
	tcase_add_test(t, awake_for_nothing_the_wait_goes_on);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
