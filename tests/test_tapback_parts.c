/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tapback's pure parts: values of keys, the table of a device's life, what a
 * tapdisk says about itself, a word to the service manager.
 */
#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <json-c/json.h>
#include "tests/scratch.h"
#include "tools/ctl/hello.h"
#include "tools/ctl/messages.h"
#include "tools/tapback/device_state.h"
#include "tools/tapback/keys.h"
#include "tools/tapback/notify.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof(table[0])))

static const struct {
	const char *text;
	int want;
	uint64_t value;
} numbers[] = {
	{ "0", 0, 0 },
	{ "1", 0, 1 },
	{ "4294967295", 0, 4294967295 },
	{ "4294967296", -ERANGE, 0 },
	{ "18446744073709551615", -ERANGE, 0 },
	{ "18446744073709551616", -ERANGE, 0 },
	{ "99999999999999999999999999999999999999", -ERANGE, 0 },
	{ "99999999999999999999999999999999999x99", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
	{ "00", -EINVAL, 0 },
	{ "007", -EINVAL, 0 },
	{ "-0", -EINVAL, 0 },
	{ "+1", -EINVAL, 0 },
	{ " 1", -EINVAL, 0 },
	{ "1 ", -EINVAL, 0 },
	{ "1\n", -EINVAL, 0 },
	{ "0x10", -EINVAL, 0 },
	{ "1.0", -EINVAL, 0 },
	{ "1e3", -EINVAL, 0 },
	{ "/", -EINVAL, 0 },
	{ ":", -EINVAL, 0 },
};

START_TEST(a_number_is_what_printf_writes)
{
	uint32_t n = 7;
	int err = keys_u32(numbers[_i].text, 0, UINT32_MAX, &n);

	ck_assert_msg(err == numbers[_i].want, "%s: %d", numbers[_i].text, err);
	ck_assert_uint_eq(n, err ? 7 : numbers[_i].value);
}
END_TEST

START_TEST(a_range_includes_its_ends)
{
	uint32_t n;

	ck_assert_int_eq(keys_u32("3", 3, 5, &n), 0);
	ck_assert_int_eq(keys_u32("5", 3, 5, &n), 0);
	ck_assert_int_eq(keys_u32("2", 3, 5, &n), -ERANGE);
	ck_assert_int_eq(keys_u32("6", 3, 5, &n), -ERANGE);
}
END_TEST

static const struct {
	const char *text;
	int want, pid;
	uint16_t minor;
} paths[] = {
	{ "/r/nbd1.0", 0, 1, 0 },
	{ "/r/nbd2147483647.65534", 0, 2147483647, 65534 },
	{ "/r/nbd2147483648.0", -EINVAL, 0, 0 },
	{ "/r/nbd4294967297.0", -EINVAL, 0, 0 },
	{ "/r/nbd1.65535", -EINVAL, 0, 0 },
	{ "/r/nbd1.65536", -EINVAL, 0, 0 },
	{ "/r/nbd0.0", -EINVAL, 0, 0 },
	{ "/r/nbd-1.0", -EINVAL, 0, 0 },
	{ "/r/nbd1.-1", -EINVAL, 0, 0 },
	{ "/r/nbd1", -EINVAL, 0, 0 },
	{ "/r/nbd1.", -EINVAL, 0, 0 },
	{ "/r/nbd.1", -EINVAL, 0, 0 },
	{ "/r/nbd1.1.1", -EINVAL, 0, 0 },
	{ "/r/nbd1.1 ", -EINVAL, 0, 0 },
	{ "/r/nbd01.1", -EINVAL, 0, 0 },
	{ "/r/nbd-old1.1", -EINVAL, 0, 0 },
	{ "/rr/nbd1.1", -EINVAL, 0, 0 },
	{ "/r/../r/nbd1.1", -EINVAL, 0, 0 },
	{ "nbd1.1", -EINVAL, 0, 0 },
	{ "", -EINVAL, 0, 0 },
};

START_TEST(a_path_names_one_tapdisk_or_none)
{
	int pid = 0, err;
	uint16_t minor = 0;

	setenv("TAPDISK_RUN_DIR", "/r", 1);
	err = keys_device_path(paths[_i].text, &pid, &minor);
	ck_assert_msg(err == paths[_i].want, "%s: %d", paths[_i].text, err);
	ck_assert_int_eq(pid, paths[_i].pid);
	ck_assert_uint_eq(minor, paths[_i].minor);
}
END_TEST

static const struct {
	const char *text;
	int want;
	uint16_t minor;
} devices[] = {
	{ "0:0", 0, 0 },	   { "0:1a", 0, 26 },
	{ "0:1A", 0, 26 },	   { "00:01", 0, 1 },
	{ "0:fffe", 0, 65534 },	   { "0:ffff", -EINVAL, 0 },
	{ "0:10000", -EINVAL, 0 }, { "0:1000000", -EINVAL, 0 },
	{ "8:1", -ENXIO, 0 },	   { "fd:3", -ENXIO, 0 },
	{ "0", -EINVAL, 0 },	   { "0:", -EINVAL, 0 },
	{ ":1", -EINVAL, 0 },	   { ":", -EINVAL, 0 },
	{ "", -EINVAL, 0 },	   { "0:1:2", -EINVAL, 0 },
	{ "0:g", -EINVAL, 0 },	   { "0:-1", -EINVAL, 0 },
	{ "0x0:1", -EINVAL, 0 },   { "0: 1", -EINVAL, 0 },
};

/* Field: B13 */
START_TEST(a_device_number_is_a_tapdisk_s_or_refused)
{
	uint16_t minor = 0;
	int err = keys_device_numbers(devices[_i].text, &minor);

	ck_assert_msg(err == devices[_i].want, "%s: %d", devices[_i].text, err);
	ck_assert_uint_eq(minor, devices[_i].minor);
}
END_TEST

/* --- the table */

static void reach(enum device_state from, bool *reached)
{
	enum device_state next;

	reached[from] = true;
	for (int e = 0; e < NR_DEVICE_EVENTS; e++) {
		next = device_state_next(from, (enum device_event)e);
		if (next != DEVICE_NONE && !reached[next])
			reach(next, reached);
	}
}

START_TEST(every_state_is_reached_and_ends)
{
	bool reached[NR_DEVICE_STATES] = { false };

	reach(DEVICE_UNKNOWN, reached);
	for (int s = DEVICE_UNKNOWN; s < NR_DEVICE_STATES; s++) {
		bool onward[NR_DEVICE_STATES] = { false };
		const char *name = device_state_name((enum device_state)s);

		ck_assert_msg(reached[s], "%s is never reached", name);
		reach((enum device_state)s, onward);
		ck_assert_msg(onward[DEVICE_GONE], "%s has no end", name);
	}
}
END_TEST

/* A tapdisk that serves a ring is told to stop before it is forgotten. */
START_TEST(no_ring_is_left_behind)
{
	static const enum device_state with_ring[] = {
		DEVICE_UNKNOWN,	  DEVICE_PREPARING, DEVICE_CONNECTING,
		DEVICE_CONNECTED, DEVICE_CLOSING,
	};
	static const enum device_state without[] = {
		DEVICE_IDLE,   DEVICE_ASKING, DEVICE_WAITING,
		DEVICE_CLOSED, DEVICE_GONE,
	};
	enum device_state next;

	for (int i = 0; i < COUNT(with_ring); i++) {
		for (int e = 0; e < NR_DEVICE_EVENTS; e++) {
			next = device_state_next(with_ring[i],
						 (enum device_event)e);
			for (int j = 0; j < COUNT(without); j++)
				ck_assert_msg(next != without[j],
					      "%s, event %d, then %s",
					      device_state_name(with_ring[i]),
					      e, device_state_name(next));
		}
	}
}
END_TEST

/* Nothing that a guest or a toolstack does leads past the tapdisk's answer. */
START_TEST(only_an_answer_ends_a_call_that_cannot_be_taken_back)
{
	for (int e = DEVICE_NOTHING; e <= DEVICE_UNPLUGGED; e++) {
		ck_assert_int_eq(device_state_next(DEVICE_CONNECTING,
						   (enum device_event)e),
				 DEVICE_NONE);
		ck_assert_int_eq(device_state_next(DEVICE_DISCONNECTING,
						   (enum device_event)e),
				 DEVICE_NONE);
	}
}
END_TEST

/* --- what a tapdisk says */

START_TEST(a_hello_is_read_as_it_was_written)
{
	const struct vbd_disk_info info = {
		.bytes = UINT64_C(5) << 40,
		.logical_block = 512,
		.physical_block = 4096,
		.discard_granularity = _i & 1 ? 65536 : 0,
		.info = 5,
		.writable = _i & 2,
	};
	struct json_object *json = messages_hello(&info);
	const char *text = json_object_to_json_string(json);
	struct hello hello;

	ck_assert_int_eq(hello_read(text, strlen(text), &hello), 0);
	ck_assert_uint_eq(hello.ring_order_max, 4);
	ck_assert_uint_eq(hello.sectors, (UINT64_C(5) << 40) / 512);
	ck_assert_uint_eq(hello.physical_sector_size, 4096);
	ck_assert_uint_eq(hello.discard_granularity, info.discard_granularity);
	ck_assert_uint_eq(hello.info, 5);
	ck_assert(hello.flush);
	ck_assert_int_eq(hello.barrier, info.writable);
	ck_assert_int_eq(hello.discard, _i == 3);
	json_object_put(json);
}
END_TEST

#define HELLO(order, sectors, physical, ops)                            \
	"{\"ring_order_max\":" order ",\"info\":0,\"sectors\":" sectors \
	",\"physical_sector_size\":" physical                           \
	",\"discard_granularity\":0,\"ops\":" ops "}"

static const struct {
	const char *text;
	int want;
} hellos[] = {
	{ HELLO("4", "8", "512", "[]"), 0 },
	{ HELLO("4", "8", "512", "[\"fly\"]"), 0 },
	{ HELLO("4", "0", "0", "[]"), 0 },
	{ HELLO("5", "8", "512", "[]"), -EINVAL },
	{ HELLO("-1", "8", "512", "[]"), -EINVAL },
	{ HELLO("\"4\"", "8", "512", "[]"), -EINVAL },
	{ HELLO("4", "-8", "512", "[]"), -EINVAL },
	{ HELLO("4", "18014398509481984", "512", "[]"), -EINVAL },
	{ HELLO("4", "8", "0", "[]"), -EINVAL },
	{ HELLO("4", "8", "513", "[]"), -EINVAL },
	{ HELLO("4", "8", "256", "[]"), -EINVAL },
	{ HELLO("4", "8", "512", "[1]"), -EINVAL },
	{ HELLO("4", "8", "512", "{}"), -EINVAL },
	{ HELLO("4", "8", "512", "[\"discard\"]"), -EINVAL },
	{ "{}", -EINVAL },
	{ "[]", -EINVAL },
	{ "", -EINVAL },
};

START_TEST(a_hello_that_makes_no_sense_is_refused)
{
	struct hello hello;

	ck_assert_msg(hello_read(hellos[_i].text, strlen(hellos[_i].text),
				 &hello) == hellos[_i].want,
		      "%s", hellos[_i].text);
}
END_TEST

START_TEST(an_event_is_read_as_it_was_written)
{
	static const struct {
		const char *text;
		int want;
	} odd[] = {
		{ "{\"event\":\"later\"}", -ENOENT },
		{ "{}", -EINVAL },
		{ "{\"event\":1}", -EINVAL },
		{ "", -EINVAL },
		{ "resized", -EINVAL },
	};
	enum vbd_event event;

	for (int i = VBD_RESIZED; i <= VBD_CLOSING; i++) {
		struct json_object *json = messages_event((enum vbd_event)i);
		const char *text = json_object_to_json_string(json);

		ck_assert_int_eq(hello_read_event(text, strlen(text), &event),
				 0);
		ck_assert_int_eq((int)event, i);
		json_object_put(json);
	}
	for (int i = 0; i < COUNT(odd); i++)
		ck_assert_int_eq(hello_read_event(odd[i].text,
						  strlen(odd[i].text), &event),
				 odd[i].want);
}
END_TEST

/* --- the service manager */

START_TEST(the_service_manager_is_told_where_it_listens)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char name[108], got[64];
	socklen_t len;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ssize_t n;

	if (_i) /* a name that is no file */
		snprintf(name, sizeof(name), "@tapback-test-%d", getpid());
	else
		scratch_path(name, sizeof(name), "notify");
	memcpy(at.sun_path, name, strlen(name));
	if (_i)
		at.sun_path[0] = '\0';
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
			  strlen(name));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, len), 0);
	setenv("NOTIFY_SOCKET", name, 1);
	ck_assert_int_eq(notify_service("READY=1"), 0);
	n = recv(fd, got, sizeof(got), MSG_DONTWAIT);
	ck_assert_int_eq(n, 7);
	ck_assert_mem_eq(got, "READY=1", 7);
	close(fd);
}
END_TEST

START_TEST(nobody_is_told_where_nobody_listens)
{
	char name[108];

	unsetenv("NOTIFY_SOCKET");
	ck_assert_int_eq(notify_service("READY=1"), 0);
	setenv("NOTIFY_SOCKET", "somewhere", 1);
	ck_assert_int_eq(notify_service("READY=1"), -EINVAL);
	scratch_path(name, sizeof(name), "missing");
	setenv("NOTIFY_SOCKET", name, 1);
	ck_assert_int_eq(notify_service("READY=1"), -ENOENT);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tapback_parts");
	TCase *tc = tcase_create("tapback_parts");
	SRunner *runner = srunner_create(suite);
	int failed;

	scratch_open();
	tcase_add_loop_test(tc, a_number_is_what_printf_writes, 0,
			    COUNT(numbers));
	tcase_add_test(tc, a_range_includes_its_ends);
	tcase_add_loop_test(tc, a_path_names_one_tapdisk_or_none, 0,
			    COUNT(paths));
	tcase_add_loop_test(tc, a_device_number_is_a_tapdisk_s_or_refused, 0,
			    COUNT(devices));
	tcase_add_test(tc, every_state_is_reached_and_ends);
	tcase_add_test(tc, no_ring_is_left_behind);
	tcase_add_test(tc,
		       only_an_answer_ends_a_call_that_cannot_be_taken_back);
	tcase_add_loop_test(tc, a_hello_is_read_as_it_was_written, 0, 4);
	tcase_add_loop_test(tc, a_hello_that_makes_no_sense_is_refused, 0,
			    COUNT(hellos));
	tcase_add_test(tc, an_event_is_read_as_it_was_written);
	tcase_add_loop_test(tc, the_service_manager_is_told_where_it_listens, 0,
			    2);
	tcase_add_test(tc, nobody_is_told_where_nobody_listens);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
