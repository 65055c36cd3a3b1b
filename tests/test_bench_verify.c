/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What blkfront-bench --verify stands on: sectors that say what they are, and
 * no two I/Os on one block at a time.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/blocks.h"
#include "tests/bench/stamps.h"

#define BLOCK 4096u
#define NR_BLOCKS 8u

enum damage {
	NONE,
	OLD_GENERATION,
	NEXT_GENERATION,
	OTHER_BLOCK,
	OTHER_RUN,
	ONE_BIT,
	ZEROS,
	HALF_OLD,
	NR_DAMAGES
};

static const struct {
	const char *why;
	unsigned wrong; /* sectors of the block's 8 */
} damages[NR_DAMAGES] = {
	[NONE] = { "nothing is wrong", 0 },
	[OLD_GENERATION] = { "a lost write", 8 },
	[NEXT_GENERATION] = { "a write that was not sent", 8 },
	[OTHER_BLOCK] = { "another block", 8 },
	[OTHER_RUN] = { "left by another run", 8 },
	[ONE_BIT] = { "one bit", 1 },
	[ZEROS] = { "zeros", 8 },
	[HALF_OLD] = { "a torn write", 4 },
};

static void inflict(const struct stamps *s, uint8_t *data, enum damage damage)
{
	struct stamps other = *s;

	stamps_fill(s, data, 24, BLOCK, 5);
	switch (damage) {
	case OLD_GENERATION:
		stamps_fill(s, data, 24, BLOCK, 4);
		break;
	case NEXT_GENERATION:
		stamps_fill(s, data, 24, BLOCK, 6);
		break;
	case OTHER_BLOCK:
		stamps_fill(s, data, 32, BLOCK, 5);
		break;
	case OTHER_RUN:
		other.salt++;
		stamps_fill(&other, data, 24, BLOCK, 5);
		break;
	case ONE_BIT:
		data[3 * 512 + 511] ^= 0x10;
		break;
	case ZEROS:
		memset(data, 0, BLOCK);
		break;
	case HALF_OLD:
		stamps_fill(s, data + BLOCK / 2, 28, BLOCK / 2, 4);
		break;
	default:
		break;
	}
}

START_TEST(every_damage_is_seen)
{
	uint64_t data[BLOCK / 8], bad;
	struct stamps_found found;
	struct stamps s;
	unsigned wrong;

	ck_assert_int_eq(stamps_init(&s, BLOCK, NR_BLOCKS, 77), 0);
	stamps_written(&s, 3, 5);
	inflict(&s, (uint8_t *)data, (enum damage)_i);
	wrong = stamps_check(&s, data, 24, BLOCK, &bad, &found);
	ck_assert_msg(wrong == damages[_i].wrong, "%s: %u", damages[_i].why,
		      wrong);
	stamps_fini(&s);
}
END_TEST

/* After a discard zeros or the old data, after a failed write anything ours. */
START_TEST(what_cannot_be_known_is_not_held_against_the_disk)
{
	uint64_t data[BLOCK / 8], bad;
	struct stamps_found found;
	struct stamps s;

	ck_assert_int_eq(stamps_init(&s, BLOCK, NR_BLOCKS, 77), 0);
	stamps_written(&s, 3, 5);
	stamps_discarded(&s, 3);
	inflict(&s, (uint8_t *)data, ZEROS);
	ck_assert_uint_eq(stamps_check(&s, data, 24, BLOCK, &bad, &found), 0);
	inflict(&s, (uint8_t *)data, NONE);
	ck_assert_uint_eq(stamps_check(&s, data, 24, BLOCK, &bad, &found), 0);
	inflict(&s, (uint8_t *)data, OLD_GENERATION);
	ck_assert_uint_eq(stamps_check(&s, data, 24, BLOCK, &bad, &found), 8);

	stamps_written(&s, 3, 5);
	inflict(&s, (uint8_t *)data, ZEROS);
	ck_assert_uint_eq(stamps_check(&s, data, 24, BLOCK, &bad, &found), 8);
	stamps_unsure(&s, 3);
	inflict(&s, (uint8_t *)data, HALF_OLD);
	ck_assert_uint_eq(stamps_check(&s, data, 24, BLOCK, &bad, &found), 0);
	inflict(&s, (uint8_t *)data, OTHER_BLOCK);
	ck_assert_uint_eq(stamps_check(&s, data, 24, BLOCK, &bad, &found), 8);
	stamps_fini(&s);
}
END_TEST

START_TEST(no_block_is_in_flight_twice)
{
	bool taken[100] = { false };
	struct blocks b;
	uint64_t block;
	unsigned i;

	ck_assert_int_eq(blocks_init(&b, 100, _i, true, 1), 0);
	for (i = 0; i < 100; i++) {
		ck_assert_int_eq(blocks_take(&b, &block), 0);
		ck_assert_uint_lt(block, 100);
		ck_assert(!taken[block]);
		taken[block] = true;
	}
	ck_assert_int_eq(blocks_take(&b, &block), -EBUSY);
	blocks_give(&b, 42);
	ck_assert_int_eq(blocks_take(&b, &block), 0);
	ck_assert_uint_eq(block, 42);
	blocks_fini(&b);
}
END_TEST

START_TEST(sequential_goes_round_and_random_reaches_all)
{
	unsigned seen[10] = { 0 }, i;
	struct blocks b;
	uint64_t block;

	ck_assert_int_eq(blocks_init(&b, 10, false, false, 1), 0);
	for (i = 0; i < 25; i++) {
		ck_assert_int_eq(blocks_take(&b, &block), 0);
		ck_assert_uint_eq(block, i % 10);
	}
	blocks_fini(&b);
	ck_assert_int_eq(blocks_init(&b, 10, true, false, 1), 0);
	for (i = 0; i < 1000; i++) {
		ck_assert_int_eq(blocks_take(&b, &block), 0);
		seen[block]++;
	}
	for (i = 0; i < 10; i++)
		ck_assert_uint_gt(seen[i], 50);
	blocks_fini(&b);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench verify");
	TCase *tc = tcase_create("bench verify");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tc);
	tcase_add_loop_test(tc, every_damage_is_seen, 0, NR_DAMAGES);
	tcase_add_test(tc, what_cannot_be_known_is_not_held_against_the_disk);
	tcase_add_loop_test(tc, no_block_is_in_flight_twice, 0, 2);
	tcase_add_test(tc, sequential_goes_round_and_random_reaches_all);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
