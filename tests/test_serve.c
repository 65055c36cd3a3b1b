/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns of a queue without its thread, on a guest whose memory can be refused
 * for a while: what a whole process meets too rarely to be tested there.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "drivers/image.h"
#include "poll/clock.h"
#include "ring/queue.h"
#include "ring/serve.h"

enum { SLOTS = 32, READ = 0, WRITE = 1, BARRIER = 2, FLUSH = 3 };

static _Alignas(4096) uint8_t page[4096];
static struct ring_shared *const shared = (struct ring_shared *)page;
static struct queue queue;
static struct image *image;

/* ---- the guest ---- */

static int copy_err; /* what every piece is refused with */
static unsigned nr_copies, nr_notified;

static int refuse(struct guest *guest, enum guest_direction direction,
		  struct guest_copy *copies, unsigned n)
{
	(void)guest;
	(void)direction;
	nr_copies++;
	for (unsigned i = 0; i < n; i++) {
		copies[i].err = copy_err;
		if (!copy_err && direction == GUEST_TO_US)
			memset(copies[i].local, 0x77, copies[i].len);
	}
	return copy_err ? -EIO : 0;
}

static void (*answered)(void); /* what the guest does when it is told */

static int notify(struct guest *guest)
{
	(void)guest;
	nr_notified++;
	if (answered)
		answered();
	return 0;
}

static const struct guest_ops ops = { .copy = refuse, .notify = notify };

static void ask(uint8_t op, uint64_t id, uint8_t nr_segments)
{
	union abi_slot slot = {
		.rw = { .operation = op,
			.nr_segments = nr_segments,
			.id = id,
			.sector_number = 8 * id,
			.seg[0] = { .last_sect = 7 } },
	};

	memcpy(page + 64 + (shared->req_prod % SLOTS) * 112, &slot,
	       sizeof(slot));
	shared->req_prod++;
}

/* Status of the answer with @id; 1: there is none. */
static int status(uint64_t id)
{
	for (uint32_t i = 0; i < shared->rsp_prod; i++) {
		const uint8_t *at = page + 64 + (i % SLOTS) * 112;
		uint64_t got;
		int16_t s;

		memcpy(&got, at, 8);
		memcpy(&s, at + 10, 2);
		if (got == id)
			return s;
	}
	return 1;
}

/* ---- the queue ---- */

static void setup(void)
{
	memset(page, 0, sizeof(page));
	memset(&queue, 0, sizeof(queue));
	copy_err = 0;
	nr_copies = nr_notified = 0;
	answered = NULL;
	shared->rsp_event = 1;
	ck_assert_int_eq(wait_init(&queue.wait, false), 0);
	ck_assert_int_eq(image_open("ram:1m", 0, &image), 0);
	ck_assert_int_eq(
		image_port_open(image, &queue.wait, SLOTS, &queue.port), 0);
	ck_assert_int_eq(ring_attach(&queue.ring, ABI_NATIVE, page, 1), 0);
	ck_assert_int_eq(req_pool_init(&queue.pool, SLOTS, &queue), 0);
	queue.copies =
		calloc(SLOTS * PARSE_SEGMENTS_MAX, sizeof(*queue.copies));
	ck_assert_ptr_nonnull(queue.copies);
	queue.guest_ops = &ops;
	queue.state = RING_RUNNING;
	queue.staged_tail = &queue.staged;
	queue.answers_tail = &queue.answers;
	queue.trim_ns = CLOCK_NEVER;
	queue.clock_source.due_ns = CLOCK_NEVER;
	queue.retry_s = 60;
}

static void teardown(void)
{
	image_port_close(queue.port);
	image_close(image);
	req_pool_fini(&queue.pool);
	free(queue.copies);
	wait_fini(&queue.wait);
}

/* What queue.c does when it is told that the guest goes. */
static void disconnect(void)
{
	queue.state = ring_state_next(queue.state, RING_EV_DISCONNECT);
	serve_abandon(&queue);
	while (serve_turn(&queue))
		;
}

static void wait_until_due(void)
{
	while (clock_ns() < queue.clock_source.due_ns)
		;
}

static uint64_t writes_done(void)
{
	struct image_layer_stats layer;

	ck_assert_uint_eq(image_stats(image, &layer, 1), 1);
	return layer.writes;
}

/* ---- promises ---- */

START_TEST(a_turn_copies_pushes_and_notifies_once)
{
	for (uint64_t id = 0; id < 8; id++)
		ask(WRITE, id, 1);
	ck_assert(serve_turn(&queue));
	ck_assert_uint_eq(nr_copies, 1);
	ck_assert_uint_eq(nr_notified, 1);
	ck_assert_uint_eq(shared->rsp_prod, 8);
	ck_assert(serve_idle(&queue));
	ck_assert(!serve_turn(&queue));
}
END_TEST

START_TEST(memory_that_is_away_for_a_while_is_tried_again)
{
	copy_err = -EAGAIN;
	ask(WRITE, 1, 1);
	ask(READ, 2, 1);
	ask(BARRIER, 3, 1);
	serve_turn(&queue);
	ck_assert_uint_eq(shared->rsp_prod, 0);
	ck_assert_uint_ne(queue.clock_source.due_ns, CLOCK_NEVER);
	copy_err = 0;
	wait_until_due();
	serve_turn(&queue);
	ck_assert_uint_eq(shared->rsp_prod, 3);
	for (uint64_t id = 1; id <= 3; id++)
		ck_assert_int_eq(status(id), BLKIF_RSP_OKAY);
	ck_assert(serve_idle(&queue));
}
END_TEST

START_TEST(memory_that_is_gone_is_an_error)
{
	copy_err = -EIO;
	ask(WRITE, 1, 1);
	ask(READ, 2, 1);
	ask(BARRIER, 3, 1);
	ask(FLUSH, 4, 0);
	serve_turn(&queue);
	for (uint64_t id = 1; id <= 3; id++)
		ck_assert_int_eq(status(id), BLKIF_RSP_ERROR);
	ck_assert_int_eq(status(4), BLKIF_RSP_OKAY);
	ck_assert(serve_idle(&queue));
	ck_assert_uint_eq(writes_done(), 0);
}
END_TEST

/* What waits for memory that is away when the guest goes; ops by letter. */
static const char *const waiting[] = {
	"w", "r", "b", "wb", "rb", "wwb", "wrwb", "rrrb",
};

START_TEST(a_guest_that_goes_takes_with_it_what_waits_for_its_memory)
{
	copy_err = -EAGAIN;
	for (uint64_t i = 0; waiting[_i][i]; i++)
		ask(waiting[_i][i] == 'w'   ? WRITE
		    : waiting[_i][i] == 'r' ? READ
					    : BARRIER,
		    i, 1);
	serve_turn(&queue);
	ck_assert(!serve_idle(&queue));
	disconnect();
	ck_assert_msg(serve_idle(&queue), "%s: %u never end", waiting[_i],
		      queue.pool.used);
	ck_assert_int_eq(ring_state_next(queue.state, RING_EV_IDLE), RING_GONE);
	/* nothing of it was answered, or written without its data */
	ck_assert_uint_eq(shared->rsp_prod, 0);
	ck_assert_uint_eq(writes_done(), 0);
}
END_TEST

START_TEST(a_barrier_that_waits_for_others_goes_with_its_guest)
{
	ask(BARRIER, 1, 1);
	queue.state = RING_RUNNING;
	/* one request that is somewhere below, so that the barrier waits */
	ck_assert_ptr_nonnull(req_get(&queue.pool));
	serve_turn(&queue);
	ck_assert_ptr_nonnull(queue.barrier);
	ck_assert_uint_eq(shared->rsp_prod, 0);
	/* and that ends just when the guest goes */
	req_put(&queue.pool, &queue.pool.reqs[0]);
	disconnect();
	ck_assert(serve_idle(&queue));
	ck_assert_uint_eq(writes_done(), 0);
}
END_TEST

/* ---- a guest that is as fast as we are ---- */

static int left_to_ask;

static void ask_another(void)
{
	shared->rsp_event = shared->rsp_prod + 1;
	if (left_to_ask < 0)
		return;
	ask(READ, 1, 1);
	if (left_to_ask-- == 0)
		ask(BARRIER, 2, 1);
}

/*
 * However many passes of a turn there were before: the thread sleeps next, and
 * nothing but the barrier itself could wake it.
 */
START_TEST(no_turn_ends_with_a_barrier_that_could_start)
{
	left_to_ask = _i;
	answered = ask_another;
	ask_another();
	/* a turn that leaves requests on the ring finds them when it arms */
	do
		serve_turn(&queue);
	while (serve_takes(&queue) && ring_pending(&queue.ring));
	ck_assert_msg(status(2) == BLKIF_RSP_OKAY,
		      "after %d passes: the barrier waits for ever", _i);
	ck_assert(serve_idle(&queue));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("serve");
	TCase *tcase = tcase_create("serve");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_turn_copies_pushes_and_notifies_once);
	tcase_add_test(tcase, memory_that_is_away_for_a_while_is_tried_again);
	tcase_add_test(tcase, memory_that_is_gone_is_an_error);
	tcase_add_loop_test(
		tcase,
		a_guest_that_goes_takes_with_it_what_waits_for_its_memory, 0,
		(int)(sizeof(waiting) / sizeof(waiting[0])));
	tcase_add_test(tcase,
		       a_barrier_that_waits_for_others_goes_with_its_guest);
	tcase_add_loop_test(tcase, no_turn_ends_with_a_barrier_that_could_start,
			    0, 40);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
