/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at once: two guests on one disk do I/O while the toolstack
 * pauses, resumes, closes, disconnects and retunes, guests die and break their
 * rings, in an order that dice choose.  An oracle knows what each sector may
 * hold; the guests are side.c.
 *
 * Every request is answered once, or its ring was disconnected; nothing reads
 * what was never written, and no write of an old ring lands after one of a
 * new; every command is answered once; in the end nothing is left.
 *
 * SCALE multiplies the time; CHAOS_SEED replaces the first seed.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "poll/clock.h"
#include "poll/log.h"
#include "poll/loop.h"
#include "ring/vbd.h"
#include "tests/rig.h"
#include "tests/side.h"

enum { WORD_PAUSED = 0x20 };

#define WALK_NS (CLOCK_SECOND)
#define SETTLE_NS (30 * CLOCK_SECOND)
/* A disconnect that took longer may be of a thread that uses it still. */
#define PROMPT_NS (CLOCK_SECOND / 30)

static const struct spec {
	const char *spec; /* the image's path follows, if it ends in ':' */
	bool faulty; /* any request may fail */
	bool forgets; /* all zeros after every open */
} specs[] = {
	{ .spec = "aio:" },
	{ .spec = "ram:160k", .forgets = true },
	{ .spec = "delay:us=700;aio:" },
	{ .spec = "delay:us=20000,op=write;ram:160k", .forgets = true },
	{ .spec = "aio:@delay:us=300;aio:" },
	{ .spec = "fault:every=3,err=EAGAIN;aio:" },
	{ .spec = "fault:every=7,err=EIO;delay:us=200,op=read;aio:",
	  .faulty = true },
	{ .spec = "fault:op=flush,every=9,err=EIO;aio:", .faulty = true },
	{ .spec = "fault:op=write,every=5,short=512;aio:", .faulty = true },
	{ .spec = "delay:us=500,op=flush;fault:op=read,every=4,err=EBUSY;"
		  "aio:" },
};

enum { NR_SPECS = sizeof(specs) / sizeof(specs[0]) };

struct walk;

/* A command under way. */
struct answer {
	struct vbd_reply reply; /* first */
	struct walk *walk;
	struct side *side; /* of a disconnect */
	bool pending;
	uint64_t since_ns, took_ns;
};

struct walk {
	struct side_disk disk;
	char image[400];
	struct loop *loop;
	unsigned fds; /* with only the loop open */
	struct vbd *vbd;
	struct side sides[SIDES];
	struct answer disconnects[SIDES];
	struct answer alone; /* one at a time, as tapdisk does it */
	struct answer forced;
	bool closing; /* alone is a close */
};

/* ---- the toolstack ---- */

static void answered(struct vbd_reply *reply, int err)
{
	struct answer *a = (struct answer *)reply;

	ck_assert_msg(a->pending, "a command was answered twice");
	a->pending = false;
	a->took_ns = clock_ns() - a->since_ns;
	ck_assert_msg(err == 0 || err == -EINVAL || err == -EBUSY ||
			      err == -ESHUTDOWN ||
			      (err == -ENODEV && a->side) ||
			      (err == -EIO && a->walk->disk.faulty),
		      "a command: %s", strerror(-err));
}

static struct vbd_reply *begin(struct walk *w, struct answer *a,
			       struct side *side)
{
	*a = (struct answer){ .reply.fn = answered,
			      .walk = w,
			      .side = side,
			      .pending = true,
			      .since_ns = clock_ns() };
	return &a->reply;
}

static void disconnect(struct walk *w, struct side *side)
{
	struct answer *a = &w->disconnects[side->number];

	if (a->pending || side->leaving)
		return;
	side->leaving = side->connected;
	vbd_disconnect(w->vbd, SIDE_DOMID, side->devid, begin(w, a, side));
}

static void close_disk(struct walk *w)
{
	w->closing = true;
	for (unsigned i = 0; i < SIDES; i++) {
		struct side *side = &w->sides[i];

		side->closing = side->connected && !side->leaving;
		side->leaving |= side->closing;
	}
	side_disk_reopened(&w->disk);
	vbd_close(w->vbd, false, begin(w, &w->alone, NULL));
}

static void force_disk(struct walk *w)
{
	if (w->forced.pending)
		return;
	side_disk_reopened(&w->disk);
	vbd_close(w->vbd, true, begin(w, &w->forced, NULL));
	ck_assert(!w->forced.pending);
	ck_assert(!w->closing || !w->alone.pending);
	/* the rings are only told yet */
	for (unsigned i = 0; i < SIDES; i++)
		if (w->sides[i].connected || w->sides[i].leaving)
			side_replace(&w->sides[i]);
}

static void open_disk(struct walk *w)
{
	struct vbd_open_options options = { 0 };
	int err = vbd_open(w->vbd, w->image, &options);

	ck_assert_msg(err == 0 || err == -EALREADY || err == -EBUSY, "open: %s",
		      strerror(-err));
	if (!err)
		side_disk_reopened(&w->disk);
}

static void resume_disk(struct walk *w)
{
	side_disk_reopened(&w->disk);
	vbd_resume(w->vbd, NULL, 0, false, begin(w, &w->alone, NULL));
}

static void retune(struct walk *w)
{
	static const uint32_t us[] = { 0, 20, 150, 1000, 5000 };
	struct vbd_polling polling = {
		.mode = (enum wait_mode)dice_below(&w->disk.dice,
						   NR_WAIT_MODES),
		.duration_us = us[dice_below(&w->disk.dice, 5)],
	};

	ck_assert_int_eq(vbd_set_polling(w->vbd,
					 dice_below(&w->disk.dice, 2)
						 ? VBD_FROM_TAP_CTL
						 : VBD_FROM_XENSTORE,
					 &polling),
			 0);
}

/* ---- the walk ---- */

static void time_up(void *arg)
{
	loop_stop(arg);
}

/* What has been answered meanwhile, to guests and to the toolstack. */
static void look(struct walk *w)
{
	for (unsigned i = 0; i < SIDES; i++) {
		struct answer *left = &w->disconnects[i];
		struct side *side = &w->sides[i];

		side_take(side);
		if (!side->leaving)
			continue;
		if (side->closing && !w->alone.pending)
			side_reset(side);
		else if (side->closing || left->pending)
			continue;
		else if (left->took_ns < PROMPT_NS)
			side_reset(side);
		else
			side_replace(side);
	}
	if (!w->alone.pending)
		w->closing = false;
}

static void run(struct walk *w, uint64_t ns)
{
	struct loop_timer timer = { .fn = time_up, .arg = w->loop };

	loop_timer_set(w->loop, &timer, ns);
	ck_assert_int_eq(loop_run(w->loop), 0);
	loop_timer_clear(w->loop, &timer);
	look(w);
}

static bool paused(const struct walk *w)
{
	return !vbd_is_empty(w->vbd) &&
	       (vbd_state_word(w->vbd) & WORD_PAUSED) != 0;
}

/* One thing that makes the disk serve again.  False: it does. */
static bool repair(struct walk *w)
{
	if (w->alone.pending)
		return true;
	if (vbd_is_empty(w->vbd)) {
		open_disk(w);
		return true;
	}
	if (paused(w)) {
		resume_disk(w);
		return true;
	}
	for (unsigned i = 0; i < SIDES; i++) {
		struct side *side = &w->sides[i];

		if (side->leaving)
			return true;
		if (side->connected && !side->broken)
			continue;
		if (side->connected)
			disconnect(w, side);
		else
			side_connect(side, w->vbd);
		return true;
	}
	return false;
}

static unsigned in_flight(const struct walk *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SIDES; i++)
		n += frontend_in_flight(w->sides[i].f);
	return n;
}

/* Everything works again, and every request is answered. */
static void settle(struct walk *w)
{
	uint64_t end_ns = clock_ns() + SETTLE_NS;

	while (repair(w) || in_flight(w)) {
		run(w, CLOCK_SECOND / 2000);
		ck_assert_msg(clock_ns() < end_ns,
			      "%s: %u requests are never answered, state %x",
			      w->disk.spec, in_flight(w),
			      vbd_state_word(w->vbd));
	}
}

static void verify(struct walk *w)
{
	settle(w);
	for (unsigned group = 0; group < SIDE_GROUPS; group++) {
		struct side *side = &w->sides[group % SIDES];
		struct side_asked a = { .op = BLKIF_OP_READ,
					.first = group * SIDE_GROUP,
					.n = SIDE_GROUP };

		while (!side_queue(side, &a))
			settle(w);
		frontend_push(side->f);
	}
	settle(w);
}

/* What the toolstack may do, and what a guest may do to itself. */
static void upset(struct walk *w)
{
	struct side *side = &w->sides[dice_below(&w->disk.dice, SIDES)];
	bool may_go = side->connected && !side->leaving;

	switch (dice_below(&w->disk.dice, 14)) {
	case 0:
	case 1:
	case 2:
		if (!w->alone.pending)
			vbd_pause(w->vbd, begin(w, &w->alone, NULL));
		break;
	case 3:
		if (!w->alone.pending)
			resume_disk(w);
		break;
	case 4:
		if (!w->alone.pending)
			close_disk(w);
		break;
	case 5:
		force_disk(w);
		break;
	case 6:
	case 7:
		disconnect(w, side);
		break;
	case 8:
		if (may_go)
			side_replace(side);
		break;
	case 9:
		if (may_go && !side->broken)
			side_break_ring(side);
		break;
	case 10:
		frontend_kick(side->f);
		break;
	default:
		retune(w);
		break;
	}
}

static void step(struct walk *w)
{
	uint64_t what = dice_below(&w->disk.dice, 100);
	struct side *side = &w->sides[what % SIDES];

	if (what < 8)
		upset(w);
	else if (what < 25)
		repair(w);
	else if (what < 40)
		run(w, dice_below(&w->disk.dice, CLOCK_SECOND / 500));
	else if (!side->leaving && !side->broken) {
		for (uint64_t n = dice_below(&w->disk.dice, 8); n; n--)
			side_ask(side);
		frontend_push(side->f);
	}
	look(w);
}

/* ---- the whole ---- */

static void walk_open(struct walk *w, uint64_t seed, const struct spec *spec)
{
	struct dice *dice = &w->disk.dice;
	char path[256] = "";

	w->disk.dice.state = seed;
	w->disk.spec = spec->spec;
	w->disk.faulty = spec->faulty;
	w->disk.forgets = spec->forgets;
	if (spec->spec[strlen(spec->spec) - 1] == ':')
		rig_file(path, sizeof(path), "image",
			 SIDE_SECTORS * ORACLE_SECTOR);
	snprintf(w->image, sizeof(w->image), "%s%s", spec->spec, path);
	oracle_holds(&w->disk.oracle, 0, SIDE_SECTORS, 0);
	ck_assert_int_eq(loop_open(&w->loop), 0);
	w->fds = scratch_descriptors();
	ck_assert_int_eq(vbd_create(w->loop, 3, -1, NULL, &w->vbd), 0);
	for (unsigned i = 0; i < SIDES; i++) {
		struct side *side = &w->sides[i];

		side->disk = &w->disk;
		side->number = i;
		side->devid = 51712 + 16 * i;
		scratch_path(side->socket, sizeof(side->socket),
			     i ? "guest1" : "guest0");
		snprintf(side->guest, sizeof(side->guest), "local:%s",
			 side->socket);
		side->options = (struct frontend_options){
			.socket = side->socket,
			.abi = (enum abi)dice_below(dice, NR_ABIS),
			.ring_order = (unsigned)dice_below(dice, 2),
		};
		ck_assert_int_eq(frontend_open(&side->options, &side->f), 0);
	}
}

/*
 * In the middle of everything, or at rest.  A data thread's letter that it is
 * gone may still be on its way when the thread has ended; what it used is
 * freed when main has read it.
 */
static void walk_close(struct walk *w, unsigned threads)
{
	uint64_t end_ns = clock_ns() + SETTLE_NS;

	force_disk(w);
	ck_assert(!w->alone.pending || !vbd_is_empty(w->vbd));
	for (unsigned i = 0; i < SIDES; i++)
		frontend_close(w->sides[i].f);
	ck_assert_int_eq(vbd_destroy(w->vbd), 0);
	do {
		struct loop_timer timer = { .fn = time_up, .arg = w->loop };

		loop_timer_set(w->loop, &timer, CLOCK_SECOND / 1000);
		ck_assert_int_eq(loop_run(w->loop), 0);
		loop_timer_clear(w->loop, &timer);
		ck_assert_msg(clock_ns() < end_ns,
			      "%s: %u threads and %u descriptors are left",
			      w->disk.spec, rig_threads() - threads,
			      scratch_descriptors() - w->fds);
	} while (rig_threads() > threads || scratch_descriptors() > w->fds);
	loop_close(w->loop);
}

static void *do_nothing(void *arg)
{
	return arg;
}

/* With the one that a sanitizer starts beside the first. */
static unsigned count_threads(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, do_nothing, NULL), 0);
	pthread_join(thread, NULL);
	return rig_threads();
}

static uint64_t seed_of(int i)
{
	const char *s = getenv("CHAOS_SEED");

	return (s ? strtoull(s, NULL, 0) : 1) * 1000 + (uint64_t)i;
}

START_TEST(whatever_happens_nothing_is_lost_or_answered_twice)
{
	const char *s = getenv("SCALE");
	uint64_t scale = s && atoi(s) > 0 ? (uint64_t)atoi(s) : 1, end_ns;
	struct walk *w = calloc(1, sizeof(*w));
	unsigned fds, threads;

	log_open("test", -1, -1, false);
	fds = scratch_descriptors();
	threads = count_threads();
	walk_open(w, seed_of(_i), &specs[_i % NR_SPECS]);
	end_ns = clock_ns() + WALK_NS * scale;
	while (clock_ns() < end_ns) {
		for (unsigned i = 0; i < 1000; i++)
			step(w);
		verify(w);
	}
	for (unsigned i = 0; i < 50; i++)
		step(w);
	walk_close(w, threads);
	ck_assert_uint_eq(scratch_descriptors(), fds);
	free(w);
	log_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("chaos");
	TCase *walk = tcase_create("walk");

	tcase_set_timeout(walk, 100);
	tcase_add_loop_test(walk,
			    whatever_happens_nothing_is_lost_or_answered_twice,
			    0, NR_SPECS);
	suite_add_tcase(suite, walk);
	return rig_run(suite);
}
