/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of requests: there are as many as slots, each with memory of its
 * own, warm ones first, and an idle pool holds none.
 */
#include <check.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ring/req.h"

enum { N = 32, PAGE = 4096, PAGES = REQ_BUFFER_SIZE / PAGE };

static struct req_pool pool;
static struct req *reqs[N];

static void setup(void)
{
	ck_assert_int_eq(req_pool_init(&pool, N, NULL), 0);
}

static void teardown(void)
{
	req_pool_fini(&pool);
}

static void get_all(void)
{
	for (unsigned i = 0; i < N; i++)
		reqs[i] = req_get(&pool);
}

static void put_all(void)
{
	for (unsigned i = 0; i < N; i++)
		req_put(&pool, reqs[i]);
}

/* Pages of @n buffers from the first that take memory. */
static unsigned resident(unsigned n)
{
	static unsigned char map[N * PAGES];
	unsigned sum = 0;

	ck_assert_int_eq(
		mincore(pool.buffers, (size_t)n * REQ_BUFFER_SIZE, map), 0);
	for (unsigned i = 0; i < n * PAGES; i++)
		sum += map[i] & 1;
	return sum;
}

START_TEST(there_are_as_many_as_slots)
{
	for (unsigned round = 0; round < 3; round++) {
		get_all();
		ck_assert_uint_eq(pool.used, N);
		for (unsigned i = 0; i < N; i++)
			for (unsigned k = 0; k < i; k++)
				if (reqs[i] == reqs[k])
					ck_abort_msg("%u is %u", i, k);
		put_all();
		ck_assert_uint_eq(pool.used, 0);
	}
}
END_TEST

static void get_one_more(void)
{
	get_all();
	req_get(&pool);
}

static void trim_while_used(void)
{
	req_get(&pool);
	req_pool_trim(&pool);
}

START_TEST(our_own_bugs_are_caught)
{
	static void (*const bugs[])(void) = { get_one_more, trim_while_used };
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		prctl(PR_SET_DUMPABLE, 0); /* no core file */
		close(STDERR_FILENO);
		bugs[_i]();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

START_TEST(each_has_an_aligned_buffer_of_its_own)
{
	get_all();
	for (unsigned i = 0; i < N; i++) {
		ck_assert_uint_eq((uintptr_t)reqs[i]->buf % PAGE, 0);
		memset(reqs[i]->buf, (int)i + 1, REQ_BUFFER_SIZE);
	}
	for (unsigned i = 0; i < N; i++) {
		uint8_t *buf = reqs[i]->buf;

		for (unsigned k = 0; k < REQ_BUFFER_SIZE; k++)
			if (buf[k] != i + 1)
				ck_abort_msg("%u: byte %u", i, k);
	}
	put_all();
}
END_TEST

START_TEST(a_buffer_holds_the_most_a_request_can_carry)
{
	ck_assert_uint_eq(REQ_BUFFER_SIZE, 11 * 4096);
}
END_TEST

START_TEST(warm_buffers_are_used_first)
{
	struct req *a = req_get(&pool), *b = req_get(&pool);

	req_put(&pool, a);
	ck_assert_ptr_eq(req_get(&pool), a);
	req_put(&pool, b);
	req_put(&pool, a);
	ck_assert_ptr_eq(req_get(&pool), a);
	ck_assert_ptr_eq(req_get(&pool), b);
	/* one at a time needs one buffer, however often */
	req_put(&pool, a);
	req_put(&pool, b);
	for (unsigned i = 0; i < 100; i++)
		req_put(&pool, req_get(&pool));
	ck_assert_uint_le(pool.dirty, 2);
}
END_TEST

START_TEST(a_request_forgets_the_last_ones_errors)
{
	struct req *req = req_get(&pool);

	req->err = -5;
	req->give_up_ns = 123;
	req->next = req;
	req_put(&pool, req);
	ck_assert_ptr_eq(req_get(&pool), req);
	ck_assert_int_eq(req->err, 0);
	ck_assert_uint_eq(req->give_up_ns, 0);
	ck_assert_ptr_null(req->next);
	req_put(&pool, req);
}
END_TEST

START_TEST(untouched_buffers_cost_no_memory)
{
	ck_assert_uint_eq(resident(N), 0);
	get_all();
	ck_assert_uint_eq(resident(N), 0);
	memset(reqs[3]->buf, 1, PAGE);
	ck_assert_uint_eq(resident(N), 1); /* and no huge page */
	put_all();
}
END_TEST

/* @_i requests were used at a time. */
START_TEST(a_trim_gives_all_memory_back)
{
	for (int i = 0; i < _i; i++)
		reqs[i] = req_get(&pool);
	for (int i = 0; i < _i; i++)
		memset(reqs[i]->buf, 0xEE, REQ_BUFFER_SIZE);
	/* the first taken goes back last: it is not the highest that counts */
	for (int i = _i; i-- > 0;)
		req_put(&pool, reqs[i]);
	ck_assert_uint_eq(resident(N), (unsigned)_i * PAGES);
	req_pool_trim(&pool);
	ck_assert_uint_eq(resident(N), 0);
	ck_assert_uint_eq(pool.dirty, 0);
	/* and what comes back carries nothing of another request's data */
	for (int i = 0; i < _i; i++) {
		reqs[i] = req_get(&pool);
		ck_assert_uint_eq(*(uint8_t *)reqs[i]->buf, 0);
	}
	for (int i = 0; i < _i; i++)
		req_put(&pool, reqs[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("req");
	TCase *tcase = tcase_create("req");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, there_are_as_many_as_slots);
	tcase_add_loop_test(tcase, our_own_bugs_are_caught, 0, 2);
	tcase_add_test(tcase, each_has_an_aligned_buffer_of_its_own);
	tcase_add_test(tcase, a_buffer_holds_the_most_a_request_can_carry);
	tcase_add_test(tcase, warm_buffers_are_used_first);
	tcase_add_test(tcase, a_request_forgets_the_last_ones_errors);
	tcase_add_test(tcase, untouched_buffers_cost_no_memory);
	tcase_add_loop_test(tcase, a_trim_gives_all_memory_back, 0, N + 1);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
