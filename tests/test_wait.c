/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping: in which order sources are asked, what ends a sleep and who is
 * told, and dates on every kind of kernel.  Spinning is test_wait_spin.c's.
 *
 * Lower bounds of times are exact; upper ones are generous, this may be a busy
 * machine.
 */
#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "tests/teller.h"

#define MS UINT64_C(1000000)
#define LONG (10 * CLOCK_SECOND) /* no sleep of a test that works is */

static void setup(void)
{
	tellers_open(false);
}

/* ---- the order that loses nothing ---- */

START_TEST(all_are_armed_then_it_sleeps_then_all_are_disarmed)
{
	teller_ring(b.fd);
	wait_for(&waiter, false, true);
	assert_said("aa ab ac wb da db dc ");
	ck_assert_uint_eq(waiter.counters.sleeps, 1);
	ck_assert_uint_eq(waiter.counters.arms, 1);
}
END_TEST

START_TEST(everyone_whose_descriptor_is_ready_is_told)
{
	teller_ring(a.fd);
	teller_ring(c.fd);
	wait_for(&waiter, true, true);
	assert_said("aa ab ac wa wc da db dc ");
}
END_TEST

START_TEST(a_source_with_work_prevents_the_sleep)
{
	static const char *const want[] = { "aa da ", "aa ab da db ",
					    "aa ab ac da db dc " };
	struct teller *const tellers[] = { &a, &b, &c };

	tellers[_i]->busy = true;
	wait_for(&waiter, false, true); /* or the test never ends */
	assert_said(want[_i]);
	ck_assert_uint_eq(waiter.counters.sleeps, 0);
	ck_assert_uint_eq(waiter.counters.arms, 1);
	tellers[_i]->busy = false;
	teller_ring(a.fd);
	wait_for(&waiter, false, true);
	assert_said("aa ab ac wa da db dc ");
}
END_TEST

START_TEST(a_source_needs_none_of_its_calls)
{
	a.source.arm = NULL;
	a.source.disarm = NULL;
	a.source.woken = NULL;
	teller_ring(a.fd);
	wait_for(&waiter, false, true);
	assert_said("ab ac db dc ");
}
END_TEST

static void *ring_later(void *arg)
{
	usleep(20000);
	eventfd_write(*(int *)arg, 1);
	return NULL;
}

START_TEST(an_event_wakes_a_sleeper)
{
	pthread_t thread;

	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(
			pthread_create(&thread, NULL, ring_later, &b.fd), 0);
		wait_for(&waiter, false, true);
		assert_said("aa ab ac wb da db dc ");
		pthread_join(thread, NULL);
	}
	ck_assert_uint_eq(waiter.counters.sleeps, 3);
}
END_TEST

/* ---- descriptors and sources come and go ---- */

START_TEST(a_oneshot_is_silent_until_it_is_enabled_again)
{
	uint32_t events = EPOLLIN | EPOLLONESHOT;

	wait_remove_fd(&waiter, a.fd);
	ck_assert_int_eq(wait_add_fd(&waiter, &a.source, a.fd, events), 0);
	teller_ring(a.fd);
	wait_for(&waiter, false, true);
	assert_said("aa ab ac wa da db dc ");
	teller_ring(a.fd);
	ck_assert(!epoll_ready(0));
	ck_assert_int_eq(wait_rearm_fd(&waiter, &a.source, a.fd, events), 0);
	wait_for(&waiter, false, true); /* what came meanwhile wakes now */
	assert_said("aa ab ac wa da db dc ");
}
END_TEST

START_TEST(who_was_removed_is_asked_and_told_nothing)
{
	wait_remove_fd(&waiter, b.fd);
	wait_remove(&waiter, &b.source);
	b.source.due_ns = 1;
	teller_ring(b.fd);
	teller_ring(c.fd);
	wait_for(&waiter, false, true);
	assert_said("aa ac wc da dc ");
}
END_TEST

START_TEST(there_is_room_for_so_many_sources)
{
	static struct wait_source more[WAIT_SOURCES_MAX];
	unsigned n = 3; /* the tellers */

	for (; n < WAIT_SOURCES_MAX; n++) {
		more[n].due_ns = CLOCK_NEVER;
		ck_assert_int_eq(wait_add(&waiter, &more[n], NULL), 0);
	}
	ck_assert_int_eq(wait_add(&waiter, &more[0], NULL), -ENOSPC);
	while (--n > 2)
		wait_remove(&waiter, &more[n]);
	ck_assert_uint_eq(waiter.nr_words, 3); /* the others cost no look */
	ck_assert_int_eq(wait_add(&waiter, &more[3], NULL), 0);
}
END_TEST

START_TEST(errors_of_epoll_come_back)
{
	ck_assert_int_eq(wait_add_fd(&waiter, &a.source, a.fd, EPOLLIN),
			 -EEXIST);
	ck_assert_int_eq(wait_add_fd(&waiter, &a.source, -1, EPOLLIN), -EBADF);
	wait_remove_fd(&waiter, a.fd);
	ck_assert_int_eq(wait_rearm_fd(&waiter, &a.source, a.fd, EPOLLIN),
			 -ENOENT);
}
END_TEST

/* ---- dates, on every kind of kernel ---- */

static void make_epoll_pwait2_fail(int err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 441, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = 4, .filter = filter };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

static const struct kernel {
	const char *name;
	int pwait2_err; /* 0: as it is here */
	bool no_pwait2; /* found out before */
} kernels[] = {
	{ "this one", 0, false },
	{ "before 5.11", ENOSYS, false },
	{ "before 5.11, later", 0, true },
	{ "in a container that knows no such call", EPERM, false },
};
#define NR_KERNELS ((int)(sizeof(kernels) / sizeof(kernels[0])))

static void use_kernel(const struct kernel *k)
{
	if (k->pwait2_err)
		make_epoll_pwait2_fail(k->pwait2_err);
	waiter.no_pwait2 = k->no_pwait2;
}

START_TEST(a_date_ends_a_sleep_and_not_too_early)
{
	static const uint64_t sleeps[] = { 0, 1, 999, 300000, 12345678 };
	uint64_t start, now;

	use_kernel(&kernels[_i]);
	for (unsigned i = 0; i < sizeof(sleeps) / sizeof(sleeps[0]); i++) {
		start = clock_ns();
		b.source.due_ns = start + sleeps[i];
		do
			wait_for(&waiter, false, true);
		while (clock_ns() < b.source.due_ns);
		now = clock_ns();
		ck_assert_msg(now - start < LONG, "%s", kernels[_i].name);
		/* it slept rather than tried: one more for a new kernel */
		ck_assert_msg(waiter.counters.sleeps <= i + 2, "%s: %llu",
			      kernels[_i].name,
			      (unsigned long long)waiter.counters.sleeps);
		memset(said, 0, sizeof(said));
	}
}
END_TEST

START_TEST(a_date_that_has_passed_ends_a_sleep)
{
	use_kernel(&kernels[_i]);
	b.source.due_ns = clock_ns() - MS;
	wait_for(&waiter, false, true);
	b.source.due_ns = 1;
	wait_for(&waiter, false, true);
	b.source.due_ns = 0; /* the first of all dates, not none */
	wait_for(&waiter, false, true);
}
END_TEST

START_TEST(the_earliest_date_counts)
{
	uint64_t start = clock_ns();

	use_kernel(&kernels[_i]);
	a.source.due_ns = start + 2 * LONG;
	b.source.due_ns = start + MS;
	c.source.due_ns = start + 3 * LONG;
	wait_for(&waiter, false, true);
	ck_assert_uint_lt(clock_ns() - start, LONG);
}
END_TEST

START_TEST(a_date_set_while_arming_counts)
{
	uint64_t start = clock_ns();

	use_kernel(&kernels[_i]);
	c.sets_due = start + MS;
	wait_for(&waiter, false, true);
	ck_assert_uint_ge(clock_ns(), start);
	ck_assert_uint_lt(clock_ns() - start, LONG);
}
END_TEST

START_TEST(an_event_comes_before_a_date)
{
	uint64_t start = clock_ns();
	pthread_t thread;

	use_kernel(&kernels[_i]);
	a.source.due_ns = start + 2 * LONG;
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(
			pthread_create(&thread, NULL, ring_later, &b.fd), 0);
		wait_for(&waiter, false, true);
		pthread_join(thread, NULL);
		ck_assert_uint_lt(clock_ns() - start, LONG);
		/* a kernel's first sleep may be two */
		assert_said("aa ab ac wb da db dc ");
	}
}
END_TEST

/* ---- another way to sleep: with I/O in flight ---- */

static struct {
	unsigned calls;
	uint64_t timeout;
	int answer;
} hook;

static int hook_sleep(void *arg, uint64_t timeout_ns)
{
	ck_assert_ptr_eq(arg, &hook);
	say('s', '!');
	hook.calls++;
	hook.timeout = timeout_ns;
	return hook.answer;
}

static const struct {
	const char *why;
	int answer;
	const char *said;
} answers[] = {
	{ "an I/O", 0, "aa ab ac s! da db dc " },
	{ "the descriptors", 1, "aa ab ac s! wb da db dc " },
	{ "an error: better look", -EINTR, "aa ab ac s! wb da db dc " },
};

START_TEST(the_sleep_hook_says_whether_to_look_at_descriptors)
{
	wait_set_sleep(&waiter, hook_sleep, &hook);
	teller_ring(b.fd);
	hook.answer = answers[_i].answer;
	wait_for(&waiter, false, true);
	ck_assert_msg(!strcmp(said, answers[_i].said), "%s: %s",
		      answers[_i].why, said);
	ck_assert_uint_eq(hook.calls, 1);
	ck_assert_uint_eq(hook.timeout, CLOCK_NEVER);
	ck_assert_uint_eq(waiter.counters.sleeps, 1);
	/* what was not looked at is not lost */
	wait_set_sleep(&waiter, NULL, NULL);
	if (!strchr(said, 'w')) {
		memset(said, 0, sizeof(said));
		wait_for(&waiter, false, true);
		assert_said("aa ab ac wb da db dc ");
	}
	ck_assert_uint_eq(hook.calls, 1);
}
END_TEST

START_TEST(the_sleep_hook_knows_the_date)
{
	uint64_t start = clock_ns(), took;

	wait_set_sleep(&waiter, hook_sleep, &hook);
	b.source.due_ns = start + LONG;
	wait_for(&waiter, false, true);
	took = clock_ns() - start;
	ck_assert_uint_le(hook.timeout, LONG);
	ck_assert_uint_ge(hook.timeout + took, LONG);
	b.source.due_ns = start;
	wait_for(&waiter, false, true);
	ck_assert_uint_eq(hook.timeout, 0);
	/* nor does it end a wait that has work */
	a.busy = true;
	wait_for(&waiter, false, true);
	ck_assert_uint_eq(hook.calls, 2);
}
END_TEST

/* ---- counters ---- */

START_TEST(counters_are_read_field_by_field)
{
	struct wait_counters from = { 1, 2, 3, 4, 5, 6 }, to;

	ck_assert_uint_eq(sizeof(from), 6 * sizeof(uint64_t));
	memset(&to, 0xA5, sizeof(to));
	wait_counters_read(&from, &to);
	ck_assert_mem_eq(&from, &to, sizeof(from));
}
END_TEST

static void add(TCase *tcase)
{
	tcase_add_test(tcase,
		       all_are_armed_then_it_sleeps_then_all_are_disarmed);
	tcase_add_test(tcase, everyone_whose_descriptor_is_ready_is_told);
	tcase_add_loop_test(tcase, a_source_with_work_prevents_the_sleep, 0, 3);
	tcase_add_test(tcase, a_source_needs_none_of_its_calls);
	tcase_add_test(tcase, an_event_wakes_a_sleeper);
	tcase_add_test(tcase, a_oneshot_is_silent_until_it_is_enabled_again);
	tcase_add_test(tcase, who_was_removed_is_asked_and_told_nothing);
	tcase_add_test(tcase, there_is_room_for_so_many_sources);
	tcase_add_test(tcase, errors_of_epoll_come_back);
	tcase_add_loop_test(tcase, a_date_ends_a_sleep_and_not_too_early, 0,
			    NR_KERNELS);
	tcase_add_loop_test(tcase, a_date_that_has_passed_ends_a_sleep, 0,
			    NR_KERNELS);
	tcase_add_loop_test(tcase, the_earliest_date_counts, 0, NR_KERNELS);
	tcase_add_loop_test(tcase, a_date_set_while_arming_counts, 0,
			    NR_KERNELS);
	tcase_add_loop_test(tcase, an_event_comes_before_a_date, 0, NR_KERNELS);
	tcase_add_loop_test(tcase,
			    the_sleep_hook_says_whether_to_look_at_descriptors,
			    0, 3);
	tcase_add_test(tcase, the_sleep_hook_knows_the_date);
	tcase_add_test(tcase, counters_are_read_field_by_field);
}

int main(void)
{
	Suite *suite = suite_create("wait");
	TCase *tcase = tcase_create("wait");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 30);
	tcase_add_checked_fixture(tcase, setup, tellers_close);
	add(tcase);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
