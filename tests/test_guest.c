/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What evtchn/guest.h promises, asked of every kind of guest that opens here:
 * a new implementation is a line in kinds[].  What only the local guest can be
 * asked is in test_guest_local.c.
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
#include "poll/wait.h"
#include "tests/domain.h"
#include "tests/scratch.h"

enum { PAGES = 8, SOON_MS = 5000, A_WHILE_MS = 30 };

/* The guest's end, whatever it lives on. */
struct peer {
	struct domain *domain;
	char name[128]; /* for guest_open */
	uint32_t domid;
};

struct kind {
	const struct guest_ops *ops;
	void (*open)(struct peer *p);
	bool tells_death;
};

static void local_open(struct peer *p)
{
	char path[100];

	scratch_path(path, sizeof(path), "guest");
	snprintf(p->name, sizeof(p->name), "local:%s", path);
	p->domid = 1;
	ck_assert_int_eq(domain_local_open(path, PAGES, &p->domain), 0);
}

/* Where this runs is domain 0, so that is the guest too. */
static void xen_open(struct peer *p)
{
	snprintf(p->name, sizeof(p->name), "xen");
	p->domid = 0;
	ck_assert_int_eq(domain_xen_open(PAGES, &p->domain), 0);
}

/* The one that every host has comes first. */
static const struct kind kinds[] = {
	{ .ops = &guest_local, .open = local_open, .tells_death = true },
	{ .ops = &guest_xen, .open = xen_open },
};

/* How many of them this host has. */
static int nr_kinds(void)
{
	struct domain *d;

	if (domain_xen_open(PAGES, &d))
		return 1;
	domain_close(d);
	return 2;
}

static uint8_t *page(struct peer *p, unsigned n)
{
	return p->domain->memory + n * GUEST_PAGE_SIZE;
}

static uint32_t ref(struct peer *p, unsigned n)
{
	return p->domain->refs[n];
}

static int receive(struct peer *p, uint32_t seen)
{
	int i;

	for (i = 0; i < 10 && domain_heard(p->domain) == seen; i++)
		domain_listen(p->domain, seen, SOON_MS * UINT64_C(1000000));
	return domain_heard(p->domain) == seen ? -ETIMEDOUT : 0;
}

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
	ck_assert_int_eq(guest_open(t->peer.name, t->peer.domid, &t->guest), 0);
	t->ops = t->guest->ops;
	ck_assert_ptr_eq(t->ops, t->kind->ops);
	ck_assert_int_eq(wait_init(&t->wait, false), 0);
	ck_assert_int_eq(wait_add(&t->wait, &t->source, NULL), 0);
}

/* Would a sleep have ended within @ms? */
static bool wakes(struct pair *t, int ms)
{
	struct epoll_event e;

	return epoll_wait(t->wait.epoll_fd, &e, 1, ms) == 1;
}

static void pair_bind(struct pair *t)
{
	ck_assert_int_eq(t->ops->bind(t->guest, t->peer.domain->port, &t->wait,
				      &t->source),
			 0);
	/* Xen's bind sends an event of its own, some time */
	do {
		ck_assert_int_ge(t->ops->take(t->guest), 0);
		ck_assert_int_eq(t->ops->rearm(t->guest), 0);
	} while (wakes(t, A_WHILE_MS));
}

static void pair_close(struct pair *t)
{
	t->ops->close(t->guest);
	wait_remove(&t->wait, &t->source);
	wait_fini(&t->wait);
	domain_close(t->peer.domain);
}

START_TEST(map_is_side_by_side_and_shared)
{
	static const unsigned pages[] = { 5, 2, 7, 1 };
	uint32_t grefs[4];
	struct pair t;
	uint8_t *ring;
	void *p;
	int i;

	pair_open(&t, _i);
	for (i = 0; i < 4; i++) {
		grefs[i] = ref(&t.peer, pages[i]);
		page(&t.peer, pages[i])[4095] = (uint8_t)(10 + i);
	}
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 4, &p), 0);
	ring = p;
	for (i = 0; i < 4; i++)
		ck_assert_uint_eq(ring[i * 4096 + 4095], 10 + i);
	memset(ring + 4090, 0x5a, 12);
	ck_assert_uint_eq(page(&t.peer, 5)[4095], 0x5a);
	ck_assert_uint_eq(page(&t.peer, 2)[5], 0x5a);
	ck_assert_uint_eq(page(&t.peer, 2)[6], 0);
	t.ops->unmap(t.guest);
	pair_close(&t);
}
END_TEST

START_TEST(map_refuses_a_reference_that_is_not_offered)
{
	struct pair t;
	uint32_t grefs[3] = { 0 };
	void *p;

	pair_open(&t, _i);
	grefs[0] = ref(&t.peer, 1);
	grefs[2] = ref(&t.peer, 2);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 0, &p), -EINVAL);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = t.peer.domain->no_ref;
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = UINT32_MAX;
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = ref(&t.peer, 3);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), 0);
	pair_close(&t);
}
END_TEST

START_TEST(copies_both_ways)
{
	struct pair t;
	uint8_t ours[4096], one = 0;
	struct guest_copy c[] = {
		{ .offset = 0, .len = 4096, .local = ours },
		{ .offset = 4095, .len = 1, .local = &one },
	};

	pair_open(&t, _i);
	c[0].gref = ref(&t.peer, 3);
	c[1].gref = ref(&t.peer, 4);
	memset(page(&t.peer, 3), 0x11, 4096);
	page(&t.peer, 4)[4095] = 0x22;
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
	ck_assert_uint_eq(page(&t.peer, 3)[511], 0x11);
	ck_assert_uint_eq(page(&t.peer, 3)[512], 0x33);
	ck_assert_uint_eq(page(&t.peer, 3)[1023], 0x33);
	ck_assert_uint_eq(page(&t.peer, 3)[1024], 0x11);
	ck_assert_uint_eq(page(&t.peer, 4)[4094], 0);
	ck_assert_uint_eq(page(&t.peer, 4)[4095], 0x44);
	pair_close(&t);
}
END_TEST

static const struct {
	const char *why;
	enum { GOOD_REF, NO_REF, REF_0, REF_MAX } ref;
	uint16_t offset, len;
} bad_pieces[] = {
	{ "reference 0", REF_0, 0, 512 },
	{ "a reference that is not offered", NO_REF, 0, 512 },
	{ "largest reference", REF_MAX, 0, 512 },
	{ "one byte over the page's end", GOOD_REF, 3585, 512 },
	{ "offset past the page", GOOD_REF, 4097, 0 },
	{ "offset and length that wrap in 16 bits", GOOD_REF, 65535, 2 },
	{ "more than a page", GOOD_REF, 0, 4097 },
};

static uint32_t bad_ref(struct peer *p, unsigned i)
{
	switch (bad_pieces[i].ref) {
	case GOOD_REF:
		return ref(p, 3);
	case NO_REF:
		return p->domain->no_ref;
	case REF_0:
		return 0;
	default:
		return UINT32_MAX;
	}
}

static void bad_piece_alone_fails(int kind, enum guest_direction direction)
{
	static uint8_t ours[3][65536];
	struct guest_copy c[3];
	struct pair t;
	unsigned i;

	pair_open(&t, kind);
	for (i = 0; i < sizeof(bad_pieces) / sizeof(bad_pieces[0]); i++) {
		memset(ours, 0xaa, sizeof(ours));
		memset(page(&t.peer, 1), 0x77, 7 * 4096);
		c[0] = (struct guest_copy){ ref(&t.peer, 1), 0, 512, ours[0],
					    1 };
		c[1] = (struct guest_copy){ bad_ref(&t.peer, i),
					    bad_pieces[i].offset,
					    bad_pieces[i].len, ours[1], 1 };
		c[2] = (struct guest_copy){ ref(&t.peer, 2), 3584, 512, ours[2],
					    1 };
		ck_assert_msg(t.ops->copy(t.guest, direction, c, 3) == -EIO,
			      "%s: call", bad_pieces[i].why);
		ck_assert_msg(c[1].err == -EIO, "%s: piece", bad_pieces[i].why);
		ck_assert_msg(c[0].err == 0 && c[2].err == 0, "%s: neighbours",
			      bad_pieces[i].why);
		ck_assert_uint_eq(ours[1][0], 0xaa);
		ck_assert_uint_eq(page(&t.peer, 3)[3585], 0x77);
		ck_assert_uint_eq(page(&t.peer, 4)[0], 0x77);
		if (direction == GUEST_TO_US) {
			ck_assert_uint_eq(ours[0][511], 0x77);
			ck_assert_uint_eq(ours[2][511], 0x77);
		} else {
			ck_assert_uint_eq(page(&t.peer, 1)[511], 0xaa);
			ck_assert_uint_eq(page(&t.peer, 2)[4095], 0xaa);
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
	ck_assert(domain_ring(t.peer.domain));
	ck_assert(wakes(&t, SOON_MS));
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	ck_assert_int_eq(t.ops->rearm(t.guest), 0);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	ck_assert(!wakes(&t, A_WHILE_MS));
	pair_close(&t);
}
END_TEST

/*
 * An event masks when its receiver's kernel takes it, which on Xen is at once:
 * one more may then wait for the rearm, but no third.
 */
START_TEST(events_in_a_row_are_one_or_two)
{
	struct pair t;
	int taken = 0, i;

	pair_open(&t, _i);
	pair_bind(&t);
	for (i = 0; i < 10; i++)
		ck_assert(domain_ring(t.peer.domain));
	while (taken < 10 && wakes(&t, taken ? A_WHILE_MS : SOON_MS)) {
		ck_assert_int_eq(t.ops->take(t.guest), 1);
		ck_assert_int_eq(t.ops->rearm(t.guest), 0);
		taken++;
	}
	ck_assert_int_ge(taken, 1);
	ck_assert_int_le(taken, 2);
	pair_close(&t);
}
END_TEST

START_TEST(masked_until_rearm_and_nothing_lost)
{
	struct pair t;

	pair_open(&t, _i);
	/* not pair_bind: the first event must mask as any other */
	ck_assert_int_eq(t.ops->bind(t.guest, t.peer.domain->port, &t.wait,
				     &t.source),
			 0);
	ck_assert(domain_ring(t.peer.domain));
	ck_assert(wakes(&t, SOON_MS));
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	ck_assert(domain_ring(t.peer.domain));
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
	ck_assert_int_eq(t.ops->bind(t.guest, t.peer.domain->no_port, &t.wait,
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
	ck_assert(domain_ring(t.peer.domain));
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

	r->err = receive(&r->t->peer, r->seen);
	return NULL;
}

START_TEST(notify_wakes_the_guest)
{
	struct pair t;
	struct receiver r = { .t = &t };
	pthread_t thread;

	pair_open(&t, _i);
	pair_bind(&t);
	r.seen = domain_heard(t.peer.domain);
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
		domain_close(t.peer.domain);
		ck_assert_int_eq(poll(&p, 1, SOON_MS), 1);
		ck_assert(p.revents & POLLHUP);
		t.kind->open(&t.peer); /* for pair_close */
	}
	pair_close(&t);
}
END_TEST

START_TEST(close_gives_everything_back)
{
	unsigned before = scratch_descriptors();
	uint32_t grefs[2];
	struct pair t;
	void *p;

	pair_open(&t, _i);
	grefs[0] = ref(&t.peer, 1);
	grefs[1] = ref(&t.peer, 2);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 2, &p), 0);
	pair_bind(&t);
	pair_close(&t);
	ck_assert_uint_eq(scratch_descriptors(), before);
}
END_TEST

START_TEST(no_kind_is_forgotten)
{
	unsigned n = 0;

	while (guest_table[n])
		n++;
	ck_assert_uint_eq(n, sizeof(kinds) / sizeof(kinds[0]));
}
END_TEST

static Suite *suite(int kinds_here)
{
	Suite *s = suite_create("guest");
	TCase *c = tcase_create("contract");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, no_kind_is_forgotten);
	tcase_add_loop_test(c, map_is_side_by_side_and_shared, 0, kinds_here);
	tcase_add_loop_test(c, map_refuses_a_reference_that_is_not_offered, 0,
			    kinds_here);
	tcase_add_loop_test(c, copies_both_ways, 0, kinds_here);
	tcase_add_loop_test(c, a_bad_piece_fails_alone_reading, 0, kinds_here);
	tcase_add_loop_test(c, a_bad_piece_fails_alone_writing, 0, kinds_here);
	tcase_add_loop_test(c, an_event_ends_a_sleep_and_is_taken_once, 0,
			    kinds_here);
	tcase_add_loop_test(c, events_in_a_row_are_one_or_two, 0, kinds_here);
	tcase_add_loop_test(c, masked_until_rearm_and_nothing_lost, 0,
			    kinds_here);
	tcase_add_loop_test(c, bind_refuses_a_port_that_is_not_offered, 0,
			    kinds_here);
	tcase_add_loop_test(c, unbound_events_end_no_sleep, 0, kinds_here);
	tcase_add_loop_test(c, notify_wakes_the_guest, 0, kinds_here);
	tcase_add_loop_test(c, death_is_a_hang_up, 0, kinds_here);
	tcase_add_loop_test(c, close_gives_everything_back, 0, kinds_here);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	int kinds_here = nr_kinds();
	SRunner *runner;
	int failed;

	if (kinds_here == 1)
		printf("no Xen here: \"xen\" is for make check-xen\n");
	fflush(stdout);
	scratch_open();
	runner = srunner_create(suite(kinds_here));
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
