/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lost wake-up: one side is about to sleep while the other publishes, and
 * each looks just before the other wrote.  Here every interleaving of the two
 * is tried, twice over:
 *
 * - on a model, in which stores may also linger in a buffer (x86's TSO; other
 *   machines delay at least as much, and what they need more is the acquire
 *   and release of ring.c), with the right order of steps and with every
 *   wrong one, so that we know that the search would find a loss;
 * - on the code of ring.c itself, stopped between any two instructions.
 *
 * Two threads at full speed, and the fences, are test_handover.c's.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ring/ring.h"

/* ---- the model ---- */

/* A program is a circle of steps; STOP is where it goes round. */
enum step {
	STOP,
	FENCE, /* wait until our own stores have left the buffer */
	/* the sleeper's: the backend for requests, the guest for responses */
	TAKE, /* consume what is there */
	ARM, /* store event = consumed + 1 */
	ARM_BEHIND, /* wrong: store event = consumed */
	ARM_AHEAD, /* wrong: store event = consumed + 2 */
	CHECK, /* load prod; anything new: skip to behind SLEEP */
	SLEEP, /* until an event comes */
	DISARM, /* store event = consumed */
	/* the sender's: the guest for requests, the backend for responses */
	PUBLISH, /* store prod, one or two further */
	LOOK, /* load event: was it passed? */
	SEND, /* an event, if it was */
};

enum { STEPS_MAX = 8 };

/*
 * As ring.c and wait_sleep.c have it:
 *
 * sleeper: TAKE ring_pending, ring_take.  ARM, FENCE, CHECK ring_arm.  SLEEP
 * wait_for.  DISARM ring_disarm.  The guest does the same with rsp_event.
 *
 * sender: PUBLISH, FENCE, LOOK ring_push.  SEND what its result is for.  The
 * guest does the same with req_prod and req_event.
 */
static const struct order {
	const char *why;
	enum step sleeper[STEPS_MAX];
	enum step sender[STEPS_MAX];
	bool loses;
} orders[] = {
	{ "ring.c's",
	  { TAKE, ARM, FENCE, CHECK, SLEEP, DISARM },
	  { PUBLISH, FENCE, LOOK, SEND },
	  false },
	{ "never disarmed: needless events, but none lost",
	  { TAKE, ARM, FENCE, CHECK, SLEEP },
	  { PUBLISH, FENCE, LOOK, SEND },
	  false },
	{ "looked before taking",
	  { ARM, FENCE, CHECK, SLEEP, DISARM, TAKE },
	  { PUBLISH, FENCE, LOOK, SEND },
	  false },
	{ "checked before arming",
	  { TAKE, CHECK, ARM, FENCE, SLEEP, DISARM },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "never checked",
	  { TAKE, ARM, FENCE, SLEEP, DISARM },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "no fence between arm and check",
	  { TAKE, ARM, CHECK, SLEEP, DISARM },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "the fence before arming",
	  { TAKE, FENCE, ARM, CHECK, SLEEP, DISARM },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "the fence after checking",
	  { TAKE, ARM, CHECK, FENCE, SLEEP, DISARM },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "event index not set",
	  { TAKE, FENCE, CHECK, SLEEP },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "event index one behind",
	  { TAKE, ARM_BEHIND, FENCE, CHECK, SLEEP, DISARM },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "event index one ahead",
	  { TAKE, ARM_AHEAD, FENCE, CHECK, SLEEP, DISARM },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "disarmed after the check",
	  { TAKE, ARM, FENCE, CHECK, DISARM, SLEEP },
	  { PUBLISH, FENCE, LOOK, SEND },
	  true },
	{ "no fence between publish and look",
	  { TAKE, ARM, FENCE, CHECK, SLEEP, DISARM },
	  { PUBLISH, LOOK, SEND },
	  true },
	{ "the fence before publishing",
	  { TAKE, ARM, FENCE, CHECK, SLEEP, DISARM },
	  { FENCE, PUBLISH, LOOK, SEND },
	  true },
	{ "looked, then published",
	  { TAKE, ARM, FENCE, CHECK, SLEEP, DISARM },
	  { LOOK, PUBLISH, FENCE, SEND },
	  true },
};
#define NR_ORDERS ((int)(sizeof(orders) / sizeof(orders[0])))

enum { PUBLISHED = 4, BUFFER_MAX = 3, STATES_MAX = 1 << 18 };

/* Stores that have not reached memory, oldest first. */
struct buffer {
	uint8_t n;
	uint8_t value[BUFFER_MAX];
};

/* All there is to know between two steps; compared as bytes: no padding. */
struct state {
	uint8_t prod, event; /* memory */
	uint8_t pending; /* an event was sent and not yet taken */
	uint8_t sleeper_pc, consumed;
	uint8_t sender_pc, published, before; /* before the last PUBLISH */
	uint8_t passed; /* what LOOK found */
	struct buffer sleeper, sender;
};

static struct node {
	struct state state;
	unsigned from; /* the node it was reached from, for the story */
	const char *by;
} nodes[STATES_MAX];
static unsigned nr_nodes;
static unsigned slots[STATES_MAX * 2]; /* hash: node + 1 */

/* Add @s unless it is known. */
static void reach(const struct state *s, unsigned from, const char *by)
{
	const uint8_t *bytes = (const uint8_t *)s;
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < sizeof(*s); i++)
		h = (h ^ bytes[i]) * 16777619u;
	for (h %= STATES_MAX * 2; slots[h]; h = (h + 1) % (STATES_MAX * 2))
		if (!memcmp(&nodes[slots[h] - 1].state, s, sizeof(*s)))
			return;
	if (nr_nodes == STATES_MAX)
		ck_abort_msg("more states than there is room for");
	nodes[nr_nodes] = (struct node){ .state = *s, .from = from, .by = by };
	slots[h] = ++nr_nodes;
}

static bool store(struct buffer *b, uint8_t value)
{
	if (b->n == BUFFER_MAX)
		return false; /* stalls until one has left */
	b->value[b->n++] = value;
	return true;
}

static bool drain(struct buffer *b, uint8_t *memory)
{
	if (!b->n)
		return false;
	*memory = b->value[0];
	memmove(b->value, b->value + 1, BUFFER_MAX - 1);
	b->value[BUFFER_MAX - 1] = 0;
	b->n--;
	return true;
}

static uint8_t go_on(const enum step *program, uint8_t pc)
{
	return program[pc + 1] == STOP ? 0 : pc + 1;
}

/* The sleeper's next step on @s.  False: it cannot go on now. */
static bool sleeper_steps(const struct order *order, struct state *s)
{
	const enum step *program = order->sleeper;
	enum step step = program[s->sleeper_pc];

	switch (step) {
	case FENCE:
		if (s->sleeper.n)
			return false;
		break;
	case TAKE:
		s->consumed = s->prod;
		break;
	case ARM:
	case ARM_BEHIND:
	case ARM_AHEAD:
	case DISARM:
		if (!store(&s->sleeper, s->consumed + (step == ARM) +
						2 * (step == ARM_AHEAD)))
			return false;
		break;
	case CHECK:
		if (s->prod == s->consumed)
			break;
		while (program[s->sleeper_pc] != SLEEP)
			s->sleeper_pc++;
		break;
	case SLEEP:
		if (!s->pending)
			return false;
		s->pending = 0;
		break;
	default:
		ck_abort_msg("%s: step %d", order->why, step);
	}
	s->sleeper_pc = go_on(program, s->sleeper_pc);
	return true;
}

/* The sender's, publishing @n if that is what it does. */
static bool sender_steps(const struct order *order, struct state *s, uint8_t n)
{
	const enum step *program = order->sender;
	uint8_t new = s->published;

	if (s->sender_pc == 0 && s->published + n > PUBLISHED)
		return false; /* all is said */
	switch (program[s->sender_pc]) {
	case FENCE:
		if (s->sender.n)
			return false;
		break;
	case PUBLISH:
		if (!store(&s->sender, new + n))
			return false;
		s->before = s->published;
		s->published = new + n;
		break;
	case LOOK:
		/* one that looks first does not know how far it will go */
		if (program[0] == LOOK) {
			s->before = s->published;
			new = s->published + 2;
		}
		s->passed =
			(uint8_t)(new - s->event) < (uint8_t)(new - s->before);
		break;
	case SEND:
		s->pending |= s->passed;
		s->passed = 0;
		break;
	default:
		ck_abort_msg("%s: sender", order->why);
	}
	s->sender_pc = go_on(program, s->sender_pc);
	return true;
}

/* Everything that can happen next.  How many things that is. */
static unsigned expand(const struct order *order, unsigned node)
{
	const struct state *now = &nodes[node].state;
	struct state s;
	unsigned n = 0;

	s = *now;
	if (sleeper_steps(order, &s) && ++n)
		reach(&s, node, "sleeper");
	for (uint8_t k = 1; k <= 2; k++) {
		s = *now;
		if (sender_steps(order, &s, k) && ++n)
			reach(&s, node, k == 1 ? "sender" : "sender, two");
	}
	s = *now;
	if (drain(&s.sleeper, &s.event) && ++n)
		reach(&s, node, "sleeper's store arrives");
	s = *now;
	if (drain(&s.sender, &s.prod) && ++n)
		reach(&s, node, "sender's store arrives");
	return n;
}

static void tell_story(unsigned node)
{
	const struct state *s = &nodes[node].state;

	if (nodes[node].by)
		tell_story(nodes[node].from);
	fprintf(stderr, "%-24s prod %u event %u, %u consumed%s\n",
		nodes[node].by ? nodes[node].by : "start", s->prod, s->event,
		s->consumed, s->pending ? ", event pending" : "");
}

/*
 * Try everything.  The node of the first end at which the sleeper sleeps on
 * something published, -1 if there is none.
 */
static int find_loss(const struct order *order, uint8_t event)
{
	struct state start = { .event = event };

	nr_nodes = 0;
	memset(slots, 0, sizeof(slots));
	reach(&start, 0, NULL);
	for (unsigned i = 0; i < nr_nodes; i++) {
		const struct state *s = &nodes[i].state;

		if (expand(order, i))
			continue;
		/* the end: all was published and all stores have arrived */
		ck_assert_uint_ge(s->published, PUBLISHED);
		ck_assert_uint_eq(s->sleeper.n + s->sender.n, 0);
		ck_assert_int_eq(order->sleeper[s->sleeper_pc], SLEEP);
		if (s->consumed != s->prod)
			return (int)i;
	}
	return -1;
}

/* A fresh ring says 1, one that was disarmed 0. */
START_TEST(no_interleaving_loses_a_wakeup_and_each_wrong_order_does)
{
	const struct order *order = &orders[_i];
	bool lost = false;

	for (uint8_t event = 0; event < 2; event++) {
		int node = find_loss(order, event);

		lost |= node >= 0;
		if (node >= 0 && !order->loses)
			tell_story((unsigned)node);
	}
	ck_assert_uint_gt(nr_nodes, 10);
	ck_assert_msg(lost == order->loses, "%s: %s", order->why,
		      lost ? "loses a wake-up" : "is not caught");
}
END_TEST

/* ---- ring.c, stopped between any two instructions ---- */

static struct scene {
	_Alignas(4096) uint8_t page[4096];
	struct ring ring;
	bool started, returned;
	bool result; /* of the backend's call */
} * scene; /* shared with the process that is stopped */

static struct ring_shared *sring(void)
{
	return (struct ring_shared *)scene->page;
}

/* The guest publishes a request.  True if it sends an event. */
static bool guest_publishes(void)
{
	uint32_t old = sring()->req_prod, new = old + 1;

	sring()->req_prod = new;
	return new - sring()->req_event < new - old;
}

/* The guest wants to sleep.  True if it does not, having seen a response. */
static bool guest_arms(void)
{
	sring()->rsp_event = 1;
	return sring()->rsp_prod != 0;
}

static const struct {
	const char *name;
	bool (*backend)(struct ring *ring); /* in steps */
	bool (*guest)(void); /* at once, between two of them */
} meetings[] = {
	{ "ring_arm", ring_arm, guest_publishes },
	{ "ring_push", ring_push, guest_arms },
};

/* One response is written and not published, no request is there. */
static void set_scene(void)
{
	union abi_slot slot;

	memset(scene, 0, sizeof(*scene));
	ck_assert_int_eq(ring_attach(&scene->ring, ABI_NATIVE, scene->page, 1),
			 0);
	sring()->req_prod = 1;
	ring_take(&scene->ring, &slot);
	ring_put(&scene->ring, 0, 0, 0);
}

static void play_backend(int meeting)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(77);
	raise(SIGSTOP);
	__atomic_store_n(&scene->started, true, __ATOMIC_SEQ_CST);
	scene->result = meetings[meeting].backend(&scene->ring);
	__atomic_store_n(&scene->returned, true, __ATOMIC_SEQ_CST);
	_exit(0);
}

static void step(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) ||
	    waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		ck_abort_msg("cannot go on in steps: %s", strerror(errno));
}

/*
 * The guest acts after @n steps of the call.  False if the call had returned
 * by then.  What both saw is in *backend and *guest.
 */
static bool meet(int meeting, unsigned n, bool *backend, bool *guest)
{
	bool within;
	int status;
	pid_t pid;

	set_scene();
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		play_backend(meeting);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		ck_abort_msg("ptrace does not work here");
	while (!scene->started)
		step(pid);
	while (n-- && !scene->returned)
		step(pid);
	within = !scene->returned;
	*guest = meetings[meeting].guest();
	if (ptrace(PTRACE_CONT, pid, NULL, NULL) ||
	    waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		ck_abort_msg("%s: does not return", meetings[meeting].name);
	*backend = scene->result;
	return within;
}

START_TEST(no_instruction_of_ring_c_is_a_bad_moment)
{
	unsigned n, by_backend = 0, by_guest = 0;
	bool backend, guest;

	scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(scene, MAP_FAILED);
	for (n = 0; meet(_i, n, &backend, &guest); n++) {
		if (!backend && !guest)
			ck_abort_msg("%s: lost after instruction %u",
				     meetings[_i].name, n);
		by_backend += backend;
		by_guest += guest;
	}
	/* we did stop where it matters: before and after */
	ck_assert_uint_gt(n, 4);
	ck_assert_uint_gt(by_backend, 0);
	ck_assert_uint_gt(by_guest, 0);
	ck_assert(backend || guest);
	munmap(scene, sizeof(*scene));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lost_wakeup");
	TCase *tcase = tcase_create("lost_wakeup");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(
		tcase, no_interleaving_loses_a_wakeup_and_each_wrong_order_does,
		0, NR_ORDERS);
	tcase_add_loop_test(tcase, no_instruction_of_ring_c_is_a_bad_moment, 0,
			    2);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
