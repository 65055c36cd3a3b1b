/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmarks' command lines: sizes, times, and what is refused.
 */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/bench/options.h"
#include "tests/bench/session.h"

static const struct {
	const char *text;
	int want;
	uint64_t bytes;
} sizes[] = {
	{ "512", 0, 512 },	  { "4k", 0, 4096 },
	{ "256M", 0, 256 << 20 }, { "1.5m", 0, 1536 << 10 },
	{ "2g", 0, 2ull << 30 },  { "0", 0, 0 },
	{ "", -EINVAL, 0 },	  { "k", -EINVAL, 0 },
	{ "-4k", -EINVAL, 0 },	  { "4kb", -EINVAL, 0 },
	{ "4 k", -EINVAL, 0 },	  { "1e300", -ERANGE, 0 },
	{ "inf", -EINVAL, 0 },	  { "nan", -EINVAL, 0 },
	{ " 4k", -EINVAL, 0 },
};

START_TEST(sizes_are_understood_or_refused)
{
	uint64_t bytes = 0;

	ck_assert_msg(
		option_parse_bytes(sizes[_i].text, &bytes) == sizes[_i].want &&
			bytes == sizes[_i].bytes,
		"\"%s\": %llu", sizes[_i].text, (unsigned long long)bytes);
}
END_TEST

static const struct {
	const char *text;
	int want;
	uint64_t ns;
} times[] = {
	{ "100us", 0, 100000 },	 { "100", 0, 100000 }, { "2ms", 0, 2000000 },
	{ "1s", 0, 1000000000 }, { "50ns", 0, 50 },    { "0.5us", 0, 500 },
	{ "us", -EINVAL, 0 },	 { "5m", -EINVAL, 0 }, { "-1us", -EINVAL, 0 },
};

START_TEST(times_are_understood_or_refused)
{
	uint64_t ns = 0;

	ck_assert_msg(option_parse_time(times[_i].text, 1000, &ns) ==
				      times[_i].want &&
			      ns == times[_i].ns,
		      "\"%s\": %llu", times[_i].text, (unsigned long long)ns);
}
END_TEST

static const struct {
	const char *text;
	int want;
	const char *mode;
	uint32_t duration_us;
} pollings[] = {
	{ "event", 0, "event", 0 },
	{ "fixed:6000", 0, "fixed", 6000 },
	{ "fixed:6ms", 0, "fixed", 6000 },
	{ "adaptive", 0, "adaptive", 0 },
	{ "adaptive:8000", 0, "adaptive", 8000 },
	{ "fixed:60000001", -EINVAL, NULL, 0 },
	{ "fixed", -EINVAL, NULL, 0 },
	{ "fixed:", -EINVAL, NULL, 0 },
	{ "adaptivex", -EINVAL, NULL, 0 },
	{ "", -EINVAL, NULL, 0 },
};

START_TEST(polling_is_understood_or_refused)
{
	struct session_options o = { 0 };
	const char *why = NULL;

	ck_assert_int_eq(session_option_polling(&o, pollings[_i].text, &why),
			 pollings[_i].want);
	if (pollings[_i].want)
		return;
	ck_assert_str_eq(o.mode, pollings[_i].mode);
	ck_assert_uint_eq(o.duration_us, pollings[_i].duration_us);
}
END_TEST

struct target {
	uint32_t number;
	bool flag;
};

static const struct option_row rows[] = {
	{ 'n', "number", "N", "a number", option_number,
	  offsetof(struct target, number) },
	{ 0, "flag", NULL, "a switch", option_flag,
	  offsetof(struct target, flag) },
};

static const struct option_table table = {
	.program = "test",
	.usage = "",
	.about = "",
	.rows = rows,
	.nr_rows = 2,
};

static const struct {
	const char *argv[4];
	int want;
	struct target target;
} lines[] = {
	{ { "test" }, 0, { 0, false } },
	{ { "test", "-n", "5" }, 0, { 5, false } },
	{ { "test", "--number=5", "--flag" }, 0, { 5, true } },
	{ { "test", "--num", "7" }, 0, { 7, false } },
	{ { "test", "--help" }, 1, { 0, false } },
	{ { "test", "--other" }, -EINVAL, { 0, false } },
	{ { "test", "-n" }, -EINVAL, { 0, false } },
	{ { "test", "-n", "five" }, -EINVAL, { 0, false } },
	{ { "test", "-n", "-5" }, -EINVAL, { 0, false } },
	{ { "test", "stray" }, -EINVAL, { 0, false } },
	{ { "test", "--flag=1" }, -EINVAL, { 0, false } },
};

START_TEST(lines_fill_the_fields_or_are_refused)
{
	struct target target = { 0 };
	char *argv[5] = { NULL };
	int argc = 0, err;

	for (; argc < 4 && lines[_i].argv[argc]; argc++)
		argv[argc] = (char *)lines[_i].argv[argc];
	err = options_parse(&table, argc, argv, &target);
	ck_assert_int_eq(err, lines[_i].want);
	if (err)
		return;
	ck_assert_uint_eq(target.number, lines[_i].target.number);
	ck_assert(target.flag == lines[_i].target.flag);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench options");
	TCase *tc = tcase_create("bench options");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tc);
	tcase_add_loop_test(tc, sizes_are_understood_or_refused, 0,
			    (int)(sizeof(sizes) / sizeof(sizes[0])));
	tcase_add_loop_test(tc, times_are_understood_or_refused, 0,
			    (int)(sizeof(times) / sizeof(times[0])));
	tcase_add_loop_test(tc, polling_is_understood_or_refused, 0,
			    (int)(sizeof(pollings) / sizeof(pollings[0])));
	tcase_add_loop_test(tc, lines_fill_the_fields_or_are_refused, 0,
			    (int)(sizeof(lines) / sizeof(lines[0])));
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
