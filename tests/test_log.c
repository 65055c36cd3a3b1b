/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: where a line goes, that it stays one line, that nobody waits, and
 * that what is lost is said.
 */
#include "poll/clock.h"
#include "poll/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 4
#define LINES 2000

static int syslogd; /* our end of the datagram socket */
static int file; /* our end of the log file */

/* A file without a name, so that it is gone whatever happens. */
static int nameless_file(void)
{
	char path[] = "/tmp/test_log.XXXXXX";
	int fd = mkostemp(path, O_APPEND);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(unlink(path), 0);
	return fd;
}

static void setup(void)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	syslogd = fds[0];
	file = nameless_file();
	ck_assert_int_eq(log_open("tapdisk[123]", fds[1], dup(file), false), 0);
}

static void teardown(void)
{
	log_close();
	close(syslogd);
	close(file);
}

/* What was written to @fd, a static buffer. */
static const char *contents(int fd)
{
	static char buf[1 << 21];
	ssize_t len = pread(fd, buf, sizeof(buf) - 1, 0);

	ck_assert_int_ge(len, 0);
	buf[len] = '\0';
	return buf;
}

static const char *drained(void)
{
	log_drain();
	return contents(file);
}

/* The next datagram, "" if there is none. */
static const char *datagram(void)
{
	static char buf[4096];
	ssize_t len = recv(syslogd, buf, sizeof(buf) - 1, MSG_DONTWAIT);

	buf[len < 0 ? 0 : len] = '\0';
	return buf;
}

static unsigned count(const char *text, const char *what)
{
	unsigned found = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		found++;
	return found;
}

static bool matches(const char *text, const char *pattern)
{
	regex_t regex;
	bool found;

	ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	found = !regexec(&regex, text, 0, NULL, 0);
	regfree(&regex);
	return found;
}

static bool readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

#define DATE \
	"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} "

static const struct {
	void (*fn)(const char *fmt, ...);
	const char *datagram, *pattern;
	unsigned errors;
} levels[] = {
	{ log_err, "<27>tapdisk[123]: raw: 5",
	  DATE "tapdisk\\[123\\] error: raw: 5\n$", 1 },
	{ log_warn, "<28>tapdisk[123]: raw: 5",
	  DATE "tapdisk\\[123\\] warning: raw: 5\n$", 0 },
	{ log_info, "<30>tapdisk[123]: raw: 5",
	  DATE "tapdisk\\[123\\] info: raw: 5\n$", 0 },
	{ log_debug, "", DATE "tapdisk\\[123\\] debug: raw: 5\n$", 0 },
};

START_TEST(a_line_goes_to_syslog_and_to_the_file)
{
	levels[_i].fn("raw: %d", 5);
	ck_assert_str_eq(datagram(), levels[_i].datagram);
	ck_assert_str_eq(datagram(), "");
	ck_assert_msg(matches(drained(), levels[_i].pattern), "%s",
		      contents(file));
	ck_assert_uint_eq(log_errors(), levels[_i].errors);
}
END_TEST

START_TEST(the_descriptor_is_readable_while_lines_are_queued)
{
	ck_assert(!readable(log_fd()));
	log_info("one");
	ck_assert(readable(log_fd()));
	log_info("two");
	log_drain();
	ck_assert(!readable(log_fd()));
	log_info("three");
	ck_assert(readable(log_fd()));
	ck_assert_uint_eq(count(drained(), "\n"), 3);
	log_drain();
	ck_assert_uint_eq(count(contents(file), "\n"), 3);
}
END_TEST

static const struct {
	const char *in, *out;
} texts[] = {
	{ "a\nb", ": a?b\n" },
	{ "a\n", ": a\n" },
	{ "a\r\x1b[31m\tb\x7f", ": a??[31m?b?\n" },
	{ "\xc3\xa4", ": \xc3\xa4\n" },
	{ "", ": \n" },
	{ "100%s", ": 100%s\n" },
};

START_TEST(a_line_stays_one_printable_line)
{
	const char *text;

	log_info("%s", texts[_i].in);
	text = drained();
	ck_assert_uint_eq(count(text, "\n"), 1);
	ck_assert_msg(strstr(text, texts[_i].out), "%s", text);
	ck_assert_uint_eq(count(datagram(), "\n"), 0);
}
END_TEST

START_TEST(long_lines_end_in_dots_at_a_whole_character)
{
	char text[3000];
	const char *line, *dots;
	int shift, i;

	/* two-byte characters, cut at either of their bytes */
	for (shift = 0; shift < 2; shift++) {
		memset(text, 'x', sizeof(text));
		for (i = shift; i + 2 < (int)sizeof(text); i += 2)
			memcpy(text + i, "\xc3\xa4", 2);
		text[sizeof(text) - 1] = '\0';
		log_info("%s", text);
		line = datagram();
		dots = strstr(line, "...");
		ck_assert_ptr_nonnull(dots);
		ck_assert_str_eq(dots, "...");
		ck_assert_uint_gt(strlen(line), 500);
		ck_assert_int_eq((unsigned char)dots[-1], 0xa4);
	}
	ck_assert_uint_eq(count(drained(), "...\n"), 2);
}
END_TEST

START_TEST(a_deaf_syslogd_stops_nobody)
{
	int i;

	for (i = 0; i < 2000; i++) {
		log_info("line %d", i);
		log_drain();
	}
	ck_assert_uint_eq(count(contents(file), "line "), 2000);
	/* said once, not once a line; and in the end how many */
	ck_assert_uint_eq(count(contents(file), "in syslog"), 1);
	log_close();
	ck_assert_uint_eq(count(contents(file), "in syslog"), 2);
}
END_TEST

START_TEST(a_full_queue_counts_what_it_drops)
{
	int i;

	for (i = 0; i < 300; i++)
		log_debug("line %d.", i);
	ck_assert_uint_eq(count(drained(), "line "), 128);
	log_drain();
	ck_assert_ptr_nonnull(strstr(contents(file), "line 127."));
	ck_assert_ptr_nonnull(strstr(
		contents(file), "log: 172 lines are missing here and 0 in"));
	log_debug("line after");
	log_drain();
	ck_assert_uint_eq(count(contents(file), "line "), 129);
	ck_assert_uint_eq(count(contents(file), "missing"), 1);
}
END_TEST

START_TEST(a_full_disk_is_said_when_it_no_longer_is)
{
	int i;

	log_reopen(open("/dev/full", O_WRONLY | O_CLOEXEC));
	for (i = 0; i < 5; i++)
		log_debug("line %d", i);
	log_drain();
	log_reopen(dup(file));
	ck_assert_ptr_nonnull(
		strstr(drained(), "log: 5 lines are missing here"));
}
END_TEST

START_TEST(reopening_goes_on_in_the_new_file)
{
	int second = nameless_file();

	log_info("first");
	log_reopen(dup(second));
	log_info("second");
	log_drain();
	ck_assert_uint_eq(count(contents(file), "\n"), 1);
	ck_assert_uint_eq(count(contents(file), "first"), 1);
	ck_assert_uint_eq(count(contents(second), "\n"), 1);
	ck_assert_uint_eq(count(contents(second), "second"), 1);
	/* and without a file nothing is queued */
	log_reopen(-1);
	log_info("nowhere");
	ck_assert(!readable(log_fd()));
	close(second);
}
END_TEST

START_TEST(closing_writes_what_is_queued)
{
	log_info("last words");
	log_close();
	ck_assert_uint_eq(count(contents(file), "last words\n"), 1);
	ck_assert_int_eq(log_fd(), -1);
	log_close();
}
END_TEST

START_TEST(stderr_hears_when_nothing_is_open_or_asked)
{
	int before = dup(STDERR_FILENO), to = nameless_file();
	char want[256];

	log_close();
	ck_assert_int_ge(dup2(to, STDERR_FILENO), 0);
	log_err("too early");
	ck_assert_int_eq(log_open("me", -1, -1, true), 0);
	log_debug("echo");
	log_close();
	ck_assert_int_eq(log_open("me", -1, -1, false), 0);
	log_err("silence");
	log_close();
	log_warn("too late");
	dup2(before, STDERR_FILENO);
	snprintf(want, sizeof(want), "%s: too early\nme: echo\n%s: too late\n",
		 program_invocation_short_name, program_invocation_short_name);
	ck_assert_str_eq(contents(to), want);
	close(to);
	close(before);
}
END_TEST

START_TEST(logging_keeps_errno)
{
	close(syslogd);
	errno = ENOSPC;
	log_err("who: what: why");
	ck_assert_int_eq(errno, ENOSPC);
	syslogd = dup(file); /* for teardown */
}
END_TEST

/* Field: T20 */
START_TEST(a_limit_lets_16_lines_pass_and_counts_the_rest)
{
	struct log_limit limit = { 0 };
	unsigned passed = 0, i;

	for (i = 0; i < 100; i++)
		passed += log_allow(&limit, "vbd-51712");
	ck_assert_uint_eq(passed, 16);
	ck_assert_uint_eq(count(drained(), "\n"), 0);

	limit.since_ns -= 89 * CLOCK_SECOND;
	ck_assert(!log_allow(&limit, "vbd-51712"));
	limit.since_ns -= 1 * CLOCK_SECOND;
	ck_assert(log_allow(&limit, "vbd-51712"));
	ck_assert_uint_eq(count(drained(), "\n"), 1);
	ck_assert_ptr_nonnull(strstr(contents(file), "vbd-51712: 85 more"));

	for (i = 1, passed = 1; i < 100; i++)
		passed += log_allow(&limit, "vbd-51712");
	ck_assert_uint_eq(passed, 16);
}
END_TEST

START_TEST(a_quiet_limit_says_nothing)
{
	struct log_limit limit = { 0 };

	ck_assert(log_allow(&limit, "who"));
	limit.since_ns -= 90 * CLOCK_SECOND;
	ck_assert(log_allow(&limit, "who"));
	ck_assert_uint_eq(count(drained(), "\n"), 0);
}
END_TEST

static void *log_many(void *arg)
{
	int i;

	for (i = 0; i < LINES; i++)
		log_debug("thread %d line %d.", *(int *)arg, i);
	return NULL;
}

/* Every line is whole, and either there or counted. */
START_TEST(threads_mix_no_lines)
{
	pthread_t threads[THREADS];
	int numbers[THREADS], i;
	unsigned whole = 0, missing = 0, other;
	char *line, *rest, *text;

	for (i = 0; i < THREADS; i++) {
		numbers[i] = i;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, log_many,
						&numbers[i]),
				 0);
	}
	for (i = 0; i < 1000; i++)
		log_drain();
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	log_close();

	text = strdup(contents(file));
	ck_assert_ptr_nonnull(text);
	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (matches(line, DATE "tapdisk\\[123\\] debug: "
				       "thread [0-3] line [0-9]+\\.$")) {
			whole++;
			continue;
		}
		line = strstr(line, "log: ");
		ck_assert_ptr_nonnull(line);
		ck_assert_int_eq(sscanf(line, "log: %u lines are", &other), 1);
		missing += other;
	}
	free(text);
	ck_assert_uint_eq(whole + missing, THREADS * LINES);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("log");
	TCase *tcase = tcase_create("log");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 30);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, a_line_goes_to_syslog_and_to_the_file, 0,
			    sizeof(levels) / sizeof(*levels));
	tcase_add_test(tcase,
		       the_descriptor_is_readable_while_lines_are_queued);
	tcase_add_loop_test(tcase, a_line_stays_one_printable_line, 0,
			    sizeof(texts) / sizeof(*texts));
	tcase_add_test(tcase, long_lines_end_in_dots_at_a_whole_character);
	tcase_add_test(tcase, a_deaf_syslogd_stops_nobody);
	tcase_add_test(tcase, a_full_queue_counts_what_it_drops);
	tcase_add_test(tcase, a_full_disk_is_said_when_it_no_longer_is);
	tcase_add_test(tcase, reopening_goes_on_in_the_new_file);
	tcase_add_test(tcase, closing_writes_what_is_queued);
	tcase_add_test(tcase, stderr_hears_when_nothing_is_open_or_asked);
	tcase_add_test(tcase, logging_keeps_errno);
	tcase_add_test(tcase, a_limit_lets_16_lines_pass_and_counts_the_rest);
	tcase_add_test(tcase, a_quiet_limit_says_nothing);
	tcase_add_test(tcase, threads_mix_no_lines);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
