/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our JSON messages: what one half writes the other reads, and nothing else is
 * accepted.
 */
#include <check.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/ctl/messages.h"
#include "tools/ctl/wire.h"

/* As it comes over the wire: text again. */
static struct json_object *resend(struct json_object *json)
{
	struct json_object *back;
	const char *text;

	text = json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN);
	ck_assert_int_eq(messages_parse(text, strlen(text), &back), 0);
	json_object_put(json);
	return back;
}

static const struct vbd_connect connects[] = {
	{
		.domid = 7,
		.devid = 51712,
		.abi = ABI_X86_64,
		.guest = "xen",
		.port = 3,
		.nr_refs = 1,
		.refs = { 8 },
	},
	{
		.domid = UINT32_MAX,
		.devid = UINT32_MAX,
		.abi = ABI_X86_32,
		.guest = "local:/tmp/a \"b\"\\c",
		.port = UINT32_MAX,
		.nr_refs = 16,
		.refs = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
			  UINT32_MAX },
		.has_polling = true,
		.polling = { .mode = WAIT_FIXED,
			     .duration_us = GRANULARITY_WINDOW_MAX_US,
			     .idle_threshold = 100,
			     .align = true,
			     .has_cap = true,
			     .cap = VBD_CAP_MAX,
			     .sync = SYNC_OFF },
	},
	{
		.abi = ABI_NATIVE,
		.guest = "",
		.nr_refs = 2,
		.refs = { 5, 4 },
		.has_polling = true,
		.polling = { .mode = WAIT_EVENT },
	},
};

START_TEST(connect_arrives_as_it_was_sent)
{
	const struct vbd_connect *sent = &connects[_i];
	struct json_object *json = resend(messages_connect(sent));
	char guest[WIRE_PATH_MAX];
	struct vbd_connect got;

	ck_assert_int_eq(
		messages_connect_read(json, guest, sizeof(guest), &got), 0);
	ck_assert_uint_eq(got.domid, sent->domid);
	ck_assert_uint_eq(got.devid, sent->devid);
	ck_assert_int_eq(got.abi, sent->abi);
	ck_assert_ptr_eq(got.guest, guest);
	ck_assert_str_eq(got.guest, sent->guest);
	ck_assert_uint_eq(got.port, sent->port);
	ck_assert_uint_eq(got.nr_refs, sent->nr_refs);
	ck_assert_mem_eq(got.refs, sent->refs, sizeof(got.refs));
	ck_assert_int_eq(got.has_polling, sent->has_polling);
	ck_assert_int_eq(got.polling.mode, sent->polling.mode);
	ck_assert_uint_eq(got.polling.duration_us, sent->polling.duration_us);
	ck_assert_uint_eq(got.polling.idle_threshold,
			  sent->polling.idle_threshold);
	ck_assert_int_eq(got.polling.align, sent->polling.align);
	ck_assert_int_eq(got.polling.has_cap, sent->polling.has_cap);
	ck_assert_uint_eq(got.polling.cap, sent->polling.cap);
	ck_assert_int_eq(got.polling.sync, sent->polling.sync);
	json_object_put(json);
}
END_TEST

/* What becomes of a good message with one key given another value. */
static const struct strict {
	int want;
	const char *key;
	const char *value; /* NULL: without the key */
} connect_values[] = {
	{ 0, "newer", "{\"deep\":[1,2]}" },
	{ 0, "polling", NULL },
	{ 0, "polling",
	  "{\"mode\":\"fixed\",\"duration_us\":60000000,"
	  "\"idle_threshold\":100,\"align\":false,\"cap\":5}" },
	{ -EINVAL, "polling",
	  "{\"mode\":\"fixed\",\"duration_us\":60000000,"
	  "\"idle_threshold\":100,\"align\":false,\"cap\":-5}" },
	{ -EINVAL, "polling",
	  "{\"mode\":\"fixed\",\"duration_us\":60000000,"
	  "\"idle_threshold\":100,\"align\":false,\"sync\":\"maybe\"}" },
	{ 0, "protocol", "\"x86_32-abi\"" },
	{ 0, "queues", "[{\"port\":4,\"ring_refs\":[1,2,3,4,5,6,7,8]}]" },
	{ -EINVAL, "domid", NULL },
	{ -EINVAL, "domid", "-1" },
	{ -EINVAL, "domid", "4294967296" },
	{ -EINVAL, "domid", "18446744073709551617" },
	{ -EINVAL, "domid", "1.0" },
	{ -EINVAL, "domid", "\"1\"" },
	{ -EINVAL, "domid", "null" },
	{ -EINVAL, "domid", "true" },
	{ -EINVAL, "devid", NULL },
	{ -EINVAL, "devid", "[1]" },
	{ -EPROTONOSUPPORT, "protocol", "\"vax\"" },
	{ -EINVAL, "protocol", "null" },
	{ -EINVAL, "protocol", NULL },
	{ -EINVAL, "guest", NULL },
	{ -EINVAL, "guest", "7" },
	{ -EINVAL, "guest", "\"local:\\u0000x\"" },
	{ -EINVAL, "queues", NULL },
	{ -EINVAL, "queues", "[]" },
	{ -EINVAL, "queues", "{}" },
	{ -EINVAL, "queues", "[7]" },
	{ -EINVAL, "queues", "[null]" },
	{ -EINVAL, "queues", "[{\"port\":4}]" },
	{ -EINVAL, "queues", "[{\"ring_refs\":[5]}]" },
	{ -EINVAL, "queues", "[{\"port\":-4,\"ring_refs\":[5]}]" },
	{ -ENOTSUP, "queues",
	  "[{\"port\":4,\"ring_refs\":[5]},{\"port\":5,\"ring_refs\":[6]}]" },
	{ -EINVAL, "queues", "[{\"port\":4,\"ring_refs\":[]}]" },
	{ -EINVAL, "queues", "[{\"port\":4,\"ring_refs\":[1,2,3]}]" },
	{ -EINVAL, "queues", "[{\"port\":4,\"ring_refs\":[1,\"2\"]}]" },
	{ -EINVAL, "queues", "[{\"port\":4,\"ring_refs\":[-1]}]" },
	{ -EINVAL, "queues",
	  "[{\"port\":4,\"ring_refs\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,"
	  "16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32]}]" },
	{ -EINVAL, "polling", "{}" },
	{ -EINVAL, "polling", "null" },
	{ -EINVAL, "polling",
	  "{\"mode\":\"fixed\",\"duration_us\":60000001,"
	  "\"idle_threshold\":0,\"align\":true}" },
	{ -EINVAL, "polling",
	  "{\"mode\":\"fixed\",\"duration_us\":1,"
	  "\"idle_threshold\":101,\"align\":true}" },
	{ -EINVAL, "polling",
	  "{\"mode\":\"fixed\",\"duration_us\":1,"
	  "\"idle_threshold\":0,\"align\":1}" },
	{ -EINVAL, "polling",
	  "{\"mode\":\"default\",\"duration_us\":1,"
	  "\"idle_threshold\":0,\"align\":true}" },
	{ -EINVAL, "polling",
	  "{\"mode\":\"guess\",\"duration_us\":1,"
	  "\"idle_threshold\":0,\"align\":true}" },
};
#define NR_CONNECT_VALUES \
	((int)(sizeof(connect_values) / sizeof(connect_values[0])))

START_TEST(connect_is_read_strictly)
{
	const struct strict *s = &connect_values[_i];
	struct json_object *json = resend(messages_connect(&connects[1]));
	char guest[WIRE_PATH_MAX];
	struct vbd_connect connect;
	int err;

	json_object_object_del(json, s->key);
	if (s->value)
		json_object_object_add(json, s->key,
				       json_tokener_parse(s->value));
	err = messages_connect_read(json, guest, sizeof(guest), &connect);
	ck_assert_msg(err == s->want, "%s %s: %d", s->key,
		      s->value ? s->value : "left out", err);
	json_object_put(json);
}
END_TEST

START_TEST(guest_name_is_refused_not_cut)
{
	struct json_object *json = resend(messages_connect(&connects[0]));
	struct vbd_connect connect;
	char guest[4];

	ck_assert_int_eq(messages_connect_read(json, guest, 4, &connect), 0);
	ck_assert_int_eq(messages_connect_read(json, guest, 3, &connect),
			 -ENAMETOOLONG);
	json_object_put(json);
}
END_TEST

static const struct messages_polling changes[] = {
	{ 0 },
	{ .has_mode = true, .polling = { .mode = WAIT_EVENT } },
	{ .has_mode = true,
	  .has_duration = true,
	  .polling = { .mode = WAIT_FIXED, .duration_us = 6000 } },
	{ .has_duration = true, .polling = { .duration_us = 0 } },
	{ .has_idle_threshold = true, .polling = { .idle_threshold = 100 } },
	{ .has_align = true, .polling = { .align = true } },
	{ .has_align = true, .xenstore = true, .polling = { .align = false } },
	{ .polling = { .has_cap = true, .cap = 0 } },
	{ .has_sync = true,
	  .polling = { .has_cap = true, .cap = 250, .sync = SYNC_OFF } },
	{ .has_sync = true, .polling = { .sync = SYNC_AUTO } },
	{ .want_gaps = true },
	{ .has_mode = true, .to_default = true },
};
#define NR_CHANGES ((int)(sizeof(changes) / sizeof(changes[0])))

START_TEST(polling_arrives_as_it_was_sent)
{
	const struct messages_polling *sent = &changes[_i];
	struct json_object *json = resend(messages_polling(sent));
	struct messages_polling got;

	ck_assert_int_eq(messages_polling_read(json, &got), 0);
	ck_assert_int_eq(got.has_mode, sent->has_mode);
	ck_assert_int_eq(got.has_duration, sent->has_duration);
	ck_assert_int_eq(got.has_idle_threshold, sent->has_idle_threshold);
	ck_assert_int_eq(got.has_align, sent->has_align);
	ck_assert_int_eq(got.has_sync, sent->has_sync);
	ck_assert_int_eq(got.want_gaps, sent->want_gaps);
	ck_assert_int_eq(got.polling.has_cap, sent->polling.has_cap);
	ck_assert_uint_eq(got.polling.cap, sent->polling.cap);
	ck_assert_int_eq(got.polling.sync, sent->polling.sync);
	ck_assert_int_eq(got.to_default, sent->to_default);
	ck_assert_int_eq(got.xenstore, sent->xenstore);
	ck_assert_int_eq(got.polling.mode, sent->polling.mode);
	ck_assert_uint_eq(got.polling.duration_us, sent->polling.duration_us);
	ck_assert_uint_eq(got.polling.idle_threshold,
			  sent->polling.idle_threshold);
	ck_assert_int_eq(got.polling.align, sent->polling.align);
	json_object_put(json);
}
END_TEST

static const struct strict_text {
	int want;
	const char *text;
} polling_texts[] = {
	{ 0, "{}" },
	{ 0, "{\"cap\":100}" },
	{ 0, "{\"cap\":0,\"sync\":\"off\"}" },
	{ -EINVAL, "{\"cap\":-1}" },
	{ -EINVAL, "{\"cap\":102401}" },
	{ -EINVAL, "{\"cap\":\"20\"}" },
	{ -EINVAL, "{\"sync\":true}" },
	{ -EINVAL, "{\"sync\":\"maybe\"}" },
	{ -EINVAL, "{\"mode\":\"default\",\"cap\":1}" },
	{ -EINVAL, "{\"mode\":\"default\",\"sync\":\"off\"}" },
	{ 0, "{\"want\":[]}" },
	{ 0, "{\"want\":[\"gaps\",\"newer\"]}" },
	{ -EINVAL, "{\"want\":\"gaps\"}" },
	{ -EINVAL, "{\"want\":[1]}" },
	{ 0, "{\"source\":\"tap-ctl\"}" },
	{ -EINVAL, "{\"source\":\"me\"}" },
	{ -EINVAL, "{\"source\":1}" },
	{ -EINVAL, "{\"mode\":\"Fixed\"}" },
	{ -EINVAL, "{\"mode\":\"\"}" },
	{ -EINVAL, "{\"mode\":1}" },
	{ -EINVAL, "{\"mode\":null}" },
	{ -EINVAL, "{\"mode\":\"fixed\\u0000\"}" },
	{ 0, "{\"mode\":\"adaptive\"}" },
	{ -EINVAL, "{\"mode\":\"default\",\"align\":true}" },
	{ -EINVAL, "{\"mode\":\"default\",\"duration_us\":1}" },
	{ -EINVAL, "{\"duration_us\":-1}" },
	{ -EINVAL, "{\"duration_us\":60000001}" },
	{ -EINVAL, "{\"duration_us\":4294967297}" },
	{ -EINVAL, "{\"duration_us\":99999999999999999999999}" },
	{ -EINVAL, "{\"duration_us\":1e3}" },
	{ -EINVAL, "{\"duration_us\":\"8000\"}" },
	{ -EINVAL, "{\"idle_threshold\":101}" },
	{ -EINVAL, "{\"idle_threshold\":256}" },
	{ -EINVAL, "{\"align\":\"on\"}" },
	{ -EINVAL, "{\"align\":0}" },
};
#define NR_POLLING_TEXTS \
	((int)(sizeof(polling_texts) / sizeof(polling_texts[0])))

START_TEST(polling_is_read_strictly)
{
	const struct strict_text *s = &polling_texts[_i];
	struct messages_polling change;
	struct json_object *json;
	int err;

	ck_assert_msg(messages_parse(s->text, strlen(s->text), &json) == 0,
		      "%s", s->text);
	err = messages_polling_read(json, &change);
	ck_assert_msg(err == s->want, "%s: %d", s->text, err);
	json_object_put(json);
}
END_TEST

static const struct strict_text not_json[] = {
	{ 0, "{}" },
	{ 0, " {\"a\":1} \r\n\t" },
	{ -EINVAL, "" },
	{ -EINVAL, " " },
	{ -EINVAL, "{" },
	{ -EINVAL, "{\"a\":1" },
	{ -EINVAL, "{}x" },
	{ -EINVAL, "{}{}" },
	{ -EINVAL, "{\"a\":1,}" },
	{ -EINVAL, "{a:1}" },
	{ -EINVAL, "{\"a\":01x}" },
	{ -EINVAL, "[]" },
	{ -EINVAL, "null" },
	{ -EINVAL, "1" },
	{ -EINVAL, "\"text\"" },
	{ -EINVAL, "\xff\xfe" },
};
#define NR_NOT_JSON ((int)(sizeof(not_json) / sizeof(not_json[0])))

START_TEST(only_a_whole_object_is_a_message)
{
	const struct strict_text *s = &not_json[_i];
	size_t len = strlen(s->text);
	struct json_object *json;
	char *exact;

	/* not a byte behind the length may be looked at */
	exact = malloc(len ? len : 1);
	memcpy(exact, s->text, len);
	ck_assert_msg(messages_parse(exact, len, &json) == s->want, "%s",
		      s->text);
	ck_assert((json != NULL) == (s->want == 0));
	json_object_put(json);
	free(exact);
}
END_TEST

START_TEST(deep_and_long_texts_are_refused)
{
	char *text = malloc(WIRE_JSON_MAX + 1);
	struct json_object *json;

	memset(text, '[', WIRE_JSON_MAX + 1);
	ck_assert_int_eq(messages_parse(text, WIRE_JSON_MAX, &json), -EINVAL);
	memset(text, ' ', WIRE_JSON_MAX + 1);
	memcpy(text, "{}", 2);
	ck_assert_int_eq(messages_parse(text, WIRE_JSON_MAX, &json), 0);
	json_object_put(json);
	ck_assert_int_eq(messages_parse(text, WIRE_JSON_MAX + 1, &json),
			 -EINVAL);
	/* a NUL is not the end of what was sent */
	memcpy(text, "{}\0x", 4);
	ck_assert_int_eq(messages_parse(text, 4, &json), -EINVAL);
	free(text);
}
END_TEST

static void expect(struct json_object *json, const char *want)
{
	ck_assert_str_eq(json_object_to_json_string_ext(json,
							JSON_C_TO_STRING_PLAIN),
			 want);
	json_object_put(json);
}

START_TEST(hello_says_what_the_disk_can)
{
	struct vbd_disk_info info = {
		.bytes = UINT64_C(3) << 40,
		.logical_block = 512,
		.physical_block = 4096,
		.discard_granularity = 4096,
		.writable = true,
	};

	expect(messages_hello(&info),
	       "{\"version\":1,\"ring_order_max\":4,\"queues_max\":1,"
	       "\"indirect_max\":0,\"ops\":[\"read\",\"flush\",\"write\","
	       "\"barrier\",\"discard\"],\"info\":0,\"sectors\":6442450944,"
	       "\"sector_size\":512,\"physical_sector_size\":4096,"
	       "\"discard_granularity\":4096}");
	info.writable = false;
	info.info = 4;
	expect(messages_hello(&info),
	       "{\"version\":1,\"ring_order_max\":4,\"queues_max\":1,"
	       "\"indirect_max\":0,\"ops\":[\"read\",\"flush\"],\"info\":4,"
	       "\"sectors\":6442450944,\"sector_size\":512,"
	       "\"physical_sector_size\":4096,\"discard_granularity\":4096}");
}
END_TEST

START_TEST(events_and_words_are_the_documented_ones)
{
	expect(messages_event(VBD_RESIZED), "{\"event\":\"resized\"}");
	expect(messages_event(VBD_RING_BROKEN), "{\"event\":\"ring-broken\"}");
	expect(messages_event(VBD_PAUSED), "{\"event\":\"paused\"}");
	expect(messages_event(VBD_CLOSING), "{\"event\":\"closing\"}");
	ck_assert_str_eq(messages_mode_name(WAIT_EVENT), "event");
	ck_assert_str_eq(messages_mode_name(WAIT_FIXED), "fixed");
	ck_assert_str_eq(messages_source_name(VBD_FROM_DEFAULT), "default");
	ck_assert_str_eq(messages_source_name(VBD_FROM_CONNECT), "connect");
	ck_assert_str_eq(messages_source_name(VBD_FROM_XENSTORE), "xenstore");
	ck_assert_str_eq(messages_source_name(VBD_FROM_TAP_CTL), "tap-ctl");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("messages");
	TCase *tests = tcase_create("messages");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tests, connect_arrives_as_it_was_sent, 0, 3);
	tcase_add_loop_test(tests, connect_is_read_strictly, 0,
			    NR_CONNECT_VALUES);
	tcase_add_test(tests, guest_name_is_refused_not_cut);
	tcase_add_loop_test(tests, polling_arrives_as_it_was_sent, 0,
			    NR_CHANGES);
	tcase_add_loop_test(tests, polling_is_read_strictly, 0,
			    NR_POLLING_TEXTS);
	tcase_add_loop_test(tests, only_a_whole_object_is_a_message, 0,
			    NR_NOT_JSON);
	tcase_add_test(tests, deep_and_long_texts_are_refused);
	tcase_add_test(tests, hello_says_what_the_disk_can);
	tcase_add_test(tests, events_and_words_are_the_documented_ones);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
