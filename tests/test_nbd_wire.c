/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and replies of NBD's transmission phase, to the byte. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tools/tapdisk/nbd_wire.h"

#define COOKIE UINT64_C(0x0102030405060708)

static uint8_t out[NBD_HEADER_MAX];

static size_t simple_ok(void)
{
	return nbd_wire_done(false, COOKIE, 0, out);
}

static size_t simple_error(void)
{
	return nbd_wire_done(false, COOKIE, -EPERM, out);
}

static size_t simple_data(void)
{
	return nbd_wire_simple_data(COOKIE, out);
}

static size_t structured_ok(void)
{
	return nbd_wire_done(true, COOKIE, 0, out);
}

static size_t structured_error(void)
{
	return nbd_wire_done(true, COOKIE, -ENOSPC, out);
}

static size_t data_piece(void)
{
	return nbd_wire_data(COOKIE, 0x1000, 512, false, out);
}

static size_t data_last(void)
{
	return nbd_wire_data(COOKIE, 0x1000, 512, true, out);
}

static size_t extents(void)
{
	static const struct nbd_extent two[] = {
		{ 4096, 0 }, { 8192, NBD_HOLE | NBD_ZERO }
	};

	return nbd_wire_extents(COOKIE, two, 2, out);
}

#define HANDLE "\1\2\3\4\5\6\7\10"

static const struct {
	const char *why;
	size_t (*make)(void);
	const char *want;
	size_t len;
} replies[] = {
	{ "simple, ok", simple_ok, "\x67\x44\x66\x98\0\0\0\0" HANDLE, 16 },
	{ "simple, error, which is positive", simple_error,
	  "\x67\x44\x66\x98\0\0\0\1" HANDLE, 16 },
	{ "simple, data follow", simple_data, "\x67\x44\x66\x98\0\0\0\0" HANDLE,
	  16 },
	{ "structured, ok", structured_ok,
	  "\x66\x8e\x33\xef\0\1\0\0" HANDLE "\0\0\0\0", 20 },
	{ "structured, error", structured_error,
	  "\x66\x8e\x33\xef\0\1\x80\1" HANDLE "\0\0\0\6\0\0\0\x1c\0\0", 26 },
	{ "a piece of the data", data_piece,
	  "\x66\x8e\x33\xef\0\0\0\1" HANDLE "\0\0\2\x08\0\0\0\0\0\0\x10\0",
	  28 },
	{ "the last piece", data_last,
	  "\x66\x8e\x33\xef\0\1\0\1" HANDLE "\0\0\2\x08\0\0\0\0\0\0\x10\0",
	  28 },
	{ "extents", extents,
	  "\x66\x8e\x33\xef\0\1\0\5" HANDLE "\0\0\0\x14\0\0\0\1"
	  "\0\0\x10\0\0\0\0\0\0\0\x20\0\0\0\0\3",
	  40 },
};

START_TEST(replies_are_the_protocols)
{
	size_t len;

	memset(out, 0xee, sizeof(out));
	len = replies[_i].make();
	ck_assert_msg(len == replies[_i].len, "%s: %zu bytes", replies[_i].why,
		      len);
	ck_assert_msg(!memcmp(out, replies[_i].want, len), "%s",
		      replies[_i].why);
	ck_assert_msg(out[len] == 0xee, "%s: one byte too many",
		      replies[_i].why);
}
END_TEST

START_TEST(a_request_is_taken_apart)
{
	static const uint8_t bytes[] =
		"\x25\x60\x95\x13\0\1\0\6" HANDLE "\0\0\0\1\2\3\4\5\x10\0\2\0";
	struct nbd_request r;

	ck_assert_int_eq(nbd_wire_request(bytes, &r), 0);
	ck_assert_uint_eq(r.flags, NBD_FUA);
	ck_assert_uint_eq(r.type, NBD_WRITE_ZEROES);
	ck_assert(r.cookie == COOKIE);
	ck_assert_uint_eq(r.offset, UINT64_C(0x102030405));
	ck_assert_uint_eq(r.len, 0x10000200);
}
END_TEST

START_TEST(any_wrong_bit_of_the_magic_is_noticed)
{
	uint8_t bytes[NBD_REQUEST_SIZE] = { 0x25, 0x60, 0x95, 0x13 };
	struct nbd_request r;

	bytes[_i / 8] ^= (uint8_t)(1 << _i % 8);
	ck_assert_int_eq(nbd_wire_request(bytes, &r), -EPROTO);
}
END_TEST

static const struct {
	int err;
	uint8_t wire;
} errors[] = {
	{ 0, 0 },
	{ -EPERM, 1 },
	{ -EROFS, 1 },
	{ -EIO, 5 },
	{ -ENOMEM, 12 },
	{ -EINVAL, 22 },
	{ -ENOSPC, 28 },
	{ -EFBIG, 28 },
	{ -EOVERFLOW, 75 },
	{ -EOPNOTSUPP, 95 },
	{ -ESHUTDOWN, 108 },
	{ -EREMOTEIO, 5 },
};

START_TEST(every_error_has_a_word_that_clients_know)
{
	nbd_wire_done(false, 0, errors[_i].err, out);
	ck_assert_uint_eq(out[7], errors[_i].wire);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("nbd_wire");
	TCase *tc = tcase_create("nbd_wire");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, replies_are_the_protocols, 0,
			    sizeof(replies) / sizeof(replies[0]));
	tcase_add_test(tc, a_request_is_taken_apart);
	tcase_add_loop_test(tc, any_wrong_bit_of_the_magic_is_noticed, 0, 32);
	tcase_add_loop_test(tc, every_error_has_a_word_that_clients_know, 0,
			    sizeof(errors) / sizeof(errors[0]));
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
