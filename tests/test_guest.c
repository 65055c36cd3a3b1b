/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What evtchn/guest.h promises, asked of every kind of guest that opens here:
 * a new implementation is a line in kinds[].  What only the local guest can be
 * asked is in test_guest_local.c.
 */
#include <check.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "evtchn/guest.h"
#include "poll/wait.h"
#include "tests/domain.h"
#include "tests/scratch.h"

enum { PAGES = 8, SOON_MS = 5000, A_WHILE_MS = 30 };

/* The guest's end, whatever it lives on. */
struct peer {
	struct domain domain;
	char name[128]; /* for guest_open */
};

struct kind {
	const struct guest_ops *ops;
	void (*open)(struct peer *p);
	void (*close)(struct peer *p);
	uint8_t *(*page)(struct peer *p, uint32_t gref);
	uint32_t port;
	uint32_t no_port;
	uint32_t no_gref;
	void (*send)(struct peer *p);
	/* events received so far; wait for one more than @seen */
	uint32_t (*received)(struct peer *p);
	int (*receive)(struct peer *p, uint32_t seen);
	bool tells_death;
};

static void local_open(struct peer *p)
{
	char path[100];

	scratch_path(path, sizeof(path), "guest");
	snprintf(p->name, sizeof(p->name), "local:%s", path);
	ck_assert_int_eq(domain_init(&p->domain, path, PAGES), 0);
}

static void local_close(struct peer *p)
{
	domain_fini(&p->domain);
}

static uint8_t *local_page(struct peer *p, uint32_t gref)
{
	return p->domain.memory + (size_t)gref * GUEST_PAGE_SIZE;
}

static void local_send(struct peer *p)
{
	ck_assert(domain_ring(&p->domain, 1));
}

static uint32_t local_received(struct peer *p)
{
	return __atomic_load_n(domain_bell(&p->domain, 1), __ATOMIC_SEQ_CST);
}

static int local_receive(struct peer *p, uint32_t seen)
{
	struct timespec soon = { .tv_sec = SOON_MS / 1000 };

	while (local_received(p) == seen)
		if (syscall(SYS_futex, domain_bell(&p->domain, 1), FUTEX_WAIT,
			    seen, &soon, NULL, 0) < 0 &&
		    errno == ETIMEDOUT)
			return -ETIMEDOUT;
	return 0;
}

/* On Xen this needs a second domain: the Xen lab has one, this test not. */
static const struct kind kinds[] = {
	{ .ops = &guest_local,
	  .open = local_open,
	  .close = local_close,
	  .page = local_page,
	  .port = 1,
	  .no_port = DOMAIN_PORTS,
	  .no_gref = PAGES,
	  .send = local_send,
	  .received = local_received,
	  .receive = local_receive,
	  .tells_death = true },
};
enum { NR_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Both ends. */
struct pair {
	const struct kind *kind;
	struct peer peer;
	struct guest *guest;
	const struct guest_ops *ops;
	struct wait wait;
	struct wait_source source;
};

static void pair_open(struct pair *t, int kind)
{
	memset(t, 0, sizeof(*t));
	t->kind = &kinds[kind];
	t->kind->open(&t->peer);
	ck_assert_int_eq(guest_open(t->peer.name, 1, &t->guest), 0);
	t->ops = t->guest->ops;
	ck_assert_ptr_eq(t->ops, t->kind->ops);
	ck_assert_int_eq(wait_init(&t->wait, false), 0);
	ck_assert_int_eq(wait_add(&t->wait, &t->source, NULL), 0);
}

static void pair_bind(struct pair *t)
{
	ck_assert_int_eq(
		t->ops->bind(t->guest, t->kind->port, &t->wait, &t->source), 0);
	/* Xen's bind may leave an event of its own */
	t->ops->take(t->guest);
	ck_assert_int_eq(t->ops->rearm(t->guest), 0);
}

static void pair_close(struct pair *t)
{
	t->ops->close(t->guest);
	wait_remove(&t->wait, &t->source);
	wait_fini(&t->wait);
	t->kind->close(&t->peer);
}

/* Would a sleep have ended within @ms? */
static bool wakes(struct pair *t, int ms)
{
	struct epoll_event e;

	return epoll_wait(t->wait.epoll_fd, &e, 1, ms) == 1;
}

START_TEST(map_is_side_by_side_and_shared)
{
	static const uint32_t grefs[] = { 5, 2, 7, 1 };
	struct pair t;
	uint8_t *ring;
	void *p;
	int i;

	pair_open(&t, _i);
	for (i = 0; i < 4; i++)
		t.kind->page(&t.peer, grefs[i])[4095] = (uint8_t)(10 + i);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 4, &p), 0);
	ring = p;
	for (i = 0; i < 4; i++)
		ck_assert_uint_eq(ring[i * 4096 + 4095], 10 + i);
	memset(ring + 4090, 0x5a, 12);
	ck_assert_uint_eq(t.kind->page(&t.peer, 5)[4095], 0x5a);
	ck_assert_uint_eq(t.kind->page(&t.peer, 2)[5], 0x5a);
	ck_assert_uint_eq(t.kind->page(&t.peer, 2)[6], 0);
	t.ops->unmap(t.guest);
	pair_close(&t);
}
END_TEST

START_TEST(map_refuses_a_reference_that_is_not_offered)
{
	struct pair t;
	uint32_t grefs[3] = { 1, 0, 2 };
	void *p;

	pair_open(&t, _i);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 0, &p), -EINVAL);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = t.kind->no_gref;
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = UINT32_MAX;
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = 3;
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), 0);
	pair_close(&t);
}
END_TEST

START_TEST(copies_both_ways)
{
	struct pair t;
	uint8_t ours[4096], one = 0;
	struct guest_copy c[] = {
		{ .gref = 3, .offset = 0, .len = 4096, .local = ours },
		{ .gref = 4, .offset = 4095, .len = 1, .local = &one },
	};

	pair_open(&t, _i);
	memset(t.kind->page(&t.peer, 3), 0x11, 4096);
	t.kind->page(&t.peer, 4)[4095] = 0x22;
	c[0].err = c[1].err = -1;
	ck_assert_int_eq(t.ops->copy(t.guest, GUEST_TO_US, c, 2), 0);
	ck_assert_int_eq(c[0].err, 0);
	ck_assert_int_eq(c[1].err, 0);
	ck_assert_uint_eq(ours[0], 0x11);
	ck_assert_uint_eq(ours[4095], 0x11);
	ck_assert_uint_eq(one, 0x22);

	memset(ours, 0x33, sizeof(ours));
	one = 0x44;
	c[0].offset = 512;
	c[0].len = 512;
	ck_assert_int_eq(t.ops->copy(t.guest, US_TO_GUEST, c, 2), 0);
	ck_assert_uint_eq(t.kind->page(&t.peer, 3)[511], 0x11);
	ck_assert_uint_eq(t.kind->page(&t.peer, 3)[512], 0x33);
	ck_assert_uint_eq(t.kind->page(&t.peer, 3)[1023], 0x33);
	ck_assert_uint_eq(t.kind->page(&t.peer, 3)[1024], 0x11);
	ck_assert_uint_eq(t.kind->page(&t.peer, 4)[4094], 0);
	ck_assert_uint_eq(t.kind->page(&t.peer, 4)[4095], 0x44);
	pair_close(&t);
}
END_TEST

static const struct {
	const char *why;
	uint32_t gref;
	uint16_t offset, len;
} bad_pieces[] = {
	{ "reference 0", 0, 0, 512 },
	{ "first reference past the end", PAGES, 0, 512 },
	{ "largest reference", UINT32_MAX, 0, 512 },
	{ "one byte over the page's end", 3, 3585, 512 },
	{ "offset past the page", 3, 4097, 0 },
	{ "offset and length that wrap in 16 bits", 3, 65535, 2 },
	{ "more than a page", 3, 0, 4097 },
};

static void bad_piece_alone_fails(int kind, enum guest_direction direction)
{
	static uint8_t ours[3][65536];
	struct guest_copy c[3];
	struct pair t;
	unsigned i;

	pair_open(&t, kind);
	for (i = 0; i < sizeof(bad_pieces) / sizeof(bad_pieces[0]); i++) {
		memset(ours, 0xaa, sizeof(ours));
		memset(t.kind->page(&t.peer, 1), 0x77, 7 * 4096);
		c[0] = (struct guest_copy){ 1, 0, 512, ours[0], 1 };
		c[1] = (struct guest_copy){ bad_pieces[i].gref,
					    bad_pieces[i].offset,
					    bad_pieces[i].len, ours[1], 1 };
		c[2] = (struct guest_copy){ 2, 3584, 512, ours[2], 1 };
		ck_assert_msg(t.ops->copy(t.guest, direction, c, 3) == -EIO,
			      "%s: call", bad_pieces[i].why);
		ck_assert_msg(c[1].err == -EIO, "%s: piece", bad_pieces[i].why);
		ck_assert_msg(c[0].err == 0 && c[2].err == 0, "%s: neighbours",
			      bad_pieces[i].why);
		ck_assert_uint_eq(ours[1][0], 0xaa);
		ck_assert_uint_eq(t.kind->page(&t.peer, 3)[3585], 0x77);
		ck_assert_uint_eq(t.kind->page(&t.peer, 4)[0], 0x77);
		if (direction == GUEST_TO_US) {
			ck_assert_uint_eq(ours[0][511], 0x77);
			ck_assert_uint_eq(ours[2][511], 0x77);
		} else {
			ck_assert_uint_eq(t.kind->page(&t.peer, 1)[511], 0xaa);
			ck_assert_uint_eq(t.kind->page(&t.peer, 2)[4095], 0xaa);
		}
	}
	pair_close(&t);
}

START_TEST(a_bad_piece_fails_alone_reading)
{
	bad_piece_alone_fails(_i, GUEST_TO_US);
}
END_TEST

START_TEST(a_bad_piece_fails_alone_writing)
{
	bad_piece_alone_fails(_i, US_TO_GUEST);
}
END_TEST

START_TEST(an_event_ends_a_sleep_and_is_taken_once)
{
	struct pair t;

	pair_open(&t, _i);
	pair_bind(&t);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	ck_assert(!wakes(&t, 0));
	t.kind->send(&t.peer);
	ck_assert(wakes(&t, SOON_MS));
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	ck_assert_int_eq(t.ops->rearm(t.guest), 0);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	ck_assert(!wakes(&t, A_WHILE_MS));
	pair_close(&t);
}
END_TEST

START_TEST(events_in_a_row_are_one)
{
	struct pair t;

	pair_open(&t, _i);
	pair_bind(&t);
	t.kind->send(&t.peer);
	t.kind->send(&t.peer);
	ck_assert(wakes(&t, SOON_MS));
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	ck_assert_int_eq(t.ops->rearm(t.guest), 0);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	pair_close(&t);
}
END_TEST

START_TEST(masked_until_rearm_and_nothing_lost)
{
	struct pair t;

	pair_open(&t, _i);
	/* not pair_bind: the first event must mask as any other */
	ck_assert_int_eq(t.ops->bind(t.guest, t.kind->port, &t.wait, &t.source),
			 0);
	t.kind->send(&t.peer);
	ck_assert(wakes(&t, SOON_MS));
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	t.kind->send(&t.peer);
	ck_assert_msg(!wakes(&t, A_WHILE_MS), "a masked event ended a sleep");
	ck_assert_msg(t.ops->take(t.guest) == 0, "a masked event was taken");
	ck_assert_int_eq(t.ops->rearm(t.guest), 0);
	ck_assert_msg(wakes(&t, SOON_MS), "the event got lost");
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	pair_close(&t);
}
END_TEST

START_TEST(bind_refuses_a_port_that_is_not_offered)
{
	struct pair t;

	pair_open(&t, _i);
	ck_assert_int_eq(t.ops->bind(t.guest, t.kind->no_port, &t.wait,
				     &t.source),
			 -EINVAL);
	ck_assert_int_eq(t.ops->bind(t.guest, UINT32_MAX, &t.wait, &t.source),
			 -EINVAL);
	pair_bind(&t);
	pair_close(&t);
}
END_TEST

START_TEST(unbound_events_end_no_sleep)
{
	struct pair t;

	pair_open(&t, _i);
	pair_bind(&t);
	t.ops->unbind(t.guest);
	t.kind->send(&t.peer);
	ck_assert(!wakes(&t, A_WHILE_MS));
	pair_close(&t);
}
END_TEST

struct receiver {
	struct pair *t;
	uint32_t seen;
	int err;
};

static void *receiver(void *arg)
{
	struct receiver *r = arg;

	r->err = r->t->kind->receive(&r->t->peer, r->seen);
	return NULL;
}

START_TEST(notify_wakes_the_guest)
{
	struct pair t;
	struct receiver r = { .t = &t };
	pthread_t thread;

	pair_open(&t, _i);
	pair_bind(&t);
	r.seen = t.kind->received(&t.peer);
	ck_assert_int_eq(pthread_create(&thread, NULL, receiver, &r), 0);
	poll(NULL, 0, A_WHILE_MS); /* let it fall asleep */
	ck_assert_int_eq(t.ops->notify(t.guest), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(r.err, 0);
	pair_close(&t);
}
END_TEST

START_TEST(death_is_a_hang_up)
{
	struct pair t;
	struct pollfd p = { .events = 0 };

	pair_open(&t, _i);
	p.fd = t.ops->death_fd(t.guest);
	ck_assert_int_eq(p.fd >= 0, t.kind->tells_death);
	if (p.fd >= 0) {
		ck_assert_int_eq(poll(&p, 1, A_WHILE_MS), 0);
		t.kind->close(&t.peer);
		ck_assert_int_eq(poll(&p, 1, SOON_MS), 1);
		ck_assert(p.revents & POLLHUP);
		t.kind->open(&t.peer); /* for pair_close */
	}
	pair_close(&t);
}
END_TEST

START_TEST(close_gives_everything_back)
{
	static const uint32_t grefs[] = { 1, 2 };
	unsigned before = scratch_descriptors();
	struct pair t;
	void *p;

	pair_open(&t, _i);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 2, &p), 0);
	pair_bind(&t);
	pair_close(&t);
	ck_assert_uint_eq(scratch_descriptors(), before);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("guest");
	TCase *c = tcase_create("contract");

	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, map_is_side_by_side_and_shared, 0, NR_KINDS);
	tcase_add_loop_test(c, map_refuses_a_reference_that_is_not_offered, 0,
			    NR_KINDS);
	tcase_add_loop_test(c, copies_both_ways, 0, NR_KINDS);
	tcase_add_loop_test(c, a_bad_piece_fails_alone_reading, 0, NR_KINDS);
	tcase_add_loop_test(c, a_bad_piece_fails_alone_writing, 0, NR_KINDS);
	tcase_add_loop_test(c, an_event_ends_a_sleep_and_is_taken_once, 0,
			    NR_KINDS);
	tcase_add_loop_test(c, events_in_a_row_are_one, 0, NR_KINDS);
	tcase_add_loop_test(c, masked_until_rearm_and_nothing_lost, 0,
			    NR_KINDS);
	tcase_add_loop_test(c, bind_refuses_a_port_that_is_not_offered, 0,
			    NR_KINDS);
	tcase_add_loop_test(c, unbound_events_end_no_sleep, 0, NR_KINDS);
	tcase_add_loop_test(c, notify_wakes_the_guest, 0, NR_KINDS);
	tcase_add_loop_test(c, death_is_a_hang_up, 0, NR_KINDS);
	tcase_add_loop_test(c, close_gives_everything_back, 0, NR_KINDS);
	suite_add_tcase(s, c);
	return s;
}

static bool has_kind(const struct guest_ops *ops)
{
	unsigned i;

	for (i = 0; i < NR_KINDS; i++)
		if (kinds[i].ops == ops)
			return true;
	return false;
}

/* Say which implementations are not asked, and why.  How many are. */
static unsigned announce(void)
{
	struct guest *guest;
	unsigned i, n = 0;
	int err;

	for (i = 0; guest_table[i]; i++) {
		if (has_kind(guest_table[i])) {
			n++;
			continue;
		}
		err = guest_table[i]->open("", 0, &guest);
		printf("skipped: guest \"%s\": %s\n", guest_table[i]->name,
		       err ? strerror(-err) : "needs a second domain");
		if (!err)
			guest_table[i]->close(guest);
	}
	fflush(stdout);
	return n;
}

int main(void)
{
	SRunner *runner;
	int failed;

	if (!announce())
		return 77;
	scratch_open();
	runner = srunner_create(suite());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
