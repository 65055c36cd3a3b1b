/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an NBD connection begins: whole conversations to the byte, in pieces of
 * every size, and what clients may not say.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "tests/dice.h"
#include "tools/tapdisk/nbd_handshake.h"
#include "tools/tapdisk/nbd_wire.h"

#define GREETING "NBDMAGICIHAVEOPT\0\3"
#define OPT "IHAVEOPT"
#define REP "\0\3\xe8\x89\4\x55\x65\xa9"
#define FLAGS "\0\0\0\3"
#define ACK(option) REP "\0\0\0" option "\0\0\0\1\0\0\0\0"
#define SIZE "\0\0\0\0\0\x80\0\0" /* 8 MiB */
#define EXPORT(option)                                               \
	REP "\0\0\0" option "\0\0\0\3\0\0\0\x0c\0\0" SIZE "\1\1" REP \
	    "\0\0\0" option "\0\0\0\3\0\0\0\x0e\0\3"                 \
	    "\0\0\2\0\0\0\x10\0\2\0\0\0"
#define GO OPT "\0\0\0\7\0\0\0\6\0\0\0\0\0\0"
#define BASE_ALLOCATION \
	"\0\0\0\x0f"    \
	"base:allocation"
#define TEN_ZEROES "\0\0\0\0\0\0\0\0\0\0"
#define ZEROES_124                                                        \
	TEN_ZEROES TEN_ZEROES TEN_ZEROES TEN_ZEROES TEN_ZEROES TEN_ZEROES \
		TEN_ZEROES TEN_ZEROES TEN_ZEROES TEN_ZEROES TEN_ZEROES    \
			TEN_ZEROES "\0\0\0\0"

static const struct nbd_export export = {
	.bytes = 8 << 20,
	.flags = NBD_HAS_FLAGS | NBD_CAN_MULTI_CONN,
	.block_min = 512,
	.block_preferred = 4096,
	.block_max = 32 << 20,
};

#define TEXT(t) t, sizeof(t) - 1

/* What a client says is answered so, and the state is then this one. */
static const struct {
	const char *why;
	const char *in;
	size_t in_len;
	const char *out;
	size_t out_len;
	enum nbd_handshake_state end;
	bool structured, allocation;
} talks[] = {
	{ "a client that says nothing", TEXT(""), TEXT(GREETING),
	  NBD_CLIENT_FLAGS, false, false },
	{ "GO without a name", TEXT(FLAGS GO),
	  TEXT(GREETING EXPORT("\7") ACK("\7")), NBD_TRANSMISSION, false,
	  false },
	{ "INFO of any name, then GO with requests for information",
	  TEXT(FLAGS OPT "\0\0\0\6\0\0\0\x0e\0\0\0\x08"
			 "anything"
			 "\0\0" OPT "\0\0\0\7\0\0\0\x0d\0\0\0\5"
			 "other"
			 "\0\1\0\3"),
	  TEXT(GREETING EXPORT("\6") ACK("\6") EXPORT("\7") ACK("\7")),
	  NBD_TRANSMISSION, false, false },
	{ "EXPORT_NAME, without the zeroes",
	  TEXT(FLAGS OPT "\0\0\0\1\0\0\0\4"
			 "disk"),
	  TEXT(GREETING SIZE "\1\1"), NBD_TRANSMISSION, false, false },
	{ "EXPORT_NAME of an old client",
	  TEXT("\0\0\0\0" OPT "\0\0\0\1\0\0\0\0"),
	  TEXT(GREETING SIZE "\1\1" ZEROES_124), NBD_TRANSMISSION, false,
	  false },
	{ "an option that an old client cannot know",
	  TEXT("\0\0\0\0" OPT "\0\0\0\7\0\0\0\0"), TEXT(GREETING), NBD_HANG_UP,
	  false, false },
	{ "ABORT", TEXT(FLAGS OPT "\0\0\0\2\0\0\0\0"), TEXT(GREETING ACK("\2")),
	  NBD_HANG_UP, false, false },
	{ "LIST", TEXT(FLAGS OPT "\0\0\0\3\0\0\0\0"),
	  TEXT(GREETING REP "\0\0\0\3\0\0\0\2\0\0\0\x12\0\0\0\x0e"
			    "tapdisk_client" ACK("\3")),
	  NBD_OPTION_HEADER, false, false },
	/* row N01 of the field reports: the next option is understood */
	{ "an unknown option with data, then GO",
	  TEXT(FLAGS OPT "\0\0\0\x7f\0\0\0\4"
			 "abcd" GO),
	  TEXT(GREETING REP "\0\0\0\x7f\x80\0\0\1\0\0\0\0" EXPORT("\7")
		       ACK("\7")),
	  NBD_TRANSMISSION, false, false },
	{ "STARTTLS, which we have not", TEXT(FLAGS OPT "\0\0\0\5\0\0\0\0"),
	  TEXT(GREETING REP "\0\0\0\5\x80\0\0\1\0\0\0\0"), NBD_OPTION_HEADER,
	  false, false },
	{ "structured replies and base:allocation",
	  TEXT(FLAGS OPT "\0\0\0\x08\0\0\0\0" OPT "\0\0\0\x0a\0\0\0\x1b"
			 "\0\0\0\0\0\0\0\1" BASE_ALLOCATION GO),
	  TEXT(GREETING ACK("\x08") REP "\0\0\0\x0a\0\0\0\4\0\0\0\x13\0\0\0\1"
					"base:allocation" ACK("\x0a")
						EXPORT("\7") ACK("\7")),
	  NBD_TRANSMISSION, true, true },
	{ "structured replies, and then asked for wrongly",
	  TEXT(FLAGS OPT "\0\0\0\x08\0\0\0\0" OPT "\0\0\0\x0a\0\0\0\x1b"
			 "\0\0\0\0\0\0\0\1" BASE_ALLOCATION OPT
			 "\0\0\0\x08\0\0\0\1"
			 "x"),
	  TEXT(GREETING ACK("\x08") REP "\0\0\0\x0a\0\0\0\4\0\0\0\x13\0\0\0\1"
					"base:allocation" ACK("\x0a") REP
	       "\0\0\0\x08\x80\0\0\3\0\0\0\0"),
	  NBD_OPTION_HEADER, false, false },
	{ "another context",
	  TEXT(FLAGS OPT "\0\0\0\x08\0\0\0\0" OPT "\0\0\0\x0a\0\0\0\x16"
			 "\0\0\0\0\0\0\0\1\0\0\0\x0a"
			 "qemu:dirty"),
	  TEXT(GREETING ACK("\x08") ACK("\x0a")), NBD_OPTION_HEADER, true,
	  false },
	{ "the list of contexts",
	  TEXT(FLAGS OPT "\0\0\0\x09\0\0\0\x08\0\0\0\0\0\0\0\0"),
	  TEXT(GREETING REP "\0\0\0\x09\0\0\0\4\0\0\0\x13\0\0\0\0"
			    "base:allocation" ACK("\x09")),
	  NBD_OPTION_HEADER, false, false },
	{ "a context without structured replies",
	  TEXT(FLAGS OPT
	       "\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\1" BASE_ALLOCATION),
	  TEXT(GREETING REP "\0\0\0\x0a\x80\0\0\3\0\0\0\0"), NBD_OPTION_HEADER,
	  false, false },
	{ "a name longer than its option",
	  TEXT(FLAGS OPT "\0\0\0\7\0\0\0\6\xff\xff\xff\xff\0\0"),
	  TEXT(GREETING REP "\0\0\0\7\x80\0\0\3\0\0\0\0"), NBD_OPTION_HEADER,
	  false, false },
	{ "a query longer than its option",
	  TEXT(FLAGS OPT
	       "\0\0\0\x09\0\0\0\x0c\0\0\0\0\0\0\0\1\xff\xff\xff\xfc"),
	  TEXT(GREETING REP "\0\0\0\x09\x80\0\0\3\0\0\0\0"), NBD_OPTION_HEADER,
	  false, false },
	{ "more queries than its option holds",
	  TEXT(FLAGS OPT "\0\0\0\x09\0\0\0\x08\0\0\0\0\xff\xff\xff\xff"),
	  TEXT(GREETING REP "\0\0\0\x09\x80\0\0\3\0\0\0\0"), NBD_OPTION_HEADER,
	  false, false },
	{ "a wrong magic", TEXT(FLAGS "IHAVEOPX\0\0\0\7\0\0\0\0"),
	  TEXT(GREETING), NBD_HANG_UP, false, false },
	{ "an option of 64 MiB and a byte", TEXT(FLAGS OPT "\0\0\0\7\4\0\0\1"),
	  TEXT(GREETING), NBD_HANG_UP, false, false },
	{ "flags that nobody defined", TEXT("\0\0\0\x13"), TEXT(GREETING),
	  NBD_HANG_UP, false, false },
};

#define NR_TALKS (sizeof(talks) / sizeof(talks[0]))
static const size_t pieces[] = { 1, 3, 16, 4096 };
#define NR_PIECES (sizeof(pieces) / sizeof(pieces[0]))

struct talk {
	struct nbd_handshake h;
	uint8_t said[4096];
	size_t said_len;
};

static void listen_to(struct talk *t)
{
	ck_assert(t->said_len + t->h.out_len <= sizeof(t->said));
	memcpy(t->said + t->said_len, t->h.out, t->h.out_len);
	t->said_len += t->h.out_len;
	t->h.out_len = 0;
}

/* Returns how much of @in was taken. */
static size_t say(struct talk *t, const void *in, size_t len, size_t piece)
{
	size_t at = 0, n;
	void *to;

	listen_to(t);
	while (at < len && t->h.state < NBD_TRANSMISSION) {
		n = nbd_handshake_space(&t->h, &to);
		ck_assert_uint_gt(n, 0);
		if (n > piece)
			n = piece;
		if (n > len - at)
			n = len - at;
		memcpy(to, (const char *)in + at, n);
		nbd_handshake_received(&t->h, n);
		listen_to(t);
		at += n;
	}
	return at;
}

START_TEST(conversations_go_as_the_protocol_says)
{
	size_t i = (size_t)_i / NR_PIECES;
	struct talk t = { 0 };
	size_t taken;

	nbd_handshake_init(&t.h, NBD_NEW_STYLE, &export);
	taken = say(&t, talks[i].in, talks[i].in_len,
		    pieces[(size_t)_i % NR_PIECES]);
	ck_assert_msg(taken == talks[i].in_len, "%s: took %zu", talks[i].why,
		      taken);
	ck_assert_msg(t.h.state == talks[i].end, "%s: state %d", talks[i].why,
		      t.h.state);
	ck_assert_msg(t.said_len == talks[i].out_len, "%s: said %zu bytes",
		      talks[i].why, t.said_len);
	ck_assert_msg(!memcmp(t.said, talks[i].out, t.said_len), "%s",
		      talks[i].why);
	ck_assert_msg(t.h.structured == talks[i].structured &&
			      t.h.allocation == talks[i].allocation,
		      "%s", talks[i].why);
}
END_TEST

START_TEST(a_request_behind_the_handshake_is_left_alone)
{
	static const char in[] = FLAGS GO "a request";
	struct talk t = { 0 };

	nbd_handshake_init(&t.h, NBD_NEW_STYLE, &export);
	ck_assert_uint_eq(say(&t, in, sizeof(in) - 1, 4096),
			  sizeof(in) - sizeof("a request"));
}
END_TEST

START_TEST(a_long_option_is_passed_over)
{
	static const uint8_t head[] = OPT "\0\0\0\7\4\0\0\0"; /* 64 MiB */
	static uint8_t chunk[NBD_OPTION_KEPT];
	struct talk t = { 0 };

	nbd_handshake_init(&t.h, NBD_NEW_STYLE, &export);
	say(&t, FLAGS, 4, 4);
	say(&t, head, sizeof(head) - 1, 16);
	for (size_t n = 0; n < NBD_OPTION_MAX; n += sizeof(chunk)) {
		ck_assert_int_eq(t.h.state, NBD_OPTION_SKIPPED);
		ck_assert_uint_eq(say(&t, chunk, sizeof(chunk), 4096),
				  sizeof(chunk));
	}
	ck_assert_mem_eq(t.said + 18, REP "\0\0\0\7\x80\0\0\x09\0\0\0\0", 20);
	say(&t, GO, sizeof(GO) - 1, 4096);
	ck_assert_int_eq(t.h.state, NBD_TRANSMISSION);
}
END_TEST

START_TEST(options_come_to_an_end)
{
	struct talk t = { 0 };
	unsigned n = 0;

	nbd_handshake_init(&t.h, NBD_NEW_STYLE, &export);
	say(&t, FLAGS, 4, 4);
	for (; t.h.state == NBD_OPTION_HEADER; n++) {
		t.said_len = 0;
		say(&t, OPT "\0\0\0\3\0\0\0\0", 16, 16);
	}
	ck_assert_uint_eq(n, NBD_OPTIONS_MAX + 1);
	ck_assert_int_eq(t.h.state, NBD_HANG_UP);
}
END_TEST

START_TEST(the_old_style_is_a_greeting)
{
	struct talk t = { 0 };

	nbd_handshake_init(&t.h, NBD_OLD_STYLE, &export);
	ck_assert_int_eq(t.h.state, NBD_TRANSMISSION);
	ck_assert_uint_eq(t.h.out_len, 152);
	ck_assert_mem_eq(t.h.out,
			 "NBDMAGIC\0\0\x42\2\x81\x86\x12\x53" SIZE
			 "\0\0\1\1" ZEROES_124,
			 152);
}
END_TEST

/* Under the sanitizers this is where an unbounded length would show. */
START_TEST(random_options_harm_nobody)
{
	static uint8_t in[4096];
	struct dice dice;

	dice.state = (uint64_t)_i;
	for (unsigned round = 0; round < 300; round++) {
		struct talk t = { 0 };
		size_t at = 0;

		nbd_handshake_init(&t.h, NBD_NEW_STYLE, &export);
		say(&t, FLAGS, 4, 4);
		while (t.h.state < NBD_TRANSMISSION && at < 50) {
			uint32_t len = (uint32_t)dice_below(&dice, 40);

			memcpy(in, OPT "\0\0\0\0\0\0\0", 16);
			in[11] = (uint8_t)dice_below(&dice, 12);
			in[15] = (uint8_t)len;
			for (uint32_t i = 0; i < len; i++)
				in[16 + i] =
					(uint8_t)(dice_below(&dice, 4)
							  ? 0
							  : dice_below(&dice,
								       256));
			t.said_len = 0;
			say(&t, in, 16 + len, 1 + dice_below(&dice, 32));
			at++;
		}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("nbd_handshake");
	TCase *tc = tcase_create("nbd_handshake");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, conversations_go_as_the_protocol_says, 0,
			    NR_TALKS * NR_PIECES);
	tcase_add_test(tc, a_request_behind_the_handshake_is_left_alone);
	tcase_add_test(tc, a_long_option_is_passed_over);
	tcase_add_test(tc, options_come_to_an_end);
	tcase_add_test(tc, the_old_style_is_a_greeting);
	tcase_add_loop_test(tc, random_options_harm_nobody, 0, 4);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
