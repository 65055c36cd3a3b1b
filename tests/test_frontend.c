/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tests' own blkfront: that it obeys the ring's event protocol to the
 * letter, notices a backend that does not, and lays out slots as ring/abi.c,
 * written independently, reads them.  The backend here is a toy.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "evtchn/guest.h"
#include "poll/clock.h"
#include "poll/relax.h"
#include "poll/wait.h"
#include "ring/abi.h"
#include "tests/frontend.h"
#include "tests/scratch.h"

#define LONG_NS (10 * CLOCK_SECOND)

struct indices {
	uint32_t req_prod, req_event, rsp_prod, rsp_event;
};

static struct frontend *make(enum abi abi, unsigned order, bool sleep)
{
	struct frontend_options o = { .abi = abi,
				      .ring_order = order,
				      .sleep = sleep };
	struct frontend *f;
	char path[100];

	scratch_path(path, sizeof(path), "front");
	o.socket = path;
	ck_assert_int_eq(frontend_open(&o, &f), 0);
	return f;
}

static struct indices *indices(struct frontend *f)
{
	return frontend_sring(f);
}

static void *slot(struct frontend *f, enum abi abi, uint32_t index)
{
	index &= frontend_slots(f) - 1;
	return (char *)frontend_sring(f) + 64 + index * abi_slot_size(abi);
}

/* Answer slot @index of the native ring with what the toy was told. */
static void respond(struct frontend *f, uint64_t id, uint8_t op, int16_t status)
{
	struct indices *x = indices(f);

	abi_write_response(ABI_NATIVE, slot(f, ABI_NATIVE, x->rsp_prod), id, op,
			   status);
	__atomic_store_n(&x->rsp_prod, x->rsp_prod + 1, __ATOMIC_RELEASE);
}

static uint64_t id_in(struct frontend *f, uint32_t index)
{
	union abi_slot s;

	abi_read_slot(ABI_NATIVE, slot(f, ABI_NATIVE, index), &s);
	return s.rw.id;
}

static int queue(struct frontend *f, uint8_t op)
{
	struct frontend_request r;

	frontend_fill(&r, op, 8, 4096);
	return frontend_queue(f, &r);
}

static const struct {
	uint8_t op;
	size_t len;
	unsigned segments;
	uint8_t last; /* of the last segment */
} shapes[] = {
	{ BLKIF_OP_READ, 512, 1, 0 },
	{ BLKIF_OP_WRITE, 4096, 1, 7 },
	{ BLKIF_OP_READ, 4096 + 1024, 2, 1 },
	{ BLKIF_OP_WRITE, 11 * 4096, 11, 7 },
	{ BLKIF_OP_FLUSH_DISKCACHE, 0, 0, 0 },
	{ BLKIF_OP_FLUSH_DISKCACHE, 8192, 2, 7 },
	{ BLKIF_OP_WRITE_BARRIER, 0, 0, 0 },
	{ BLKIF_OP_WRITE_BARRIER, 512, 1, 0 },
	{ BLKIF_OP_DISCARD, 1 << 20, 0, 0 },
};
enum { NR_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void check_segments(struct frontend *f, unsigned tag, unsigned i,
			   const struct blkif_request *rw)
{
	unsigned n;

	ck_assert_uint_eq(rw->nr_segments, shapes[i].segments);
	for (n = 0; n < shapes[i].segments; n++) {
		ck_assert_uint_eq(rw->seg[n].gref,
				  frontend_data_ref(f, tag, n));
		ck_assert_uint_eq(rw->seg[n].first_sect, 0);
		ck_assert_uint_eq(rw->seg[n].last_sect,
				  n + 1 < shapes[i].segments ? 7
							     : shapes[i].last);
	}
}

START_TEST(every_abi_says_the_same)
{
	enum abi abi = _i % NR_ABIS;
	unsigned order = _i / NR_ABIS, i, tag;
	struct frontend *f = make(abi, order, false);
	struct frontend_request r;
	struct frontend_response out;
	union abi_slot s;

	ck_assert_uint_eq(frontend_slots(f), abi_ring_slots(abi, 1u << order));
	for (i = 0; i < NR_SHAPES * 60; i++) {
		frontend_fill(&r, shapes[i % NR_SHAPES].op, 0x123456789abull,
			      shapes[i % NR_SHAPES].len);
		r.user = i;
		tag = (unsigned)frontend_queue(f, &r);
		frontend_push(f);
		abi_read_slot(abi, slot(f, abi, i), &s);
		ck_assert_uint_eq(s.rw.operation, r.op);
		ck_assert_uint_eq(s.rw.sector_number, 0x123456789abull);
		if (r.op == BLKIF_OP_DISCARD) {
			ck_assert_uint_eq(s.discard.flag, 0);
			ck_assert_uint_eq(s.discard.nr_sectors, 2048);
		} else {
			check_segments(f, tag, i % NR_SHAPES, &s.rw);
		}
		abi_write_response(abi, slot(f, abi, i), s.rw.id, r.op,
				   BLKIF_RSP_EOPNOTSUPP);
		indices(f)->rsp_prod++;
		ck_assert_int_eq(frontend_take(f, &out), 1);
		ck_assert_uint_eq(out.tag, tag);
		ck_assert_uint_eq(out.user, i);
		ck_assert_uint_eq(out.op, r.op);
		ck_assert_int_eq(out.status, BLKIF_RSP_EOPNOTSUPP);
	}
	ck_assert_uint_eq(frontend_in_flight(f), 0);
	frontend_close(f);
}
END_TEST

/* Three requests pushed at once over an index of 0. */
static const struct {
	uint32_t req_event;
	bool want;
} asks[] = {
	{ 0, false },
	{ 1, true },
	{ 3, true },
	{ 4, false },
	{ 0x80000000u, false },
	{ UINT32_MAX, false },
};

START_TEST(kicks_only_when_asked)
{
	struct frontend *f = make(ABI_NATIVE, 0, false);
	int i;

	indices(f)->req_event = asks[_i].req_event;
	for (i = 0; i < 3; i++)
		queue(f, BLKIF_OP_READ);
	ck_assert_uint_eq(indices(f)->req_prod, 0);
	ck_assert_int_eq(frontend_push(f), asks[_i].want);
	ck_assert_uint_eq(indices(f)->req_prod, 3);
	ck_assert_uint_eq(frontend_counters(f)->kicks, asks[_i].want);
	ck_assert_msg(!frontend_push(f), "kicked for nothing");
	frontend_close(f);
}
END_TEST

START_TEST(a_full_ring_takes_no_more)
{
	struct frontend *f = make(ABI_NATIVE, 0, false);
	struct frontend_response out;
	unsigned i;

	for (i = 0; i < frontend_slots(f); i++)
		ck_assert_int_eq(queue(f, BLKIF_OP_READ), (int)i);
	ck_assert_int_eq(queue(f, BLKIF_OP_READ), -EAGAIN);
	ck_assert_int_eq(frontend_next_tag(f), -EAGAIN);
	frontend_push(f);
	respond(f, id_in(f, 5), BLKIF_OP_READ, 0);
	ck_assert_int_eq(frontend_take(f, &out), 1);
	ck_assert_uint_eq(out.tag, 5);
	ck_assert_int_eq(frontend_next_tag(f), 5);
	ck_assert_int_eq(queue(f, BLKIF_OP_READ), 5);
	frontend_close(f);
}
END_TEST

static const struct {
	const char *why;
	uint64_t id; /* xor to the right one */
	uint8_t op;
	int16_t status;
	bool twice, many;
} lies[] = {
	{ "tag out of the ring", 64, BLKIF_OP_READ, 0, false, false },
	{ "tag not in flight", 2, BLKIF_OP_READ, 0, false, false },
	{ "an id of before", 1ull << 33, BLKIF_OP_READ, 0, false, false },
	{ "another operation", 0, BLKIF_OP_WRITE, 0, false, false },
	{ "a status that is none", 0, BLKIF_OP_READ, 1, false, false },
	{ "twice", 0, BLKIF_OP_READ, 0, true, false },
	{ "more than were asked", 0, BLKIF_OP_READ, 0, false, true },
};

START_TEST(notices_a_backend_that_lies)
{
	struct frontend *f = make(ABI_NATIVE, 0, false);
	struct frontend_response out;
	uint64_t id;

	queue(f, BLKIF_OP_READ);
	queue(f, BLKIF_OP_READ);
	frontend_push(f);
	id = id_in(f, 0) ^ lies[_i].id;
	respond(f, id, lies[_i].op, lies[_i].status);
	if (lies[_i].twice) {
		ck_assert_int_eq(frontend_take(f, &out), 1);
		respond(f, id, lies[_i].op, lies[_i].status);
	}
	if (lies[_i].many)
		indices(f)->rsp_prod += 2;
	ck_assert_msg(frontend_take(f, &out) == -EPROTO, "%s", lies[_i].why);
	frontend_close(f);
}
END_TEST

START_TEST(reset_forgets_what_was_in_flight)
{
	struct frontend *f = make(ABI_NATIVE, 1, false);
	struct frontend_response out;
	uint64_t id;

	queue(f, BLKIF_OP_READ);
	frontend_push(f);
	id = id_in(f, 0);
	frontend_reset(f);
	ck_assert_uint_eq(frontend_in_flight(f), 0);
	ck_assert_uint_eq(indices(f)->req_prod, 0);
	ck_assert_uint_eq(indices(f)->req_event, 1);
	ck_assert_uint_eq(indices(f)->rsp_event, 1);
	ck_assert_int_eq(queue(f, BLKIF_OP_READ), 0);
	ck_assert_msg(frontend_push(f),
		      "the first push of a ring is asked for");
	respond(f, id, BLKIF_OP_READ, 0);
	ck_assert_int_eq(frontend_take(f, &out), -EPROTO);
	frontend_close(f);
}
END_TEST

START_TEST(waiting_ends_in_time)
{
	struct frontend *f = make(ABI_NATIVE, 0, _i);
	struct frontend_response out;
	struct frontend_request r;

	ck_assert_int_eq(frontend_wait(f, 1000000, &out), -ETIMEDOUT);
	ck_assert_int_eq(frontend_wait(f, 0, &out), -ETIMEDOUT);
	/* sleeping asks for an event, spinning leaves what was there */
	ck_assert_uint_eq(indices(f)->rsp_event, 1);
	indices(f)->rsp_event = 77;
	ck_assert_int_eq(frontend_wait(f, 1000000, &out), -ETIMEDOUT);
	ck_assert_uint_eq(indices(f)->rsp_event, _i ? 1 : 77);
	frontend_fill(&r, BLKIF_OP_READ, 0, 512);
	ck_assert_int_eq(frontend_do(f, &r, 1000000, NULL), -ETIMEDOUT);
	ck_assert_int_eq(frontend_do(f, &r, 1000000, NULL), -EBUSY);
	frontend_close(f);
}
END_TEST

/*
 * A backend that arms, looks once more, sleeps, and notifies when asked; with
 * @spins it never sleeps.
 */
struct toy {
	struct frontend *f;
	struct guest *guest;
	struct wait wait;
	struct wait_source source;
	struct indices *ring;
	bool spins;
	unsigned todo, notifications, arms;
};

static void toy_answer(struct toy *t, uint32_t prod)
{
	uint32_t old = t->ring->rsp_prod, event;
	union abi_slot s;

	while (t->ring->rsp_prod != prod) {
		uint32_t i = t->ring->rsp_prod & (frontend_slots(t->f) - 1);
		char *at = (char *)t->ring + 64 + i * sizeof(s.rw);

		abi_read_slot(ABI_NATIVE, at, &s);
		abi_write_response(ABI_NATIVE, at, s.rw.id, s.rw.operation, 0);
		__atomic_store_n(&t->ring->rsp_prod, t->ring->rsp_prod + 1,
				 __ATOMIC_RELEASE);
		t->todo--;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	event = __atomic_load_n(&t->ring->rsp_event, __ATOMIC_RELAXED);
	if (prod - event < prod - old) {
		ck_assert_int_eq(t->guest->ops->notify(t->guest), 0);
		t->notifications++;
	}
}

static void *toy_run(void *arg)
{
	struct toy *t = arg;
	struct epoll_event e;
	uint32_t prod;

	while (t->todo) {
		prod = __atomic_load_n(&t->ring->req_prod, __ATOMIC_ACQUIRE);
		if (prod != t->ring->rsp_prod) {
			toy_answer(t, prod);
			continue;
		}
		relax();
		if (t->spins)
			continue;
		__atomic_store_n(&t->ring->req_event, prod + 1,
				 __ATOMIC_RELAXED);
		t->arms++;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(&t->ring->req_prod, __ATOMIC_RELAXED) !=
		    prod)
			continue;
		ck_assert_int_eq(epoll_wait(t->wait.epoll_fd, &e, 1, 10000), 1);
		t->guest->ops->take(t->guest);
		ck_assert_int_eq(t->guest->ops->rearm(t->guest), 0);
	}
	return NULL;
}

static void toy_open(struct toy *t, struct frontend *f, unsigned todo)
{
	char path[100], name[128];
	void *ring;

	memset(t, 0, sizeof(*t));
	t->f = f;
	t->todo = todo;
	scratch_path(path, sizeof(path), "front");
	snprintf(name, sizeof(name), "local:%s", path);
	ck_assert_int_eq(guest_open(name, 1, &t->guest), 0);
	ck_assert_int_eq(t->guest->ops->map(t->guest, frontend_refs(f),
					    frontend_nr_refs(f), &ring),
			 0);
	t->ring = ring;
	ck_assert_int_eq(wait_init(&t->wait, false), 0);
	ck_assert_int_eq(wait_add(&t->wait, &t->source, NULL), 0);
	ck_assert_int_eq(t->guest->ops->bind(t->guest, frontend_port(f),
					     &t->wait, &t->source),
			 0);
}

static void toy_close(struct toy *t)
{
	t->guest->ops->close(t->guest);
	wait_remove(&t->wait, &t->source);
	wait_fini(&t->wait);
}

START_TEST(neither_side_ever_misses_a_wake_up)
{
	enum { ROUNDS = 20000 };
	bool sleep = _i & 1;
	struct frontend *f = make(ABI_NATIVE, 0, sleep);
	const struct frontend_counters *n = frontend_counters(f);
	struct frontend_response out;
	unsigned done = 0, batch, delay;
	uint64_t start_ns;
	pthread_t thread;
	struct toy t;
	int got;

	toy_open(&t, f, ROUNDS);
	t.spins = _i & 2;
	ck_assert_int_eq(pthread_create(&thread, NULL, toy_run, &t), 0);
	while (done < ROUNDS) {
		for (batch = 0; batch < (t.spins ? 1 : 1 + done % 5); batch++)
			if (done + frontend_in_flight(f) < ROUNDS)
				queue(f, BLKIF_OP_READ);
		frontend_push(f);
		/* the answer comes before, while and after we fall asleep */
		for (delay = t.spins ? done * 7 % 4000 : 0; delay; delay--)
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
		start_ns = clock_ns();
		got = frontend_wait(f, LONG_NS, &out);
		ck_assert_msg(got == 1, "%u: %s", done, strerror(-got));
		/* an answer found when the time was up came without a bell */
		ck_assert_msg(clock_ns() - start_ns < LONG_NS, "%u: late",
			      done);
		for (done++; (got = frontend_take(f, &out)) == 1; done++)
			;
		ck_assert_int_eq(got, 0);
	}
	pthread_join(thread, NULL);
	ck_assert_uint_eq(n->requests, ROUNDS);
	ck_assert_uint_eq(n->responses, ROUNDS);
	/* each arm permits one event, and a new ring is armed */
	ck_assert_uint_le(n->kicks, t.arms + 1);
	if (!sleep)
		ck_assert_uint_le(t.notifications, 1);
	toy_close(&t);
	frontend_close(f);
}
END_TEST

START_TEST(serves_one_connection_after_another)
{
	unsigned before = scratch_descriptors(), i;
	struct frontend *f = make(ABI_NATIVE, 2, true);
	struct frontend_request r;
	pthread_t thread;
	struct toy t;

	frontend_fill(&r, BLKIF_OP_READ, 0, 4096);
	for (i = 0; i < 100; i++) {
		toy_open(&t, f, 1);
		ck_assert_int_eq(pthread_create(&thread, NULL, toy_run, &t), 0);
		ck_assert_int_eq(frontend_do(f, &r, LONG_NS, NULL), 0);
		pthread_join(thread, NULL);
		toy_close(&t);
		frontend_reset(f);
	}
	frontend_close(f);
	ck_assert_uint_eq(scratch_descriptors(), before);
}
END_TEST

START_TEST(two_rings_live_side_by_side)
{
	struct frontend_options o = { .abi = ABI_X86_32 };
	struct frontend *f = make(ABI_NATIVE, 0, false), *g, *h;
	char path[100];

	scratch_path(path, sizeof(path), "other");
	o.socket = path;
	ck_assert_int_eq(frontend_open(&o, &g), 0);
	ck_assert_int_eq(frontend_open(&o, &h), -EADDRINUSE);
	queue(f, BLKIF_OP_READ);
	ck_assert_uint_eq(frontend_in_flight(g), 0);
	frontend_close(g);
	ck_assert_int_eq(access(path, F_OK), -1);
	frontend_close(f);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("frontend");
	TCase *c = tcase_create("frontend");

	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, every_abi_says_the_same, 0, 5 * NR_ABIS);
	tcase_add_loop_test(c, kicks_only_when_asked, 0,
			    sizeof(asks) / sizeof(asks[0]));
	tcase_add_test(c, a_full_ring_takes_no_more);
	tcase_add_loop_test(c, notices_a_backend_that_lies, 0,
			    sizeof(lies) / sizeof(lies[0]));
	tcase_add_test(c, reset_forgets_what_was_in_flight);
	tcase_add_loop_test(c, waiting_ends_in_time, 0, 2);
	tcase_add_loop_test(c, neither_side_ever_misses_a_wake_up, 0, 4);
	tcase_add_test(c, serves_one_connection_after_another);
	tcase_add_test(c, two_rings_live_side_by_side);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	SRunner *runner;
	int failed;

	scratch_open();
	runner = srunner_create(suite());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
