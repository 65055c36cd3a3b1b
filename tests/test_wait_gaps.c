/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the wait engine takes down of its waits, in every mode, and "poll now".
 *
 * On the real clock: lower bounds are exact, upper ones follow from what this
 * test itself measures around a wait.
 */
#include <check.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "tests/teller.h"

#define MS UINT64_C(1000000)
#define WAKE (10 * MS) /* absurdly much: what is taken out shows */
#define GAP_US 30000

static struct gaps gaps;

static void configure(enum wait_mode mode, uint64_t spin_ns)
{
	struct wait_settings settings = { .mode = mode,
					  .spin_ns = spin_ns,
					  .price = POLICY_ONE,
					  .w0_ns = WAKE };

	wait_configure(&waiter, &settings);
}

static void setup(void)
{
	tellers_open(false);
	memset(&gaps, 0, sizeof(gaps));
	waiter.gaps = &gaps;
}

static bool waits; /* or is just about to */

static void *ring_later(void *arg)
{
	while (!__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
		usleep(100);
	usleep(GAP_US);
	eventfd_write(*(int *)arg, 1);
	return NULL;
}

/* A wait that an event ends after GAP_US.  How long it took, by our clock. */
static uint64_t wait_for_event(void)
{
	uint64_t start;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, ring_later, &b.fd), 0);
	__atomic_store_n(&waits, true, __ATOMIC_RELEASE);
	start = clock_ns();
	wait_for(&waiter, true, WAIT_GUEST);
	start = clock_ns() - start;
	pthread_join(thread, NULL);
	waits = false;
	memset(said, 0, sizeof(said));
	return start;
}

/* The next wait ends at once: whatever was open before it is closed by it. */
static void close_wait(void)
{
	a.busy = true;
	wait_for(&waiter, true, WAIT_GUEST);
	a.busy = false;
	memset(said, 0, sizeof(said));
}

static uint64_t count(enum wait_kind kind, uint64_t *ns)
{
	const struct gaps_histogram *of = &gaps.of[gaps_index(kind)];
	uint64_t n = 0;

	*ns = 0;
	for (unsigned i = 0; i < GAPS_BINS; i++) {
		n += of->bins[i].n;
		*ns += of->bins[i].ns;
	}
	return n;
}

static const struct {
	enum wait_mode mode;
	uint64_t spin_ns;
} modes[] = {
	{ WAIT_EVENT, 0 },
	{ WAIT_FIXED, MS },
	{ WAIT_ADAPTIVE, MS },
};

START_TEST(a_sleep_is_recorded_without_its_wake)
{
	uint64_t took, ns;

	configure(modes[_i].mode, modes[_i].spin_ns);
	took = wait_for_event();
	ck_assert_uint_eq(count(WAIT_GUEST, &ns), 0); /* not yet known */
	close_wait();
	ck_assert_uint_ge(count(WAIT_GUEST, &ns), 1);
	ck_assert_uint_gt(ns, modes[_i].spin_ns);
	ck_assert_uint_le(ns, took - WAKE + MS);
}
END_TEST

START_TEST(a_wake_for_nothing_does_not_end_a_wait)
{
	uint64_t ns;

	configure(modes[_i].mode, modes[_i].spin_ns);
	wait_for_event();
	eventfd_write(b.fd, 1);
	wait_for(&waiter, false, WAIT_GUEST); /* goes on */
	memset(said, 0, sizeof(said));
	ck_assert_uint_eq(count(WAIT_GUEST, &ns), 0);
	close_wait();
	/* the one, and perhaps that which closed it */
	ck_assert_uint_le(count(WAIT_GUEST, &ns), 2);
	/* as long as the event took, but for a CPU that was lost before */
	ck_assert_uint_ge(ns, (GAP_US * UINT64_C(1000) - WAKE) / 4);
}
END_TEST

START_TEST(nobody_s_waits_are_not_recorded)
{
	uint64_t ns;

	configure(modes[_i].mode, modes[_i].spin_ns);
	for (unsigned i = 0; i < 3; i++) {
		eventfd_write(b.fd, 1);
		wait_for(&waiter, true, WAIT_NOBODY);
		memset(said, 0, sizeof(said));
	}
	ck_assert_uint_eq(count(WAIT_GUEST, &ns), 0);
	ck_assert_uint_eq(count(WAIT_DEVICE, &ns), 0);
	ck_assert_uint_eq(count(WAIT_BOTH, &ns), 0);
}
END_TEST

START_TEST(work_that_arming_finds_is_a_wait_of_no_time)
{
	uint64_t ns;

	configure(WAIT_EVENT, 0);
	close_wait();
	ck_assert_uint_eq(count(WAIT_GUEST, &ns), 1);
	ck_assert_uint_eq(ns, 0);
}
END_TEST

/* ---- poll now ---- */

START_TEST(poll_now_spins_until_its_window_is_over_whatever_the_mode)
{
	uint64_t start, spun;

	configure(modes[_i].mode, modes[_i].spin_ns);
	/* whoever else wants the CPU ends a spin: one good window will do */
	for (unsigned i = 0; i < 100; i++) {
		spun = waiter.counters.spin_ns;
		start = clock_ns();
		wait_force(&waiter, 5 * MS);
		eventfd_write(b.fd, 1);
		wait_for(&waiter, false, WAIT_GUEST);
		memset(said, 0, sizeof(said));
		spun = waiter.counters.spin_ns - spun;
		ck_assert_uint_le(spun, clock_ns() - start);
		if (spun >= 4 * MS)
			break;
		usleep(20000);
	}
	ck_assert_uint_ge(spun, 4 * MS);
	ck_assert_uint_ge(waiter.counters.misses, 1);
	/* over: as ever */
	usleep(6000);
	eventfd_write(b.fd, 1);
	wait_for(&waiter, false, WAIT_NOBODY);
	memset(said, 0, sizeof(said));
	spun = waiter.counters.spin_ns;
	configure(WAIT_EVENT, 0);
	for (unsigned i = 0; i < 3; i++) {
		eventfd_write(b.fd, 1);
		wait_for(&waiter, true, WAIT_GUEST);
		memset(said, 0, sizeof(said));
	}
	ck_assert_uint_eq(waiter.counters.spin_ns, spun);
}
END_TEST

START_TEST(poll_now_is_not_for_nobody)
{
	wait_force(&waiter, 5 * MS);
	eventfd_write(b.fd, 1);
	wait_for(&waiter, true, WAIT_NOBODY);
	ck_assert_uint_eq(waiter.counters.spin_ns, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wait_gaps");
	TCase *tests = tcase_create("wait_gaps");
	SRunner *runner;
	int failed, n = sizeof(modes) / sizeof(modes[0]);

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, tellers_close);
	tcase_add_loop_test(tests, a_sleep_is_recorded_without_its_wake, 0, n);
	tcase_add_loop_test(tests, a_wake_for_nothing_does_not_end_a_wait, 0,
			    n);
	tcase_add_loop_test(tests, nobody_s_waits_are_not_recorded, 0, n);
	tcase_add_test(tests, work_that_arming_finds_is_a_wait_of_no_time);
	tcase_add_loop_test(
		tests,
		poll_now_spins_until_its_window_is_over_whatever_the_mode, 0,
		n);
	tcase_add_test(tests, poll_now_is_not_for_nobody);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
