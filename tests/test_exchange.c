/* SPDX-License-Identifier: BSD-3-Clause */
/* One exchange with a tapdisk that answers in every way it should not. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/host.h"
#include "tests/scratch.h"
#include "tools/ctl/exchange.h"

#define PID 1000001
#define TIMEOUT_MS 20000 /* of what should not need it */

static struct loop *loop;
static struct exchange exchange;
static struct {
	struct loop_watch listener, client;
	size_t wanted; /* bytes of request before the answer */
	size_t got;
	unsigned char answer[WIRE_SIZE + 70000];
	size_t size, sent, step;
	bool hang_up; /* after the answer */
} server;
static int result, calls;
static char text[64];

static void end(struct loop_watch *watch)
{
	if (watch->fd < 0)
		return;
	loop_unwatch(loop, watch);
	close(watch->fd);
	watch->fd = -1;
}

static void serve(void *arg, uint32_t events)
{
	static unsigned char sink[70000];
	size_t n;
	ssize_t got;

	(void)arg;
	if (events & EPOLLIN) {
		got = recv(server.client.fd, sink, sizeof(sink), MSG_DONTWAIT);
		if (got <= 0) {
			end(&server.client);
			return;
		}
		server.got += (size_t)got;
	}
	if (server.got < server.wanted)
		return;
	n = server.size - server.sent;
	if (n > server.step)
		n = server.step;
	server.sent += (size_t)send(
		server.client.fd, server.answer + server.sent, n, MSG_NOSIGNAL);
	if (server.sent < server.size)
		loop_watch(loop, &server.client, EPOLLIN | EPOLLOUT);
	else if (server.hang_up)
		end(&server.client);
	else
		loop_watch(loop, &server.client, EPOLLIN);
}

static void accept_one(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	server.client.fd =
		accept4(server.listener.fd, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(server.client.fd, 0);
	ck_assert_int_eq(loop_watch(loop, &server.client, EPOLLIN), 0);
}

static void done(struct exchange *x, int err)
{
	calls++;
	result = err;
	snprintf(text, sizeof(text), "%s", x->text ? x->text : "(none)");
	loop_stop(loop);
}

static void stop(void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void run_ms(unsigned ms)
{
	struct loop_timer timer = { .fn = stop };

	loop_timer_set(loop, &timer, ms * UINT64_C(1000000));
	ck_assert_int_eq(loop_run(loop), 0);
	loop_timer_clear(loop, &timer);
}

static void start(uint16_t type, uint64_t timeout_ms)
{
	struct client_request request;

	client_request_init(&request, type, 0);
	exchange_start(&exchange, loop, PID, &request, timeout_ms);
}

static void answer(uint16_t type, uint64_t length, size_t size)
{
	struct wire_message m = { .type = type };

	m.u.info.length = length;
	memcpy(server.answer, &m, sizeof(m));
	memset(server.answer + sizeof(m), 'x',
	       sizeof(server.answer) - sizeof(m));
	server.size = size;
}

static void setup(void)
{
	char dir[100], path[128];

	scratch_path(dir, sizeof(dir), "run");
	setenv("TAPDISK_RUN_DIR", dir, 1);
	host_mkdir(dir, 0700);
	snprintf(path, sizeof(path), "%s/ctl%d", dir, PID);
	ck_assert_int_eq(loop_open(&loop), 0);
	server.listener.fd = host_listen(path, 4);
	ck_assert_int_ge(server.listener.fd, 0);
	server.listener.fn = accept_one;
	server.client.fn = serve;
	server.client.fd = -1;
	server.wanted = WIRE_SIZE;
	server.step = SIZE_MAX;
	ck_assert_int_eq(loop_watch(loop, &server.listener, EPOLLIN), 0);
	exchange.done = done;
}

static void teardown(void)
{
	end(&server.client);
	end(&server.listener);
	loop_close(loop);
}

static const struct {
	const char *why;
	uint16_t type; /* of the request */
	uint16_t reply;
	uint64_t length; /* of text, or the first word */
	size_t size; /* bytes that come */
	bool hang_up;
	int want;
	const char *text;
} cases[] = {
	{ "plain", WIRE_PID, WIRE_PID_RSP, 0, WIRE_SIZE, true, 0, "(none)" },
	{ "text", WIRE_HELLO, WIRE_HELLO + 1, 3, WIRE_SIZE + 3, true, 0,
	  "xxx" },
	{ "no text", WIRE_HELLO, WIRE_HELLO + 1, 0, WIRE_SIZE, true, 0,
	  "(none)" },
	{ "the longest text", WIRE_HELLO, WIRE_HELLO + 1, WIRE_JSON_MAX,
	  WIRE_SIZE + WIRE_JSON_MAX, true, 0, NULL },
	{ "too much text", WIRE_HELLO, WIRE_HELLO + 1, WIRE_JSON_MAX + 1,
	  WIRE_SIZE + WIRE_JSON_MAX + 1, true, -EPROTO, NULL },
	{ "text beyond memory", WIRE_HELLO, WIRE_HELLO + 1, UINT64_MAX,
	  WIRE_SIZE, true, -EPROTO, NULL },
	{ "another reply", WIRE_HELLO, WIRE_PID_RSP, 0, WIRE_SIZE, true,
	  -EPROTO, NULL },
	{ "an error without a number", WIRE_PID, WIRE_ERROR, 0, WIRE_SIZE, true,
	  -EPROTO, NULL },
	{ "nothing", WIRE_PID, 0, 0, 0, true, -EPROTO, NULL },
	{ "half a reply", WIRE_PID, WIRE_PID_RSP, 0, WIRE_SIZE / 2, true,
	  -EPROTO, NULL },
	{ "half a text", WIRE_HELLO, WIRE_HELLO + 1, 4, WIRE_SIZE + 2, true,
	  -EPROTO, NULL },
	{ "silence", WIRE_PID, 0, 0, 0, false, -ETIMEDOUT, NULL },
	{ "silence after a while", WIRE_HELLO, WIRE_HELLO + 1, 4, WIRE_SIZE + 2,
	  false, -ETIMEDOUT, NULL },
};

static const size_t steps[] = { SIZE_MAX, 1, 543, 5000 };
#define COUNT(table) (sizeof(table) / sizeof(table[0]))

START_TEST(says_what_became_of_it)
{
	size_t which = (size_t)_i / COUNT(steps);
	unsigned fds = scratch_descriptors();

	server.step = steps[(size_t)_i % COUNT(steps)];
	server.hang_up = cases[which].hang_up;
	answer(cases[which].reply, cases[which].length, cases[which].size);
	start(cases[which].type,
	      cases[which].want == -ETIMEDOUT ? 100 : TIMEOUT_MS);
	ck_assert_int_eq(calls, 0); /* never from in there */
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_msg(calls == 1 && result == cases[which].want, "%s: %d",
		      cases[which].why, result);
	if (cases[which].text)
		ck_assert_str_eq(text, cases[which].text);
	if (result < 0)
		ck_assert_uint_eq(exchange.reply.type == WIRE_ERROR,
				  cases[which].reply == WIRE_ERROR);
	end(&server.client);
	ck_assert_uint_eq(scratch_descriptors(), fds);
}
END_TEST

START_TEST(tells_a_refusal_from_a_failure)
{
	struct wire_message m = { .type = WIRE_ERROR };

	m.u.response.error = EBUSY;
	memcpy(server.answer, &m, sizeof(m));
	server.size = sizeof(m);
	start(WIRE_ATTACH, TIMEOUT_MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(result, -EBUSY);
	ck_assert_uint_eq(exchange.reply.type, WIRE_ERROR);
}
END_TEST

START_TEST(finds_nobody_there)
{
	char path[200];

	end(&server.listener); /* it died, and its socket stays */
	start(WIRE_PID, TIMEOUT_MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(result, -ECONNREFUSED);
	snprintf(path, sizeof(path), "%s/ctl%d", host_run_dir(), PID);
	host_unlink(path);
	start(WIRE_PID, TIMEOUT_MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(result, -ENOENT);
}
END_TEST

/* A stopped tapdisk whose backlog is full: connect(2) would wait. */
START_TEST(waits_for_no_full_backlog)
{
	int fds[64], n = 0;
	char path[200];

	loop_unwatch(loop, &server.listener);
	ck_assert_int_eq(listen(server.listener.fd, 0), 0);
	snprintf(path, sizeof(path), "%s/ctl%d", host_run_dir(), PID);
	while (n < 64 &&
	       (fds[n] = host_connect(path, SOCK_STREAM | SOCK_NONBLOCK)) >= 0)
		n++;
	ck_assert_int_lt(n, 64);
	start(WIRE_PID, 100);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(result, -ETIMEDOUT);
	/* and one that gets on with it is served */
	start(WIRE_PID, TIMEOUT_MS);
	run_ms(30);
	ck_assert_int_eq(calls, 1);
	while (n)
		close(fds[--n]);
	answer(WIRE_PID_RSP, 0, WIRE_SIZE);
	for (;;) {
		int fd = accept4(server.listener.fd, NULL, NULL, SOCK_NONBLOCK);
		char c;

		ck_assert_int_ge(fd, 0);
		/* those that hung up are not it */
		if (recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) == 0) {
			close(fd);
			run_ms(20);
			continue;
		}
		server.client.fd = fd;
		break;
	}
	ck_assert_int_eq(loop_watch(loop, &server.client, EPOLLIN), 0);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(result, 0);
}
END_TEST

START_TEST(sends_the_longest_request_to_a_slow_reader)
{
	struct client_request request;

	client_request_init(&request, WIRE_POLLING, 0);
	request.extra = calloc(1, WIRE_JSON_MAX);
	ck_assert_ptr_nonnull(request.extra);
	request.extra_size = WIRE_JSON_MAX;
	request.message.u.info.length = WIRE_JSON_MAX;
	server.wanted = WIRE_SIZE + WIRE_JSON_MAX;
	answer(WIRE_POLLING + 1, 0, WIRE_SIZE);
	exchange_start(&exchange, loop, PID, &request, TIMEOUT_MS);
	ck_assert_ptr_null(request.extra); /* moved */
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(result, 0);
	ck_assert_uint_eq(server.got, WIRE_SIZE + WIRE_JSON_MAX);
}
END_TEST

START_TEST(is_silent_once_cancelled)
{
	unsigned fds = scratch_descriptors();

	exchange_cancel(&exchange); /* harmless before the first use */
	for (int i = 0; i < 3; i++) {
		answer(WIRE_HELLO + 1, 4, WIRE_SIZE + 2);
		server.sent = server.got = 0;
		start(WIRE_HELLO, 20);
		if (i)
			run_ms((unsigned)i); /* while connecting, or midway */
		exchange_cancel(&exchange);
		exchange_cancel(&exchange);
		run_ms(40);
		end(&server.client);
	}
	ck_assert_int_eq(calls, 0);
	ck_assert_uint_eq(scratch_descriptors(), fds);
}
END_TEST

START_TEST(hands_over_a_connection_that_goes_on)
{
	char line[8];

	answer(WIRE_EVENTS + 1, 0, WIRE_SIZE + 4);
	memcpy(server.answer + WIRE_SIZE, "{}\n", 4);
	exchange.keep = true;
	start(WIRE_EVENTS, TIMEOUT_MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(result, 0);
	/* what follows the reply is left to its owner */
	ck_assert_int_eq(recv(exchange.kept_fd, line, sizeof(line), 0), 4);
	ck_assert_str_eq(line, "{}\n");
	close(exchange.kept_fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("exchange");
	TCase *tc = tcase_create("exchange");
	SRunner *runner = srunner_create(suite);
	int failed;

	scratch_open();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, says_what_became_of_it, 0,
			    (int)(COUNT(cases) * COUNT(steps)));
	tcase_add_test(tc, tells_a_refusal_from_a_failure);
	tcase_add_test(tc, finds_nobody_there);
	tcase_add_test(tc, waits_for_no_full_backlog);
	tcase_add_test(tc, sends_the_longest_request_to_a_slow_reader);
	tcase_add_test(tc, is_silent_once_cancelled);
	tcase_add_test(tc, hands_over_a_connection_that_goes_on);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
