/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client against tapdisks that hang up, dawdle, talk nonsense or are
 * interrupted.  The tapdisk is a thread of the test behind a real socket.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/host.h"
#include "tools/ctl/client.h"

#define PID 4711
#define MS UINT64_C(1000000)

/* What the tapdisk does with its one connection, in this order. */
struct behaviour {
	size_t read; /* bytes of the request */
	unsigned reply_bytes; /* of a CLOSE_RSP */
	unsigned drip_us; /* pause before each byte */
	bool stay; /* do not hang up before the client does */
};

static char dir[64], path[96];
static int listener;
static struct behaviour behaviour;
static struct wire_message answer;
static pthread_t thread;

static void serve_one(int fd)
{
	const char *bytes = (const char *)&answer;
	char buf[1024];
	size_t have = 0;
	ssize_t n = 1;

	while (have < behaviour.read && n > 0) {
		n = read(fd, buf, behaviour.read - have);
		have += n > 0 ? (size_t)n : 0;
	}
	for (unsigned i = 0; i < behaviour.reply_bytes; i++) {
		if (behaviour.drip_us)
			usleep(behaviour.drip_us);
		if (send(fd, bytes + i, 1, MSG_NOSIGNAL) != 1)
			return;
	}
	while (behaviour.stay && read(fd, buf, sizeof(buf)) > 0)
		;
}

static void *serve(void *unused)
{
	sigset_t all;
	int fd;

	(void)unused;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	fd = accept(listener, NULL, NULL);
	if (fd >= 0) {
		serve_one(fd);
		close(fd);
	}
	return NULL;
}

static void start(const struct behaviour *what)
{
	behaviour = *what;
	memset(&answer, 0, sizeof(answer));
	answer.type = WIRE_CLOSE_RSP;
	ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
}

/* In the parent, so that a failed test leaves nothing either. */
static void make_directory(void)
{
	strcpy(dir, "/tmp/test_client.XXXXXX");
	if (!mkdtemp(dir))
		abort();
	setenv("TAPDISK_RUN_DIR", dir, 1);
	snprintf(path, sizeof(path), "%s/ctl%d", dir, PID);
}

static void remove_directory(void)
{
	unlink(path);
	rmdir(dir);
}

static void setup(void)
{
	listener = host_listen(path, 8);
	ck_assert_int_ge(listener, 0);
	/* the thread blocks in accept */
	ck_assert_int_eq(fcntl(listener, F_SETFL, 0), 0);
}

static uint64_t elapsed_ms(uint64_t since)
{
	return (clock_ns() - since) / MS;
}

static int ask(int64_t timeout_ms, struct wire_message *reply)
{
	struct client_request request;

	client_request_init(&request, WIRE_CLOSE, 3);
	return client_call(PID, timeout_ms, &request, reply);
}

static const struct {
	const char *why;
	struct behaviour what;
	int64_t timeout_ms;
	int want;
} cases[] = {
	{ "answers", { 544, 544, 0, false }, CLIENT_FOREVER, 0 },
	{ "answers and stays", { 544, 544, 0, true }, CLIENT_FOREVER, 0 },
	{ "answers in pieces", { 544, 544, 100, true }, 60000, 0 },
	{ "hangs up at once", { 0, 0, 0, false }, CLIENT_FOREVER, -EPROTO },
	{ "hangs up", { 544, 0, 0, false }, CLIENT_FOREVER, -EPROTO },
	{ "hangs up half way", { 544, 543, 0, false }, 60000, -EPROTO },
	{ "answers before it read", { 0, 544, 0, false }, 60000, 0 },
	{ "is silent", { 544, 0, 0, true }, 200, -ETIMEDOUT },
	{ "does not even read", { 0, 0, 0, true }, 200, -ETIMEDOUT },
	{ "stops half way", { 544, 100, 0, true }, 200, -ETIMEDOUT },
	{ "drips", { 544, 544, 5000, true }, 200, -ETIMEDOUT },
};
#define NR_CASES ((int)(sizeof(cases) / sizeof(cases[0])))

START_TEST(client_ends_whatever_the_tapdisk_does)
{
	struct wire_message reply;
	uint64_t since = clock_ns();
	int err;

	start(&cases[_i].what);
	err = ask(cases[_i].timeout_ms, &reply);
	ck_assert_msg(err == cases[_i].want, "%s: %s", cases[_i].why,
		      strerror(-err));
	if (err == -ETIMEDOUT)
		ck_assert_uint_ge(elapsed_ms(since), 199);
	ck_assert_uint_lt(elapsed_ms(since), 20000);
	ck_assert_int_eq(reply.type, err ? 0 : WIRE_CLOSE_RSP);
	pthread_join(thread, NULL);
}
END_TEST

static void ignore(int signo)
{
	(void)signo;
}

/* Field: T01 */
START_TEST(signals_neither_end_nor_lengthen_a_call)
{
	static const struct behaviour whats[] = { { 544, 544, 1000, true },
						  { 544, 0, 0, true } };
	const struct itimerval often = { { 0, 500 }, { 0, 500 } };
	const struct itimerval never = { 0 };
	struct sigaction action = { .sa_handler = ignore }; /* no restart */
	struct wire_message reply;
	uint64_t since = clock_ns();
	int err;

	sigaction(SIGALRM, &action, NULL);
	start(&whats[_i]);
	setitimer(ITIMER_REAL, &often, NULL);
	err = ask(_i ? 300 : 60000, &reply);
	setitimer(ITIMER_REAL, &never, NULL);
	ck_assert_int_eq(err, _i ? -ETIMEDOUT : 0);
	ck_assert_uint_lt(elapsed_ms(since), 30000);
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(a_full_backlog_is_waited_for_but_not_for_ever)
{
	struct wire_message reply;
	struct client clients[64];
	int n = 0, err;

	while (n < 64 && client_open(PID, 0, &clients[n]) == 0)
		n++;
	ck_assert_int_lt(n, 64);
	err = ask(100, &reply);
	for (int i = 0; i < n; i++)
		client_close(&clients[i]);
	ck_assert_int_eq(err, -ETIMEDOUT);
}
END_TEST

START_TEST(who_is_not_there_is_told_from_who_died)
{
	struct wire_message reply;
	struct client client;

	ck_assert_int_eq(client_open(PID + 1, 100, &client), -ENOENT);
	ck_assert_int_eq(client_open(0, 100, &client), -EINVAL);
	ck_assert_int_eq(client_open(-5, 100, &client), -EINVAL);
	close(listener);
	ck_assert_int_eq(ask(100, &reply), -ECONNREFUSED);
	ck_assert_int_eq(reply.type, 0);
}
END_TEST

START_TEST(a_text_longer_than_any_is_nonsense)
{
	const struct behaviour what = { 544, 544, 0, true };
	struct client_request request;
	struct wire_message reply;
	char *text = NULL;
	size_t size;

	start(&what);
	answer.type = WIRE_STATS_RSP;
	answer.u.info.length = UINT64_MAX;
	client_request_init(&request, WIRE_STATS, 0);
	ck_assert_int_eq(client_call_text(PID, 60000, &request, &reply, &text,
					  &size),
			 -EPROTO);
	ck_assert_ptr_null(text);
	pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client");
	TCase *tests = tcase_create("client");
	SRunner *runner;
	int failed;

	tcase_add_unchecked_fixture(tests, make_directory, remove_directory);
	tcase_add_checked_fixture(tests, setup, NULL);
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, client_ends_whatever_the_tapdisk_does, 0,
			    NR_CASES);
	tcase_add_loop_test(tests, signals_neither_end_nor_lengthen_a_call, 0,
			    2);
	tcase_add_test(tests, a_full_backlog_is_waited_for_but_not_for_ever);
	tcase_add_test(tests, who_is_not_there_is_told_from_who_died);
	tcase_add_test(tests, a_text_longer_than_any_is_nonsense);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
