/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What evtchn/guest.h promises of events and of a guest's death, asked of every
 * kind of guest that opens here.  What only the local guest can be asked is in
 * test_guest_local.c.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include "tests/pair.h"
#include "tests/rig.h"

START_TEST(an_event_ends_a_sleep_and_is_taken_once)
{
	struct pair t;

	pair_open(&t, _i);
	pair_bind(&t);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	ck_assert(!pair_wakes(&t, 0));
	ck_assert(domain_ring(t.domain));
	ck_assert(pair_wakes(&t, PAIR_SOON_MS));
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	ck_assert_int_eq(t.ops->rearm(t.guest), 0);
	ck_assert_int_eq(t.ops->take(t.guest), 0);
	ck_assert(!pair_wakes(&t, PAIR_A_WHILE_MS));
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
		ck_assert(domain_ring(t.domain));
	while (taken < 10 &&
	       pair_wakes(&t, taken ? PAIR_A_WHILE_MS : PAIR_SOON_MS)) {
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
	ck_assert_int_eq(
		t.ops->bind(t.guest, t.domain->port, &t.wait, &t.source), 0);
	ck_assert(domain_ring(t.domain));
	ck_assert(pair_wakes(&t, PAIR_SOON_MS));
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	ck_assert(domain_ring(t.domain));
	ck_assert_msg(!pair_wakes(&t, PAIR_A_WHILE_MS),
		      "a masked event ended a sleep");
	ck_assert_msg(t.ops->take(t.guest) == 0, "a masked event was taken");
	ck_assert_int_eq(t.ops->rearm(t.guest), 0);
	ck_assert_msg(pair_wakes(&t, PAIR_SOON_MS), "the event got lost");
	ck_assert_int_eq(t.ops->take(t.guest), 1);
	pair_close(&t);
}
END_TEST

START_TEST(bind_refuses_a_port_that_is_not_offered)
{
	struct pair t;

	pair_open(&t, _i);
	ck_assert_int_eq(t.ops->bind(t.guest, t.domain->no_port, &t.wait,
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
	ck_assert(domain_ring(t.domain));
	ck_assert(!pair_wakes(&t, PAIR_A_WHILE_MS));
	pair_close(&t);
}
END_TEST

static int receive(struct pair *t, uint32_t seen)
{
	int i;

	for (i = 0; i < 10 && domain_heard(t->domain) == seen; i++)
		domain_listen(t->domain, seen,
			      PAIR_SOON_MS * UINT64_C(1000000));
	return domain_heard(t->domain) == seen ? -ETIMEDOUT : 0;
}

struct receiver {
	struct pair *t;
	uint32_t seen;
	int err;
};

static void *receiver(void *arg)
{
	struct receiver *r = arg;

	r->err = receive(r->t, r->seen);
	return NULL;
}

START_TEST(notify_wakes_the_guest)
{
	struct pair t;
	struct receiver r = { .t = &t };
	pthread_t thread;

	pair_open(&t, _i);
	pair_bind(&t);
	r.seen = domain_heard(t.domain);
	ck_assert_int_eq(pthread_create(&thread, NULL, receiver, &r), 0);
	poll(NULL, 0, PAIR_A_WHILE_MS); /* let it fall asleep */
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
		ck_assert_int_eq(poll(&p, 1, PAIR_A_WHILE_MS), 0);
		domain_close(t.domain);
		ck_assert_int_eq(poll(&p, 1, PAIR_SOON_MS), 1);
		ck_assert(p.revents & POLLHUP);
		t.kind->open(&t); /* for pair_close */
	}
	pair_close(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("guest_events");
	TCase *c = tcase_create("contract");
	int here = pair_kinds_here();

	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, an_event_ends_a_sleep_and_is_taken_once, 0,
			    here);
	tcase_add_loop_test(c, events_in_a_row_are_one_or_two, 0, here);
	tcase_add_loop_test(c, masked_until_rearm_and_nothing_lost, 0, here);
	tcase_add_loop_test(c, bind_refuses_a_port_that_is_not_offered, 0,
			    here);
	tcase_add_loop_test(c, unbound_events_end_no_sleep, 0, here);
	tcase_add_loop_test(c, notify_wakes_the_guest, 0, here);
	tcase_add_loop_test(c, death_is_a_hang_up, 0, here);
	suite_add_tcase(s, c);
	return rig_run(s);
}
