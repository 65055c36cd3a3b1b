/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a tapdisk tells of its waiting: reports, histograms and traces, as
 * documented and back again.
 */
#include <check.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include "tools/ctl/messages.h"
#include "tools/ctl/wire.h"

static void expect(struct json_object *json, const char *want)
{
	ck_assert_str_eq(json_object_to_json_string_ext(json,
							JSON_C_TO_STRING_PLAIN),
			 want);
	json_object_put(json);
}

/* Through text, as it travels. */
static struct json_object *resend(struct json_object *json)
{
	const char *text =
		json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN);
	struct json_object *again;

	ck_assert_int_eq(messages_parse(text, strlen(text), &again), 0);
	json_object_put(json);
	return again;
}

START_TEST(polling_report_has_the_documented_keys)
{
	struct vbd_polling_report report = {
		.polling = { .mode = WAIT_FIXED,
			     .duration_us = 6000,
			     .idle_threshold = 50,
			     .align = true,
			     .has_cap = true,
			     .cap = 20,
			     .sync = SYNC_OFF },
		.source = VBD_FROM_TAP_CTL,
		.effective_us = 8000,
		.granularity = { .us = 4000, .source = "default" },
		.waits = { .spin_ns = 1,
			   .hits = 2,
			   .misses = 3,
			   .sleeps = 4,
			   .arms = 5,
			   .lost = 9 },
		.requests = 6,
		.guest_events = 7,
		.notifications = INT64_MAX,
		.governor = { .price_q16 = POLICY_ONE / 4,
			      .idle_bp = 5050,
			      .pressure_bp = CPU_UNKNOWN,
			      .idle_source = "none",
			      .tapdisks = 2,
			      .rate = 30000000,
			      .share = UINT32_MAX,
			      .costs_source = CALIBRATION_MEASURED,
			      .costs = { .clock_ns = 25,
					 .turn_ns = 26,
					 .arm_ns = 27,
					 .wake_ns = 40000,
					 .block_ns = 12500 },
			      .page_why = "no page" },
		.policy = { .price = 3277,
			    .rho = POLICY_ONE / 4,
			    .of = { { .waits = 11,
				      .spin_ns = 1535,
				      .decider = "slow" },
				    { .waits = 13,
				      .spin_ns = 2000,
				      .nap_ns = 70000,
				      .decider = "nap" } } },
		.gaps = { 10, 12, 0 },
	};

	expect(messages_polling_report(&report, NULL),
	       "{\"mode\":\"fixed\",\"requested_us\":6000,"
	       "\"effective_us\":8000,\"granularity_us\":4000,"
	       "\"granularity_source\":\"default\",\"align\":true,"
	       "\"idle_threshold\":50,\"source\":\"tap-ctl\",\"requests\":6,"
	       "\"spin_ns\":1,\"hits\":2,\"misses\":3,\"lost\":9,\"sleeps\":4,"
	       "\"arms\":5,"
	       "\"guest_events\":7,\"notifications\":9223372036854775807,"
	       "\"cap\":20,\"sync\":\"off\",\"policy\":{"
	       "\"price\":0.0500031,\"rho\":0.25,\"w0_us\":40,\"cw_us\":12.5,"
	       "\"guest\":{\"gaps\":10,\"decided\":11,\"threshold_us\":1.535,"
	       "\"nap_us\":0,\"decider\":\"slow\"},"
	       "\"device\":{\"gaps\":12,\"decided\":13,\"threshold_us\":2,"
	       "\"nap_us\":70,\"decider\":\"nap\"},"
	       "\"both\":{\"gaps\":0,\"decided\":0,\"threshold_us\":0,"
	       "\"nap_us\":0,\"decider\":\"none\"}},\"governor\":{"
	       "\"allowed\":false,\"price\":0.25,\"idle_pct\":50.5,"
	       "\"idle_source\":\"none\",\"tapdisks\":2,"
	       "\"spinning_pct\":3,\"costs_source\":\"measured\","
	       "\"clock_ns\":25,\"turn_ns\":26,\"arm_ns\":27,"
	       "\"missing\":[\"no page\"]}}");
}
END_TEST

START_TEST(gaps_arrive_as_they_were_counted)
{
	struct gaps_histogram sent[GAPS_KINDS] = { 0 }, got[GAPS_KINDS];
	struct vbd_polling_report report = { .granularity.source = "default",
					     .governor.idle_source = "none" };
	struct json_object *json;

	/* every bin as full as a bin can be: the message has to have room */
	for (unsigned k = 0; k < GAPS_KINDS; k++)
		for (unsigned i = k; i < GAPS_BINS; i += k + 1)
			sent[k].bins[i] = (struct gaps_bin){ INT64_MAX - i,
							     INT64_MAX - k };
	json = resend(messages_polling_report(&report, sent));
	ck_assert_int_eq(messages_gaps_read(json, got), 0);
	ck_assert_mem_eq(got, sent, sizeof(got));
	json_object_put(json);
}
END_TEST

static const char *const bad_gaps[] = {
	"{}",
	"{\"gaps\":[]}",
	"{\"gaps\":{\"guest\":[],\"device\":[]}}",
	"{\"gaps\":{\"guest\":[],\"device\":[],\"both\":{}}}",
	"{\"gaps\":{\"guest\":[1],\"device\":[],\"both\":[]}}",
	"{\"gaps\":{\"guest\":[[1,2]],\"device\":[],\"both\":[]}}",
	"{\"gaps\":{\"guest\":[[1,2,3,4]],\"device\":[],\"both\":[]}}",
	"{\"gaps\":{\"guest\":[[1,2,-3]],\"device\":[],\"both\":[]}}",
	"{\"gaps\":{\"guest\":[[1,2,\"3\"]],\"device\":[],\"both\":[]}}",
};

START_TEST(gaps_are_read_strictly)
{
	struct gaps_histogram got[GAPS_KINDS];
	struct json_object *json;

	ck_assert_int_eq(
		messages_parse(bad_gaps[_i], strlen(bad_gaps[_i]), &json), 0);
	ck_assert_int_eq(messages_gaps_read(json, got), -EINVAL);
	json_object_put(json);
}
END_TEST

START_TEST(a_trace_is_asked_for_as_documented)
{
	struct messages_trace sent = { WAIT_BOTH, VBD_TRACE_NOW }, got;
	struct json_object *json;

	expect(messages_trace(&sent), "{\"kind\":\"both\"}");
	sent = (struct messages_trace){ WAIT_GUEST, 0 };
	expect(messages_trace(&sent), "{\"kind\":\"guest\",\"cursor\":0}");
	sent = (struct messages_trace){ WAIT_DEVICE, INT64_MAX };
	json = resend(messages_trace(&sent));
	ck_assert_int_eq(messages_trace_read(json, &got), 0);
	ck_assert_int_eq(got.kind, sent.kind);
	ck_assert_uint_eq(got.cursor, sent.cursor);
	json_object_put(json);
}
END_TEST

static const struct strict_text {
	int want;
	const char *text;
} trace_texts[] = {
	{ 0, "{\"kind\":\"guest\",\"newer\":1}" },
	{ -EINVAL, "{}" },
	{ -EINVAL, "{\"kind\":\"nobody\"}" },
	{ -EINVAL, "{\"kind\":1}" },
	{ -EINVAL, "{\"kind\":\"guest\",\"cursor\":-1}" },
	{ -EINVAL, "{\"kind\":\"guest\",\"cursor\":\"1\"}" },
	{ -EINVAL, "{\"kind\":\"guest\",\"cursor\":null}" },
};

START_TEST(trace_is_read_strictly)
{
	const struct strict_text *s = &trace_texts[_i];
	struct messages_trace got;
	struct json_object *json;

	ck_assert_int_eq(messages_parse(s->text, strlen(s->text), &json), 0);
	ck_assert_msg(messages_trace_read(json, &got) == s->want, "%s",
		      s->text);
	json_object_put(json);
}
END_TEST

START_TEST(a_trace_arrives_with_those_of_one_kind_only)
{
	static const struct gaps_entry sent[] = {
		{ 5, WAIT_GUEST, POLICY_READ },
		{ 6, WAIT_DEVICE, POLICY_WRITE },
		{ 2147483647, WAIT_GUEST, POLICY_FLUSH },
		{ 0, WAIT_GUEST, POLICY_WRITE },
	};
	struct gaps_entry got[MESSAGES_TRACE_MAX];
	struct json_object *json;
	uint64_t cursor, lost;
	unsigned n;

	expect(messages_trace_reply(WAIT_DEVICE, 9, 1, sent, 4),
	       "{\"cursor\":9,\"lost\":1,\"gaps\":[6],\"ops\":\"w\"}");
	json = resend(messages_trace_reply(WAIT_GUEST, 9, 1, sent, 4));
	ck_assert_int_eq(
		messages_trace_reply_read(json, &cursor, &lost, got, &n), 0);
	ck_assert_uint_eq(cursor, 9);
	ck_assert_uint_eq(lost, 1);
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_eq(got[1].ns, 2147483647);
	ck_assert_int_eq(got[1].op, POLICY_FLUSH);
	ck_assert_int_eq(got[2].op, POLICY_WRITE);
	json_object_put(json);
}
END_TEST

START_TEST(a_full_trace_is_a_message)
{
	static struct gaps_entry sent[MESSAGES_TRACE_MAX];

	for (unsigned i = 0; i < MESSAGES_TRACE_MAX; i++)
		sent[i] = (struct gaps_entry){ POLICY_TIME_MAX_NS, WAIT_GUEST,
					       POLICY_FLUSH };
	json_object_put(resend(messages_trace_reply(
		WAIT_GUEST, INT64_MAX, INT64_MAX, sent, MESSAGES_TRACE_MAX)));
}
END_TEST

static const char *const bad_replies[] = {
	"{}",
	"{\"cursor\":1,\"lost\":0,\"gaps\":[1,2],\"ops\":\"r\"}",
	"{\"cursor\":1,\"lost\":0,\"gaps\":[1],\"ops\":\"x\"}",
	"{\"cursor\":1,\"lost\":0,\"gaps\":[-1],\"ops\":\"r\"}",
	"{\"cursor\":1,\"lost\":0,\"gaps\":[\"1\"],\"ops\":\"r\"}",
	"{\"cursor\":1,\"lost\":-1,\"gaps\":[],\"ops\":\"\"}",
	"{\"cursor\":1,\"lost\":0,\"gaps\":{},\"ops\":\"\"}",
};

START_TEST(trace_replies_are_read_strictly)
{
	struct gaps_entry got[MESSAGES_TRACE_MAX];
	struct json_object *json;
	uint64_t cursor, lost;
	unsigned n;

	ck_assert_int_eq(messages_parse(bad_replies[_i],
					strlen(bad_replies[_i]), &json),
			 0);
	ck_assert_int_eq(messages_trace_reply_read(json, &cursor, &lost, got,
						   &n),
			 -EINVAL);
	json_object_put(json);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("messages_polling");
	TCase *tests = tcase_create("messages_polling");
	SRunner *runner;
	int failed;

	tcase_add_test(tests, polling_report_has_the_documented_keys);
	tcase_add_test(tests, gaps_arrive_as_they_were_counted);
	tcase_add_loop_test(tests, gaps_are_read_strictly, 0,
			    sizeof(bad_gaps) / sizeof(bad_gaps[0]));
	tcase_add_test(tests, a_trace_is_asked_for_as_documented);
	tcase_add_loop_test(tests, trace_is_read_strictly, 0,
			    sizeof(trace_texts) / sizeof(trace_texts[0]));
	tcase_add_test(tests, a_trace_arrives_with_those_of_one_kind_only);
	tcase_add_test(tests, a_full_trace_is_a_message);
	tcase_add_loop_test(tests, trace_replies_are_read_strictly, 0,
			    sizeof(bad_replies) / sizeof(bad_replies[0]));
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
