/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two threads on one ring at full speed: what test_lost_wakeup.c proves of the
 * order of steps, tried on this machine's memory, caches and scheduler.
 *
 * SCALE multiplies the rounds.  Nothing here depends on how fast they are,
 * only on that none waits for ever.
 */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/relax.h"
#include "ring/ring.h"

enum { ROUNDS = 100000, SLOTS = 32 };

/* A side that was not woken in this time never will be. */
#define STALL_MS 1000
/* The races need CPUs of their own; on a busy machine they end earlier. */
#define RACE_NS (CLOCK_SECOND * 7 / 10)

static _Alignas(4096) uint8_t page[4096];
static struct ring_shared *const shared = (struct ring_shared *)page;
static struct ring ring;
static unsigned scale = 1;

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void setup(void)
{
	const char *s = getenv("SCALE");

	if (s && atoi(s) > 0)
		scale = (unsigned)atoi(s);
	memset(page, 0, sizeof(page));
	shared->req_event = 1;
	shared->rsp_event = 1;
	ck_assert_int_eq(ring_attach(&ring, ABI_NATIVE, page, 1), 0);
}

/* ---- the guest's side, as io/ring.h has it ---- */

static bool guest_publishes(uint32_t n)
{
	uint32_t old = shared->req_prod, new = old + n;

	__atomic_store_n(&shared->req_prod, new, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return new - load(&shared->req_event) < new - old;
}

/* True: there is a response behind @consumed, do not sleep. */
static bool guest_arms(uint32_t consumed)
{
	__atomic_store_n(&shared->rsp_event, consumed + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return load(&shared->rsp_prod) != consumed;
}

/* Different every time, and the same in every run. */
static unsigned jitter(uint32_t *seed, unsigned below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (*seed >> 8) % below;
}

static void pass_time(unsigned looks)
{
	while (looks--)
		relax();
}

/* ---- one look each, at the same moment ---- */

static struct {
	uint32_t warm; /* both have the indices in their caches */
	uint32_t round; /* go */
	uint32_t done;
	bool saw;
	bool (*call)(struct ring *ring);
} race;

/* The other may need our CPU. */
static void wait_until(const uint32_t *word, uint32_t value)
{
	for (unsigned i = 1; load(word) != value; i++) {
		if (i % 500 == 0)
			sched_yield();
		else
			relax();
	}
}

/*
 * A store lingers, and a load does not, while the line is in both caches: so
 * each looks at it before either may write.
 */
static void warm_up(uint32_t round)
{
	__atomic_fetch_add(&race.warm, 1, __ATOMIC_SEQ_CST);
	wait_until(&race.warm, 2 * round);
	load(&shared->req_prod);
}

static void *run_backend(void *arg)
{
	uint32_t seed = 1;

	(void)arg;
	for (uint32_t round = 1;; round++) {
		warm_up(round);
		wait_until(&race.round, round);
		if (!race.call)
			return NULL;
		/* not relax: its grain is coarser than the race */
		for (volatile unsigned i = jitter(&seed, 16); i; i--)
			;
		race.saw = race.call(&ring);
		__atomic_store_n(&race.done, round, __ATOMIC_RELEASE);
	}
}

static bool guest_arms_anew(void)
{
	return guest_arms(ring.rsp_pushed);
}

static bool guest_publishes_one(void)
{
	return guest_publishes(1);
}

static const struct {
	const char *name;
	bool (*backend)(struct ring *ring);
	bool (*guest)(void);
} races[] = {
	{ "ring_arm against a request", ring_arm, guest_publishes_one },
	{ "ring_push against a guest that goes to sleep", ring_push,
	  guest_arms_anew },
};

/* Both sides disarmed; for ring_push one response is there to be published. */
static uint32_t prepare(int which)
{
	union abi_slot slot;

	while (ring_pending(&ring) > 0) {
		ring_take(&ring, &slot);
		ring_put(&ring, 0, 0, 0);
		ring_push(&ring);
	}
	ring_disarm(&ring);
	if (which == 1) {
		guest_publishes(1);
		ring_take(&ring, &slot);
		ring_put(&ring, 0, 0, 0);
	}
	shared->rsp_event = shared->rsp_prod;
	return shared->rsp_prod;
}

START_TEST(of_two_that_look_at_once_one_sees_the_other)
{
	uint64_t end = clock_ns() + RACE_NS * scale;
	unsigned by_backend = 0, by_guest = 0, lag = 64;
	uint32_t round, seed = 2, consumed;
	pthread_t thread;
	bool saw, lost = false;

	memset(&race, 0, sizeof(race));
	race.call = races[_i].backend;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_backend, NULL), 0);
	for (round = 1; round < ROUNDS * scale && clock_ns() < end && !lost;
	     round++) {
		consumed = prepare(_i);
		warm_up(round);
		pass_time(4);
		__atomic_store_n(&race.round, round, __ATOMIC_RELEASE);
		for (volatile unsigned i = lag + jitter(&seed, 16); i; i--)
			;
		saw = _i == 0 ? races[_i].guest() : guest_arms(consumed);
		wait_until(&race.done, round);
		lost = !saw && !race.saw;
		/* who sees the other was late: find where both are in time */
		lag += 2 * race.saw;
		lag -= 2 * (saw && lag > 1);
		by_guest += saw;
		by_backend += race.saw;
	}
	race.call = NULL;
	warm_up(round);
	__atomic_store_n(&race.round, round, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	ck_assert_msg(!lost, "%s: lost in round %u (%u, %u)", races[_i].name,
		      round, by_backend, by_guest);
}
END_TEST

/* ---- a working pair, strictly by the rules ---- */

struct side {
	int bell;
	uint32_t seed;
	unsigned sleeps;
	bool lost; /* slept on work, and nobody rang */
};

static struct side backend, guest;
static uint32_t over; /* no more will come */

static void ring_bell(struct side *side)
{
	if (eventfd_write(side->bell, 1))
		abort();
}

/*
 * Sleep until the bell rings.  False: it did not, although *word has moved:
 * asked twice, as its ringer may have lost the CPU in between.
 */
static bool sleep_on(struct side *side, const uint32_t *word, uint32_t seen)
{
	struct pollfd p = { .fd = side->bell, .events = POLLIN };
	unsigned missed = 0;
	eventfd_t count;

	side->sleeps++;
	while (poll(&p, 1, STALL_MS) == 0) {
		if (load(&over))
			return false;
		if (load(word) == seen || ++missed < 2)
			continue;
		side->lost = true;
		__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
		return false;
	}
	return eventfd_read(side->bell, &count) == 0;
}

/* Take and answer what is there.  False: there was nothing. */
static bool serve(void)
{
	int n = ring_pending(&ring);
	union abi_slot slot;

	if (n <= 0)
		return false;
	for (int i = 0; i < n; i++)
		ring_take(&ring, &slot);
	pass_time(jitter(&backend.seed, 8));
	for (int i = 0; i < n; i++)
		ring_put(&ring, 0, 0, 0);
	if (ring_push(&ring))
		ring_bell(&guest);
	return true;
}

/* Look for some time.  False: there was nothing. */
static bool spin(void)
{
	for (unsigned looks = jitter(&backend.seed, 64); looks; looks--) {
		if (serve())
			return true;
		relax();
	}
	return serve();
}

static void *backend_thread(void *arg)
{
	bool awake = true;

	(void)arg;
	while (awake && !load(&over)) {
		if (spin())
			continue;
		if (!ring_arm(&ring))
			awake = sleep_on(&backend, &shared->req_prod,
					 ring.req_cons);
		ring_disarm(&ring);
	}
	return NULL;
}

/* Until all that was asked for is answered.  False: never. */
static bool guest_waits(uint32_t consumed)
{
	unsigned looks = jitter(&guest.seed, 64);

	while (load(&shared->rsp_prod) == consumed && looks--)
		relax();
	while (load(&shared->rsp_prod) == consumed)
		if (!guest_arms(consumed) &&
		    !sleep_on(&guest, &shared->rsp_prod, consumed))
			return false;
	return true;
}

START_TEST(no_handover_stalls)
{
	uint32_t asked = 0, consumed = 0;
	pthread_t thread;

	backend = (struct side){ .bell = eventfd(0, EFD_CLOEXEC), .seed = 3 };
	guest = (struct side){ .bell = eventfd(0, EFD_CLOEXEC), .seed = 4 };
	ck_assert_int_ge(backend.bell, 0);
	ck_assert_int_ge(guest.bell, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, backend_thread, NULL),
			 0);
	for (unsigned i = 0; i < ROUNDS * scale; i++) {
		uint32_t n = 1 + (i % 4 == 0) * jitter(&guest.seed, 3);

		/* gaps around the end of the backend's spin */
		pass_time(jitter(&guest.seed, 96));
		if (guest_publishes(n))
			ring_bell(&backend);
		asked += n;
		/* sometimes more while it works */
		if (i % 8 == 0 && guest_publishes(1))
			ring_bell(&backend);
		asked += i % 8 == 0;
		while (consumed != asked && guest_waits(consumed))
			consumed = load(&shared->rsp_prod);
		if (consumed != asked)
			break;
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	ring_bell(&backend);
	pthread_join(thread, NULL);
	ck_assert_msg(!backend.lost, "the backend slept on a request");
	ck_assert_msg(!guest.lost, "the guest slept on a response");
	ck_assert_uint_eq(consumed, asked);
	ck_assert_uint_gt(backend.sleeps, 0);
	ck_assert_uint_gt(guest.sleeps, 0);
	close(backend.bell);
	close(guest.bell);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("handover");
	TCase *tcase = tcase_create("handover");
	SRunner *runner;
	int failed;

	/* no time limit of its own: SCALE may be large */
	tcase_set_timeout(tcase, 0);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_loop_test(tcase, of_two_that_look_at_once_one_sees_the_other,
			    0, 2);
	tcase_add_test(tcase, no_handover_stalls);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
