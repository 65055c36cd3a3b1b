/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The indices of a ring, against a frontend that does what io/ring.h says and
 * against one that does not.  What happens between two CPUs is
 * test_lost_wakeup.c's.
 */
#include <check.h>
#include <errno.h>
#include <string.h>
#include "ring/ring.h"

enum { PAGES = 16, PAGE = 4096 };

/* Where a ring may stand when a backend comes: everywhere, also at 2^32. */
static const uint32_t starts[] = { 0,	       1,	   31,
				   32,	       0x7fffffff, 0x80000000,
				   0xffffffdf, 0xffffffe0, 0xfffffff0,
				   0xffffffff };
#define NR_STARTS ((int)(sizeof(starts) / sizeof(starts[0])))

static _Alignas(4096) uint8_t memory[PAGES * PAGE + 64];
static struct ring_shared *const shared = (struct ring_shared *)memory;
static struct ring ring;

static void attach_pages(enum abi abi, uint32_t start, unsigned pages)
{
	memset(memory, 0xA5, pages * PAGE + 64);
	shared->req_prod = start;
	shared->rsp_prod = start;
	shared->req_event = start + 1;
	shared->rsp_event = start + 1;
	/* a plain if: every ck_assert that holds is a system call */
	if (ring_attach(&ring, abi, memory, pages))
		ck_abort_msg("start %#x: not attached", start);
}

static void attach(uint32_t start)
{
	attach_pages(ABI_NATIVE, start, 1);
}

/* What io/ring.h has the frontend do: publish, then say whether it kicks. */
static bool frontend_publishes(uint32_t n)
{
	uint32_t old = shared->req_prod, new = old + n;

	shared->req_prod = new;
	return (uint32_t)(new - shared->req_event) < (uint32_t)(new - old);
}

static void take(unsigned n)
{
	union abi_slot slot;

	while (n--)
		ring_take(&ring, &slot);
}

static void put(unsigned n)
{
	while (n--)
		ring_put(&ring, 0, 0, 0);
}

/* ---- attaching ---- */

START_TEST(attaching_changes_nothing_and_goes_on_at_rsp_prod)
{
	uint8_t before[sizeof(memory)];

	memset(memory, 0, sizeof(memory));
	shared->rsp_prod = starts[_i];
	shared->req_prod = starts[_i] + 5;
	memcpy(before, memory, sizeof(memory));
	ck_assert_int_eq(ring_attach(&ring, ABI_X86_32, memory, 1), 0);
	ck_assert_mem_eq(memory, before, sizeof(memory));
	ck_assert_int_eq(ring_pending(&ring), 5);
	ck_assert_uint_eq(ring_outstanding(&ring), 0);
	take(5);
	put(5);
	ring_push(&ring);
	ck_assert_uint_eq(shared->rsp_prod, starts[_i] + 5);
}
END_TEST

START_TEST(attaching_refuses_an_overrun_ring)
{
	for (unsigned order = 0; order < 5; order++) {
		uint32_t slots = 32u << order;

		shared->rsp_prod = starts[_i];
		shared->req_prod = starts[_i] + slots;
		ck_assert_int_eq(
			ring_attach(&ring, ABI_X86_64, memory, 1u << order), 0);
		ck_assert_int_eq(ring_pending(&ring), (int)slots);
		shared->req_prod = starts[_i] + slots + 1;
		ck_assert_int_eq(ring_attach(&ring, ABI_X86_64, memory,
					     1u << order),
				 -EPROTO);
		shared->req_prod = starts[_i] - 1;
		ck_assert_int_eq(ring_attach(&ring, ABI_X86_64, memory,
					     1u << order),
				 -EPROTO);
	}
}
END_TEST

/* ---- what a guest may publish ---- */

/* Of 32 slots: 20 taken, 8 of these answered: 12 outstanding, 20 free. */
static const struct {
	const char *why;
	uint32_t taken, answered; /* before */
	uint32_t prod; /* then published, counted from the start */
	int pending;
} claims[] = {
	{ "nothing", 0, 0, 0, 0 },
	{ "one", 0, 0, 1, 1 },
	{ "a full ring", 0, 0, 32, 32 },
	{ "one too many", 0, 0, 33, -EPROTO },
	{ "half the numbers away", 0, 0, 0x80000000, -EPROTO },
	{ "one taken back", 0, 0, 0xffffffff, -EPROTO },
	{ "a ring taken back", 0, 0, 0xffffffe0, -EPROTO },
	{ "nothing new", 20, 8, 20, 0 },
	{ "what is free", 20, 8, 40, 20 },
	{ "a slot not yet answered", 20, 8, 41, -EPROTO },
	{ "a ring beyond what was taken", 20, 8, 52, -EPROTO },
	{ "and one", 20, 8, 53, -EPROTO },
	{ "half the numbers, outstanding", 20, 8, 0x80000014, -EPROTO },
	{ "one taken back, outstanding", 20, 8, 19, -EPROTO },
	{ "back to what was answered", 20, 8, 8, -EPROTO },
	{ "back to the start", 20, 8, 0, -EPROTO },
	{ "nothing, none outstanding", 20, 20, 20, 0 },
	{ "a full ring again", 20, 20, 52, 32 },
	{ "one too many again", 20, 20, 53, -EPROTO },
	{ "one taken back again", 20, 20, 19, -EPROTO },
	{ "nothing on a full ring", 32, 0, 32, 0 },
	{ "one on a full ring", 32, 0, 33, -EPROTO },
	{ "one back on a full ring", 32, 0, 31, -EPROTO },
	{ "one more where one is free", 32, 1, 33, 1 },
	{ "two more where one is free", 32, 1, 34, -EPROTO },
};
#define NR_CLAIMS ((int)(sizeof(claims) / sizeof(claims[0])))

START_TEST(overrun_breaks)
{
	for (int s = 0; s < NR_STARTS; s++) {
		int n;

		attach(starts[s]);
		frontend_publishes(claims[_i].taken);
		take(claims[_i].taken);
		put(claims[_i].answered);
		ring_push(&ring);
		shared->req_prod = starts[s] + claims[_i].prod;
		n = ring_pending(&ring);
		ck_assert_msg(n == claims[_i].pending,
			      "start %#x, %s: %d pending", starts[s],
			      claims[_i].why, n);
	}
}
END_TEST

/* Every claim there can be near the edges, whatever is in flight. */
START_TEST(pending_is_right_for_every_claim)
{
	uint32_t start = starts[_i];

	for (uint32_t taken = 0; taken <= 32; taken++) {
		for (uint32_t answered = 0; answered <= taken; answered++) {
			attach(start);
			shared->req_prod = start + taken;
			take(taken);
			put(answered);
			for (uint32_t prod = -70u; prod != 140; prod++) {
				bool good =
					prod >= taken && prod <= answered + 32;
				int n;

				shared->req_prod = start + prod;
				n = ring_pending(&ring);
				if (n != (good ? (int)(prod - taken) : -EPROTO))
					ck_abort_msg("%u %u %d: %d", taken,
						     answered, (int)prod, n);
			}
		}
	}
}
END_TEST

/* What the guest does to our own index is its own loss. */
START_TEST(the_guest_cannot_move_what_we_published)
{
	attach(starts[_i]);
	frontend_publishes(4);
	take(4);
	put(2);
	ring_push(&ring);
	shared->rsp_prod = 0x12345678;
	shared->req_event = 0x87654321;
	ck_assert_int_eq(ring_pending(&ring), 0);
	ck_assert_uint_eq(ring_outstanding(&ring), 2);
	/* an event is due for what we publish, not for what it makes of it */
	shared->rsp_event = starts[_i] + 3;
	shared->rsp_prod = starts[_i] + 4;
	put(1);
	ck_assert(ring_push(&ring));
	shared->rsp_prod = starts[_i];
	put(1);
	ck_assert(!ring_push(&ring));
	ck_assert_uint_eq(shared->rsp_prod, starts[_i] + 4);
}
END_TEST

/* ---- slots ---- */

/* A ring goes round 2^32 as it goes round its own end. */
START_TEST(slots_come_in_turn_also_across_2_to_the_32)
{
	static const size_t sizes[NR_ABIS] = { 112, 108, 112 };
	enum abi abi = (enum abi)(_i % NR_ABIS);
	unsigned order = (unsigned)(_i / NR_ABIS), slots = 32u << order;
	uint32_t start = -(slots + slots / 2 + 3), index;
	uint8_t *at;

	attach_pages(abi, start, 1u << order);
	for (index = start; index != 3 * slots; index++) {
		union abi_slot got;

		at = memory + 64 + (index % slots) * sizes[abi];
		memset(at, 0, sizes[abi]);
		memcpy(at + (abi == ABI_X86_32 ? 4 : 8), &index, 4);
		frontend_publishes(1);
		if (ring_pending(&ring) != 1)
			ck_abort_msg("%#x: not pending", index);
		ring_take(&ring, &got);
		if (got.rw.id != index)
			ck_abort_msg("%#x: another's slot", index);
		ring_put(&ring, ~(uint64_t)index, 1, -1);
		if (memcmp(at, &(uint64_t){ ~(uint64_t)index }, 8))
			ck_abort_msg("%#x: answered elsewhere", index);
		ring_push(&ring);
	}
	ck_assert_uint_eq(shared->rsp_prod, 3 * slots);
	/* and not a byte behind the last slot was touched */
	at = memory + 64 + slots * sizes[abi];
	for (; at < memory + (PAGE << order) + 64; at++)
		if (*at != 0xA5)
			ck_abort_msg("byte %td", at - memory);
}
END_TEST

/* Answers fill slots in the order of answering, not of asking. */
START_TEST(responses_reuse_slots_in_order)
{
	static const uint64_t answered[] = { 3, 0, 2, 1 };
	union abi_slot slot;
	uint64_t id;

	attach(starts[_i]);
	for (uint32_t i = 0; i < 8; i++) {
		id = i;
		memcpy(memory + 64 + ((starts[_i] + i) % 32) * 112 + 8, &id, 8);
	}
	frontend_publishes(8);
	for (unsigned i = 0; i < 4; i++)
		ring_take(&ring, &slot);
	for (unsigned i = 0; i < 4; i++)
		ring_put(&ring, answered[i], 0, 0);
	ring_push(&ring);
	for (uint32_t i = 0; i < 4; i++) {
		memcpy(&id, memory + 64 + ((starts[_i] + i) % 32) * 112, 8);
		ck_assert_uint_eq(id, answered[i]);
	}
	/* what was not taken yet is as the guest wrote it */
	for (unsigned i = 4; i < 8; i++) {
		ring_take(&ring, &slot);
		ck_assert_uint_eq(slot.rw.id, i);
	}
}
END_TEST

/* ---- responses ---- */

START_TEST(nothing_is_published_before_push_and_then_all)
{
	attach(starts[_i]);
	frontend_publishes(10);
	take(10);
	for (unsigned i = 0; i < 10; i++) {
		ck_assert_uint_eq(ring_outstanding(&ring), 10 - i);
		put(1);
		ck_assert_uint_eq(shared->rsp_prod, starts[_i]);
	}
	ck_assert(ring_push(&ring)); /* one push, one notification */
	ck_assert_uint_eq(shared->rsp_prod, starts[_i] + 10);
	ck_assert(!ring_push(&ring)); /* none for nothing */
	ck_assert_uint_eq(shared->rsp_prod, starts[_i] + 10);
}
END_TEST

/*
 * The guest wants an event when rsp_prod passes rsp_event: it was at or behind
 * rsp_event - 1, and is now at rsp_event or beyond.  Said here as counting
 * says it, one response at a time.
 */
static bool passes(uint32_t old, uint32_t n, uint32_t event)
{
	for (uint32_t i = 1; i <= n; i++)
		if (old + i == event)
			return true;
	return false;
}

START_TEST(push_notifies_exactly_when_rsp_event_says)
{
	uint32_t start = starts[_i];

	for (uint32_t old = 0; old <= 8; old++) {
		for (uint32_t n = 0; n <= 32; n++) {
			for (uint32_t event = -40u; event != 80; event++) {
				bool asked, told;

				attach(start);
				frontend_publishes(old);
				take(old);
				put(old);
				ring_push(&ring);
				frontend_publishes(n);
				take(n);
				put(n);
				shared->rsp_event = start + event;
				asked = passes(start + old, n, start + event);
				told = ring_push(&ring);
				if (told != asked)
					ck_abort_msg("%u + %u, event %d: %d",
						     old, n, (int)event, told);
			}
		}
	}
}
END_TEST

/* ---- asking for events ---- */

START_TEST(armed_asks_for_the_very_next_request)
{
	attach(starts[_i]);
	ck_assert(!ring_arm(&ring));
	ck_assert_uint_eq(shared->req_event, starts[_i] + 1);
	ck_assert(frontend_publishes(1));
	/* and for no more than one event */
	ck_assert(!frontend_publishes(1));
	take(2);
	ck_assert(!ring_arm(&ring));
	ck_assert(frontend_publishes(30));
}
END_TEST

START_TEST(arming_sees_what_came_before)
{
	attach(starts[_i]);
	ck_assert(frontend_publishes(1)); /* a fresh ring asks */
	ck_assert(ring_arm(&ring));
	take(1);
	ck_assert(!ring_arm(&ring));
	put(1);
	ring_push(&ring);
	ck_assert(!ring_arm(&ring));
}
END_TEST

/* Something wrong is something to look at, not to sleep on. */
START_TEST(arming_sees_an_overrun)
{
	attach(starts[_i]);
	shared->req_prod = starts[_i] + 33;
	ck_assert(ring_arm(&ring));
	shared->req_prod = starts[_i] - 1;
	ck_assert(ring_arm(&ring));
}
END_TEST

START_TEST(disarmed_asks_for_none_however_much_comes)
{
	attach(starts[_i]);
	for (unsigned round = 0; round < 1000; round++) {
		unsigned n = 1 + round % 32, first = n / 2;

		/* half was published before we took and disarmed, half after */
		ring_arm(&ring);
		frontend_publishes(first);
		ring_disarm(&ring);
		if (frontend_publishes(n - first))
			ck_abort_msg("round %u: kicked", round);
		if (ring_pending(&ring) != (int)n)
			ck_abort_msg("round %u: not %u pending", round, n);
		take(n);
		put(n);
		ring_push(&ring);
		if (frontend_publishes(1))
			ck_abort_msg("round %u: kicked a busy backend", round);
		take(1);
		put(1);
		ring_push(&ring);
	}
}
END_TEST

/* A spin takes without touching req_event: the guest must stay silent. */
START_TEST(once_disarmed_spinning_needs_no_more)
{
	unsigned kicks = 0;

	attach(starts[_i]);
	ring_arm(&ring);
	ring_disarm(&ring);
	for (unsigned i = 0; i < 100000; i++) {
		union abi_slot slot;

		kicks += frontend_publishes(1);
		ring_take(&ring, &slot);
		ring_put(&ring, 0, 0, 0);
		ring_push(&ring);
	}
	ck_assert_uint_eq(kicks, 0);
	ck_assert(!ring_arm(&ring));
	ck_assert(frontend_publishes(1));
}
END_TEST

static void add(TCase *tcase)
{
	tcase_add_loop_test(tcase,
			    attaching_changes_nothing_and_goes_on_at_rsp_prod,
			    0, NR_STARTS);
	tcase_add_loop_test(tcase, attaching_refuses_an_overrun_ring, 0,
			    NR_STARTS);
	tcase_add_loop_test(tcase, overrun_breaks, 0, NR_CLAIMS);
	tcase_add_loop_test(tcase, pending_is_right_for_every_claim, 0,
			    NR_STARTS);
	tcase_add_loop_test(tcase, the_guest_cannot_move_what_we_published, 0,
			    NR_STARTS);
	tcase_add_loop_test(tcase, slots_come_in_turn_also_across_2_to_the_32,
			    0, 5 * NR_ABIS);
	tcase_add_loop_test(tcase, responses_reuse_slots_in_order, 0,
			    NR_STARTS);
	tcase_add_loop_test(tcase,
			    nothing_is_published_before_push_and_then_all, 0,
			    NR_STARTS);
	tcase_add_loop_test(tcase, push_notifies_exactly_when_rsp_event_says, 0,
			    NR_STARTS);
	tcase_add_loop_test(tcase, armed_asks_for_the_very_next_request, 0,
			    NR_STARTS);
	tcase_add_loop_test(tcase, arming_sees_what_came_before, 0, NR_STARTS);
	tcase_add_loop_test(tcase, arming_sees_an_overrun, 0, NR_STARTS);
	tcase_add_loop_test(tcase, disarmed_asks_for_none_however_much_comes, 0,
			    NR_STARTS);
	tcase_add_loop_test(tcase, once_disarmed_spinning_needs_no_more, 0,
			    NR_STARTS);
}

int main(void)
{
	Suite *suite = suite_create("ring");
	TCase *tcase = tcase_create("ring");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 60);
	add(tcase);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
