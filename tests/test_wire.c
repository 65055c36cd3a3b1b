/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control wire against what upstream's own programs said on it: we read
 * what they wrote, and write the same.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/capture.h"
#include "tools/ctl/client.h"
#include "tools/ctl/client_request.h"
#include "tools/ctl/wire.h"

#define IMAGE "aio:/var/tmp/td/a.img"
#define LOG "/var/tmp/td/a.cbt"

static struct wire_message read_message(const char *name, size_t at)
{
	struct wire_message message;
	unsigned char *bytes;
	size_t size;

	bytes = capture_bytes(name, &size);
	ck_assert_msg(size >= at + sizeof(message), "%s: %zu bytes", name,
		      size);
	memcpy(&message, bytes + at, sizeof(message));
	free(bytes);
	return message;
}

START_TEST(every_capture_has_the_header_the_index_says)
{
	struct capture *captures;
	size_t nr;

	captures = capture_index(&nr);
	ck_assert_uint_gt(nr, 80);
	for (size_t i = 0; i < nr; i++) {
		const struct capture *c = &captures[i];
		struct wire_message message = { 0 };
		unsigned char *bytes;
		char name[80];
		size_t size;

		snprintf(name, sizeof(name), "%s.req.hex", c->name);
		bytes = capture_bytes(name, &size);
		ck_assert_msg(size == c->request_size, "%s: %zu", name, size);
		memcpy(&message, bytes, size < WIRE_SIZE ? size : WIRE_SIZE);
		free(bytes);
		ck_assert_msg(message.type == c->request_type &&
				      message.cookie == c->request_cookie,
			      "%s: type %u cookie %u", name, message.type,
			      message.cookie);
	}
	free(captures);
}
END_TEST

START_TEST(client_makes_of_every_reply_what_the_index_says)
{
	struct capture *captures;
	size_t nr;

	captures = capture_index(&nr);
	for (size_t i = 0; i < nr; i++) {
		const struct capture *c = &captures[i];
		struct wire_message reply;
		char name[80];
		int got;

		if (c->reply_size == 0)
			continue;
		snprintf(name, sizeof(name), "%s.rsp.hex", c->name);
		reply = read_message(name, 0);
		got = client_result((uint16_t)c->request_type, &reply);
		ck_assert_msg(got == -c->reply_error, "%s: %d, not %s", name,
			      got, c->reply);
	}
	free(captures);
}
END_TEST

START_TEST(a_reply_that_answers_something_else_is_no_success)
{
	static const struct {
		uint16_t type, reply;
		int32_t error;
		int want;
	} cases[] = {
		{ WIRE_OPEN, WIRE_CLOSE_RSP, 0, -EPROTO },
		{ WIRE_OPEN, WIRE_OPEN, 0, -EPROTO },
		{ WIRE_CLOSE, WIRE_CLOSE_RSP, 16, -EBUSY },
		{ WIRE_CLOSE, WIRE_CLOSE_RSP, -16, -EPROTO },
		{ WIRE_CLOSE, WIRE_CLOSE_RSP, 1 << 20, -EPROTO },
		{ WIRE_CLOSE, WIRE_ERROR, 0, -EPROTO },
		{ WIRE_CLOSE, WIRE_ERROR, INT32_MIN, -EPROTO },
		{ WIRE_FORCE_SHUTDOWN, WIRE_CLOSE_RSP, 0, 0 },
		{ WIRE_FORCE_SHUTDOWN, WIRE_FORCE_SHUTDOWN + 1, 0, -EPROTO },
		{ WIRE_POLLING, WIRE_POLLING + 1, 0, 0 },
		{ WIRE_POLLING, WIRE_ERROR, 22, -EINVAL },
	};
	struct wire_message reply = { .type = cases[_i].reply };

	reply.u.response.error = cases[_i].error;
	ck_assert_int_eq(client_result(cases[_i].type, &reply), cases[_i].want);
}
END_TEST
#define NR_RESULT_CASES 11

START_TEST(params_are_where_upstream_puts_them)
{
	struct wire_message m = read_message("open-2-s.req.hex", 0);

	ck_assert_str_eq(m.u.params.path, IMAGE);
	ck_assert_str_eq(m.u.params.secondary, "aio:/var/tmp/td/sec.img");
	ck_assert_uint_eq(m.u.params.flags, WIRE_SECONDARY | WIRE_STANDBY);
	ck_assert_uint_eq(m.u.params.prt_devnum, UINT32_MAX);

	m = read_message("open-e.req.hex", 0);
	ck_assert_uint_eq(m.u.params.flags, WIRE_REUSE_PRT);
	ck_assert_uint_lt(m.u.params.prt_devnum, 16384);

	m = read_message("open-all-flags.req.hex", 0);
	ck_assert_uint_eq(m.u.params.flags,
			  WIRE_RDONLY | WIRE_NO_O_DIRECT | WIRE_ADD_LOG);
	ck_assert_uint_eq(m.u.params.req_timeout, 65535);
}
END_TEST

START_TEST(blkif_is_where_upstream_puts_it)
{
	struct wire_message m =
		read_message("xenblkif-connect-x86_64-order3-poll.req.hex", 0);

	ck_assert_uint_eq(m.u.blkif.domid, 7);
	ck_assert_uint_eq(m.u.blkif.devid, 51728);
	ck_assert_uint_eq(m.u.blkif.order, 3);
	for (uint32_t i = 0; i < WIRE_GREFS_MAX; i++)
		ck_assert_uint_eq(m.u.blkif.gref[i], 8 + i);
	ck_assert_uint_eq(m.u.blkif.proto, WIRE_X86_64);
	ck_assert_str_eq(m.u.blkif.pool, "");
	ck_assert_uint_eq(m.u.blkif.port, 1);
	ck_assert_uint_eq(m.u.blkif.poll_duration, 1000);
	ck_assert_uint_eq(m.u.blkif.poll_idle_threshold, 50);

	m = read_message("xenblkif-connect-pool.req.hex", 0);
	ck_assert_str_eq(m.u.blkif.pool, "td-xenio-default");
	ck_assert_uint_eq(m.u.blkif.poll_duration, 8000);
}
END_TEST

START_TEST(replies_are_where_upstream_puts_them)
{
	struct wire_message m = read_message("open.rsp.hex", 0);

	ck_assert_uint_eq(m.u.image.sectors, 16384);
	ck_assert_uint_eq(m.u.image.sector_size, 512);
	ck_assert_uint_eq(m.u.image.info, 0);

	m = read_message("list-two.rsp.hex", 0);
	ck_assert_int_eq(m.u.list.count, 2);
	ck_assert_int_eq(m.u.list.minor, 0);
	ck_assert_int_eq(m.u.list.state, 0);
	ck_assert_str_eq(m.u.list.path, IMAGE);
	m = read_message("list-two.rsp.hex", WIRE_SIZE);
	ck_assert_int_eq(m.u.list.count, 1);
	ck_assert_int_eq(m.u.list.minor, 1);
	ck_assert_str_eq(m.u.list.path, "");
	m = read_message("list-two.rsp.hex", (size_t)2 * WIRE_SIZE);
	ck_assert_int_eq(m.u.list.count, 0);
	ck_assert_int_eq(m.u.list.minor, -1);

	m = read_message("stats-open.rsp.hex", 0);
	ck_assert_uint_eq(m.u.info.length, 878 - WIRE_SIZE);
}
END_TEST

/* What tap-ctl would send for the command that made a capture. */
enum maker { PLAIN, OPEN, RESUME, DISCONNECT };

static const unsigned char key[64] = {
	0,  1,	2,  3,	4,  5,	6,  7,	8,  9,	10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
	32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
	48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
};

static const struct sent {
	const char *name;
	enum maker maker;
	uint16_t type, minor;
	struct client_request_image image;
} sent[] = {
	{ "pid", PLAIN, WIRE_PID, 0, { 0 } },
	{ "attach", PLAIN, WIRE_ATTACH, 0, { 0 } },
	{ "attach-no-marker", PLAIN, WIRE_ATTACH, 700, { 0 } },
	{ "list-open", PLAIN, WIRE_LIST, WIRE_COOKIE_ALL, { 0 } },
	{ "stats-open", PLAIN, WIRE_STATS, 0, { 0 } },
	{ "stats-all-attached", PLAIN, WIRE_STATS, WIRE_COOKIE_ALL, { 0 } },
	{ "disk-info", PLAIN, WIRE_DISK_INFO, 0, { 0 } },
	{ "close", PLAIN, WIRE_CLOSE, 1, { 0 } },
	{ "close-unknown-minor", PLAIN, WIRE_CLOSE, 700, { 0 } },
	{ "force-shutdown", PLAIN, WIRE_FORCE_SHUTDOWN, 0, { 0 } },
	{ "detach", PLAIN, WIRE_DETACH, 1, { 0 } },
	{ "pause", PLAIN, WIRE_PAUSE, 0, { 0 } },
	{ "open", OPEN, 0, 0, { .spec = IMAGE } },
	{ "open-unknown-minor", OPEN, 0, 700, { .spec = IMAGE } },
	{ "open-R",
	  OPEN,
	  0,
	  0,
	  { .spec = "aio:/var/tmp/td/ro.img", .flags = WIRE_RDONLY } },
	{ "open-t", OPEN, 0, 0, { .spec = IMAGE, .timeout_s = 30 } },
	{ "open-C", OPEN, 0, 0, { .spec = IMAGE, .log = LOG } },
	{ "open-D",
	  OPEN,
	  0,
	  0,
	  { .spec = "vhd:/var/tmp/td/plain.vhd", .flags = WIRE_NO_O_DIRECT } },
	{ "open-2",
	  OPEN,
	  0,
	  0,
	  { .spec = IMAGE, .secondary = "aio:/var/tmp/td/sec.img" } },
	{ "open-2-s",
	  OPEN,
	  0,
	  0,
	  { .spec = IMAGE,
	    .secondary = "aio:/var/tmp/td/sec.img",
	    .flags = WIRE_STANDBY } },
	{ "open-E-256",
	  OPEN,
	  0,
	  0,
	  { .spec = "vhd:/var/tmp/td/plain.vhd", .key = key, .key_size = 32 } },
	{ "open-E-512",
	  OPEN,
	  0,
	  0,
	  { .spec = "vhd:/var/tmp/td/plain.vhd", .key = key, .key_size = 64 } },
	{ "open-all-flags",
	  OPEN,
	  0,
	  0,
	  { .spec = IMAGE,
	    .log = LOG,
	    .timeout_s = 65535,
	    .flags = WIRE_RDONLY | WIRE_NO_O_DIRECT } },
	{ "resume", RESUME, 0, 0, { 0 } },
	{ "resume-new-path",
	  RESUME,
	  0,
	  0,
	  { .spec = "aio:/var/tmp/td/b.img" } },
	{ "resume-log", RESUME, 0, 0, { .log = LOG } },
	{ "resume-secondary",
	  RESUME,
	  0,
	  0,
	  { .secondary = "aio:/var/tmp/td/sec.img" } },
	{ "resume-secondary-null", RESUME, 0, 0, { .secondary = "null" } },
	{ "xenblkif-disconnect", DISCONNECT, 0, 0, { 0 } },
};
#define NR_SENT ((int)(sizeof(sent) / sizeof(sent[0])))

static int make(const struct sent *s, struct client_request *out)
{
	struct client_request_image image = s->image;

	image.parent_minor = CLIENT_REQUEST_NO_MINOR;
	switch (s->maker) {
	case PLAIN:
		client_request_init(out, s->type, s->minor);
		return 0;
	case OPEN:
		return client_request_open(out, s->minor, &image);
	case RESUME:
		return client_request_resume(out, s->minor, &image);
	case DISCONNECT:
		client_request_disconnect(out, s->minor, 7, 51712);
		return 0;
	}
	return -EINVAL;
}

/* Behind the log path's NUL upstream sends whatever its stack held. */
static size_t text_end(const unsigned char *bytes, size_t size)
{
	size_t end = WIRE_SIZE + strlen((const char *)bytes + WIRE_SIZE) + 1;

	return end < size ? end : size;
}

START_TEST(client_sends_what_upstream_sends)
{
	const struct sent *s = &sent[_i];
	struct client_request request;
	unsigned char *bytes;
	size_t size, end;
	char name[80];

	snprintf(name, sizeof(name), "%s.req.hex", s->name);
	bytes = capture_bytes(name, &size);
	ck_assert_int_eq(make(s, &request), 0);
	ck_assert_msg(size == WIRE_SIZE + request.extra_size, "%s: %zu bytes",
		      name, WIRE_SIZE + request.extra_size);
	for (size_t i = 0; i < WIRE_SIZE; i++)
		ck_assert_msg(((unsigned char *)&request.message)[i] ==
				      bytes[i],
			      "%s: byte %zu", name, i);
	end = s->image.log ? text_end(bytes, size) : size;
	for (size_t i = WIRE_SIZE; i < end; i++)
		ck_assert_msg(request.extra[i - WIRE_SIZE] == bytes[i],
			      "%s: byte %zu", name, i);
	for (size_t i = end; i < size; i++)
		ck_assert_msg(request.extra[i - WIRE_SIZE] == 0,
			      "%s: byte %zu leaks", name, i);
	client_request_fini(&request);
	free(bytes);
}
END_TEST

START_TEST(parent_minor_is_sent_with_its_flag)
{
	const struct client_request_image image = { .spec = IMAGE,
						    .parent_minor = 0 };
	struct client_request request;

	ck_assert_int_eq(client_request_open(&request, 5, &image), 0);
	ck_assert_uint_eq(request.message.u.params.flags, WIRE_REUSE_PRT);
	ck_assert_uint_eq(request.message.u.params.prt_devnum, 0);
	ck_assert_uint_eq(request.message.u.params.devnum, 5);
	client_request_fini(&request);
}
END_TEST

START_TEST(names_that_do_not_fit_are_refused_not_cut)
{
	char name[WIRE_PATH_MAX + 1];
	struct client_request_image spec = { .spec = name };
	struct client_request_image secondary = { .secondary = name };
	struct client_request_image log = { .log = name };
	struct client_request request;
	size_t len = (size_t)WIRE_PATH_MAX - 1 + (size_t)_i;
	int want = _i ? -ENAMETOOLONG : 0;

	memset(name, 'x', len);
	name[len] = '\0';
	ck_assert_int_eq(client_request_open(&request, 0, &spec), want);
	if (want == 0)
		ck_assert_str_eq(request.message.u.params.path, name);
	ck_assert_int_eq(client_request_open(&request, 0, &secondary), want);
	ck_assert_int_eq(client_request_resume(&request, 0, &spec), want);
	ck_assert_int_eq(client_request_open(&request, 0, &log), want);
	if (want == 0)
		client_request_fini(&request);
}
END_TEST

START_TEST(types_have_names)
{
	ck_assert_str_eq(wire_type_name(WIRE_PID), "pid");
	ck_assert_str_eq(wire_type_name(WIRE_LIST_RSP), "list response");
	ck_assert_str_eq(wire_type_name(WIRE_CONNECT), "connect");
	ck_assert_str_eq(wire_type_name(WIRE_POLLING), "polling");
	ck_assert_str_eq(wire_type_name(0), "unknown");
	ck_assert_str_eq(wire_type_name(31), "unknown");
	ck_assert_str_eq(wire_type_name(65535), "unknown");
	for (uint16_t type = WIRE_ERROR; type <= WIRE_EXIT; type++)
		ck_assert_str_ne(wire_type_name(type), "unknown");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wire");
	TCase *reads = tcase_create("reads");
	TCase *writes = tcase_create("writes");
	SRunner *runner;
	int failed;

	tcase_add_test(reads, every_capture_has_the_header_the_index_says);
	tcase_add_test(reads, client_makes_of_every_reply_what_the_index_says);
	tcase_add_loop_test(reads,
			    a_reply_that_answers_something_else_is_no_success,
			    0, NR_RESULT_CASES);
	tcase_add_test(reads, params_are_where_upstream_puts_them);
	tcase_add_test(reads, blkif_is_where_upstream_puts_it);
	tcase_add_test(reads, replies_are_where_upstream_puts_them);
	tcase_add_loop_test(writes, client_sends_what_upstream_sends, 0,
			    NR_SENT);
	tcase_add_test(writes, parent_minor_is_sent_with_its_flag);
	tcase_add_loop_test(writes, names_that_do_not_fit_are_refused_not_cut,
			    0, 2);
	tcase_add_test(writes, types_have_names);
	suite_add_tcase(suite, reads);
	suite_add_tcase(suite, writes);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
