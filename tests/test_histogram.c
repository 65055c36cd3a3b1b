/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latency histogram: quantiles within a bucket of the truth.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/histogram.h"

static const uint64_t values[] = {
	0,	    1,		63,	    64,
	65,	    127,	128,	    1000,
	4095,	    123456,	1u << 31,   UINT32_MAX,
	1e12,	    0x7fffffff, 1ull << 62, (1ull << 63) + 9,
	UINT64_MAX,
};

static double distance(uint64_t a, uint64_t b)
{
	uint64_t apart = a > b ? a - b : b - a;

	return b ? (double)apart / (double)b : (double)apart;
}

START_TEST(a_value_comes_back_within_a_bucket)
{
	static struct histogram h;
	uint64_t value = values[_i], got;

	memset(&h, 0, sizeof(h));
	histogram_add(&h, value);
	got = histogram_quantile(&h, 0.5);
	ck_assert_msg(distance(got, value) <= 1.0 / 64, "%llu became %llu",
		      (unsigned long long)value, (unsigned long long)got);
	ck_assert_uint_eq(h.max, value);
}
END_TEST

START_TEST(quantiles_of_many_values_are_near_the_true_ones)
{
	static const double fractions[] = { 0.001, 0.5, 0.9, 0.99, 0.999, 1 };
	static struct histogram h;
	uint64_t i, got;
	double want;
	size_t f;

	memset(&h, 0, sizeof(h));
	for (i = 1; i <= 100000; i++)
		histogram_add(&h, i * 37);
	ck_assert_double_eq_tol(histogram_mean(&h), 37 * 50000.5, 0.01);
	for (f = 0; f < sizeof(fractions) / sizeof(fractions[0]); f++) {
		want = fractions[f] * 3700000;
		got = histogram_quantile(&h, fractions[f]);
		ck_assert_msg(distance(got, (uint64_t)want) <= 1.0 / 64,
			      "%f: %llu", fractions[f],
			      (unsigned long long)got);
	}
}
END_TEST

START_TEST(an_empty_one_says_0)
{
	static struct histogram h;

	ck_assert_uint_eq(histogram_quantile(&h, 0.99), 0);
	ck_assert_double_eq(histogram_mean(&h), 0);
}
END_TEST

START_TEST(merged_is_as_if_added_to_one)
{
	static struct histogram a, b, both;
	size_t i;

	for (i = 0; i < 1000; i++) {
		histogram_add(i % 3 ? &a : &b, i * i);
		histogram_add(&both, i * i);
	}
	histogram_merge(&a, &b);
	ck_assert_mem_eq(&a, &both, sizeof(a));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("histogram");
	TCase *tc = tcase_create("histogram");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tc);
	tcase_add_loop_test(tc, a_value_comes_back_within_a_bucket, 0,
			    (int)(sizeof(values) / sizeof(values[0])));
	tcase_add_test(tc, quantiles_of_many_values_are_near_the_true_ones);
	tcase_add_test(tc, an_empty_one_says_0);
	tcase_add_test(tc, merged_is_as_if_added_to_one);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
