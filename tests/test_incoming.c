/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of the control wire that come in pieces, and what never is one. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tools/tapdisk/incoming.h"

#define LOG WIRE_LOG_PATH_SIZE

static const struct {
	const char *why;
	uint16_t type;
	uint32_t flags; /* of OPEN and RESUME */
	uint64_t length; /* of ours */
	uint8_t key_size;
	size_t extra; /* bytes after the message */
} good[] = {
	{ "no flags", WIRE_OPEN, 0, 0, 0, 0 },
	{ "a log", WIRE_OPEN, WIRE_ADD_LOG, 0, 0, LOG },
	{ "a key", WIRE_OPEN, WIRE_OPEN_ENCRYPTED, 0, 32, 33 },
	{ "the shortest key", WIRE_OPEN, WIRE_OPEN_ENCRYPTED, 0, 1, 2 },
	{ "the longest key", WIRE_OPEN, WIRE_OPEN_ENCRYPTED, 0, 128, 129 },
	{ "log, then key", WIRE_OPEN, WIRE_ADD_LOG | WIRE_OPEN_ENCRYPTED, 0, 64,
	  LOG + 65 },
	{ "resume with log", WIRE_RESUME, WIRE_ADD_LOG, 0, 0, LOG },
	{ "resume has no key", WIRE_RESUME, WIRE_OPEN_ENCRYPTED, 0, 0, 0 },
	{ "flags elsewhere", WIRE_PID, WIRE_ADD_LOG | WIRE_OPEN_ENCRYPTED, 0, 0,
	  0 },
	{ "unknown types", 31, 0, 0, 0, 0 },
	{ "no text", WIRE_POLLING, 0, 0, 0, 0 },
	{ "two bytes", WIRE_POLLING, 0, 2, 0, 2 },
	{ "the longest text", WIRE_CONNECT, 0, WIRE_JSON_MAX, 0,
	  WIRE_JSON_MAX },
};

static const size_t pieces[] = { 1, 7, 543, 545, 70000 };
#define NR_PIECES (sizeof(pieces) / sizeof(pieces[0]))
#define NR_GOOD (sizeof(good) / sizeof(good[0]))

static uint8_t *build(size_t i, size_t *size)
{
	struct wire_message m = { .type = good[i].type };
	uint8_t *bytes;
	size_t key;

	if (good[i].type >= WIRE_CONNECT)
		m.u.info.length = good[i].length;
	else
		m.u.params.flags = good[i].flags;
	*size = sizeof(m) + good[i].extra;
	bytes = malloc(*size);
	ck_assert(bytes != NULL);
	memset(bytes, 0xee, *size);
	memcpy(bytes, &m, sizeof(m));
	key = sizeof(m) + (good[i].flags & WIRE_ADD_LOG ? LOG : 0);
	if (good[i].key_size)
		bytes[key] = good[i].key_size;
	return bytes;
}

/* Feed @n bytes in steps of @step at most; the bytes that were taken. */
static size_t feed(struct incoming *incoming, const uint8_t *bytes, size_t n,
		   size_t step, int *ret)
{
	size_t fed = 0, space;
	void *to;

	for (*ret = 0; *ret == 0 && fed < n; fed += space) {
		space = incoming_space(incoming, &to);
		ck_assert_uint_gt(space, 0);
		if (space > step)
			space = step;
		if (space > n - fed)
			space = n - fed;
		memcpy(to, bytes + fed, space);
		*ret = incoming_received(incoming, space);
	}
	return fed;
}

START_TEST(takes_all_of_a_request_in_any_pieces)
{
	size_t which = (size_t)_i / NR_PIECES, size, text_len;
	uint8_t *bytes = build(which, &size);
	struct incoming incoming;
	void *to;
	int ret;

	incoming_init(&incoming);
	ck_assert_msg(feed(&incoming, bytes, size,
			   pieces[(size_t)_i % NR_PIECES], &ret) == size &&
			      ret == 1,
		      "%s: %d", good[which].why, ret);
	ck_assert_uint_eq(incoming_space(&incoming, &to), 0);
	ck_assert_mem_eq(&incoming.message, bytes, WIRE_SIZE);
	if (good[which].extra)
		ck_assert_mem_eq(incoming.extra, bytes + WIRE_SIZE,
				 good[which].extra);
	if (good[which].type >= WIRE_CONNECT) {
		incoming_json(&incoming, &text_len);
		ck_assert_uint_eq(text_len, good[which].length);
	}
	incoming_fini(&incoming);
	free(bytes);
}
END_TEST

START_TEST(is_not_complete_one_byte_before_its_end)
{
	size_t size;
	uint8_t *bytes = build((size_t)_i, &size);
	struct incoming incoming;
	int ret;

	incoming_init(&incoming);
	feed(&incoming, bytes, size - 1, size, &ret);
	ck_assert_msg(ret == 0, "%s: %d", good[_i].why, ret);
	incoming_fini(&incoming);
	free(bytes);
}
END_TEST

static const struct {
	const char *why;
	uint16_t type;
	uint32_t flags;
	uint64_t length;
	int key_size; /* -1: none is sent */
	uint8_t path; /* every byte of it */
} bad[] = {
	{ "path without an end", WIRE_OPEN, 0, 0, -1, 'x' },
	{ "nor where there is none", WIRE_PID, 0, 0, -1, 'x' },
	{ "nor of no known type", 99, 0, 0, -1, 'x' },
	{ "no key", WIRE_OPEN, WIRE_OPEN_ENCRYPTED, 0, 0, 0 },
	{ "long key", WIRE_OPEN, WIRE_OPEN_ENCRYPTED, 0, 129, 0 },
	{ "long text", WIRE_POLLING, 0, WIRE_JSON_MAX + 1, -1, 0 },
	{ "length that wraps", WIRE_POLLING, 0, UINT64_MAX, -1, 0 },
	{ "length that wraps with the message", WIRE_POLLING, 0,
	  UINT64_MAX - WIRE_SIZE + 1, -1, 0 },
	{ "negative length", 65535, 0, UINT64_C(1) << 63, -1, 0 },
};

START_TEST(refuses_what_never_becomes_a_request)
{
	struct wire_message m = { .type = bad[_i].type };
	struct incoming incoming;
	uint8_t bytes[WIRE_SIZE + 1];
	size_t n = WIRE_SIZE;
	int ret;

	if (bad[_i].type >= WIRE_CONNECT) {
		m.u.info.length = bad[_i].length;
	} else {
		m.u.params.flags = bad[_i].flags;
		memset(m.u.params.path, bad[_i].path, WIRE_PATH_MAX);
	}
	memcpy(bytes, &m, sizeof(m));
	if (bad[_i].key_size >= 0)
		bytes[n++] = (uint8_t)bad[_i].key_size;
	incoming_init(&incoming);
	feed(&incoming, bytes, n, n, &ret);
	ck_assert_msg(ret == -EINVAL, "%s: %d", bad[_i].why, ret);
	incoming_fini(&incoming);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("incoming");
	TCase *tcase = tcase_create("incoming");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, takes_all_of_a_request_in_any_pieces, 0,
			    (int)(NR_GOOD * NR_PIECES));
	tcase_add_loop_test(tcase, is_not_complete_one_byte_before_its_end, 0,
			    (int)NR_GOOD);
	tcase_add_loop_test(tcase, refuses_what_never_becomes_a_request, 0,
			    (int)(sizeof(bad) / sizeof(bad[0])));
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
