/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at once: two guests on one disk do I/O while the toolstack
 * pauses, resumes, closes, disconnects and retunes, guests die and break their
 * rings, in an order that dice choose.  An oracle knows what each sector may
 * hold.
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
#include "tests/dice.h"
#include "tests/frontend.h"
#include "tests/oracle.h"
#include "tests/rig.h"

enum {
	/* Guests own groups in turn, so that they share 4096-byte blocks. */
	GROUP = 5, /* sectors */
	GROUPS = 64,
	SECTORS = GROUP * GROUPS, /* ORACLE_SECTORS at most */
	SIDES = 2,
	TAGS = 64,
	DOMID = 7,
	UNTOUCHED = 0xa5,
	WORD_PAUSED = 0x20,
};

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

struct asked {
	bool asked;
	uint8_t op;
	unsigned first, n; /* sectors; n 0: no data */
	uint32_t stamp; /* of a write */
	unsigned epoch;
	bool doomed; /* a flush that can only fail, in this epoch */
};

struct walk;

/* A command under way. */
struct answer {
	struct vbd_reply reply; /* first */
	struct walk *walk;
	struct side *side; /* of a disconnect */
	bool pending;
	uint64_t since_ns, took_ns;
};

/* A guest with its ring. */
struct side {
	struct walk *walk;
	struct frontend *f;
	struct frontend_options options;
	char socket[108], guest[120];
	uint32_t devid;
	struct asked asked[TAGS];
	bool connected; /* and nobody took it back */
	bool leaving; /* the memory may still be used, for no request of ours */
	bool closing; /* leaving, because the disk is closed */
	bool broken;
	struct answer disconnect;
};

struct walk {
	struct dice dice;
	const struct spec *spec;
	char image[400];
	struct loop *loop;
	unsigned fds; /* with only the loop open */
	struct vbd *vbd;
	struct side sides[SIDES];
	struct oracle oracle;
	bool busy[GROUPS];
	uint32_t stamp;
	unsigned epoch; /* grows whenever the image may have been reopened */
	bool flush_failed;
	struct answer alone; /* one at a time, as tapdisk does it */
	struct answer forced;
	bool closing; /* alone is a close */
};

/* ---- what is right ---- */

static bool writes(uint8_t op)
{
	return op == BLKIF_OP_WRITE || op == BLKIF_OP_WRITE_BARRIER ||
	       op == BLKIF_OP_FLUSH_DISKCACHE;
}

static bool flushes(uint8_t op)
{
	return op == BLKIF_OP_WRITE_BARRIER || op == BLKIF_OP_FLUSH_DISKCACHE;
}

/* The image was opened anew, or may have been. */
static void new_epoch(struct walk *w)
{
	w->epoch++;
	w->flush_failed = false;
	if (w->spec->forgets)
		oracle_may_hold(&w->oracle, 0, SECTORS, 0);
}

/* ---- requests ---- */

static void check_status(struct side *side, const struct asked *a, int status)
{
	struct walk *w = side->walk;

	if (a->op >= BLKIF_OP_INDIRECT) {
		ck_assert_int_eq(status, BLKIF_RSP_EOPNOTSUPP);
		return;
	}
	ck_assert_msg(status == BLKIF_RSP_OKAY || w->spec->faulty,
		      "%s: operation %u: status %d", w->spec->spec, a->op,
		      status);
	if (!flushes(a->op) || a->epoch != w->epoch)
		return;
	ck_assert_msg(!a->doomed || status != BLKIF_RSP_OKAY,
		      "%s: a flush after a failed one succeeded",
		      w->spec->spec);
	/* of one with data the write may be what failed */
	if (status != BLKIF_RSP_OKAY && !a->n)
		w->flush_failed = true;
}

static void check_data(struct side *side, const struct asked *a, unsigned tag,
		       int status)
{
	const uint8_t *data = frontend_data(side->f, tag);
	struct walk *w = side->walk;

	if (status == BLKIF_RSP_OKAY && a->op == BLKIF_OP_READ)
		oracle_was_read(&w->oracle, a->first, a->n, data);
	else if (status == BLKIF_RSP_OKAY && writes(a->op))
		oracle_holds(&w->oracle, a->first, a->n, a->stamp);
	for (unsigned i = 0; i < a->n * ORACLE_SECTOR; i++)
		if (a->op == BLKIF_OP_READ && status != BLKIF_RSP_OKAY)
			ck_assert_msg(data[i] == UNTOUCHED,
				      "a failed read changed the guest's page");
}

static void take(struct side *side)
{
	struct frontend_response rsp;
	struct asked *a;
	int n;

	while ((n = frontend_take(side->f, &rsp)) > 0) {
		a = &side->asked[rsp.tag];
		ck_assert(a->asked);
		a->asked = false;
		check_status(side, a, rsp.status);
		check_data(side, a, rsp.tag, rsp.status);
		if (a->n)
			side->walk->busy[a->first / GROUP] = false;
	}
	ck_assert_msg(n == 0, "%s: a wrong answer", side->walk->spec->spec);
}

/* A place of this guest's that nobody is at, or false. */
static bool find_place(struct side *side, struct asked *a)
{
	struct walk *w = side->walk;
	unsigned group = (unsigned)dice_below(&w->dice, GROUPS / SIDES);
	unsigned at;

	group = group * SIDES + (unsigned)(side - w->sides);
	if (w->busy[group])
		return false;
	at = (unsigned)dice_below(&w->dice, GROUP);
	a->first = group * GROUP + at;
	a->n = 1 + (unsigned)dice_below(&w->dice, GROUP - at);
	return true;
}

static bool queue(struct side *side, const struct asked *a)
{
	int tag = frontend_next_tag(side->f);
	struct frontend_request r;
	struct walk *w = side->walk;
	uint8_t *data;

	if (tag < 0)
		return false;
	data = frontend_data(side->f, (unsigned)tag);
	frontend_fill(&r, a->op, a->first, a->n * ORACLE_SECTOR);
	side->asked[tag] = *a;
	side->asked[tag].asked = true;
	side->asked[tag].epoch = w->epoch;
	side->asked[tag].doomed = w->flush_failed;
	memset(data, UNTOUCHED, GROUP * ORACLE_SECTOR);
	if (writes(a->op)) {
		oracle_fill(data, a->first, a->n, a->stamp);
		oracle_may_hold(&w->oracle, a->first, a->n, a->stamp);
	} else if (a->op == BLKIF_OP_DISCARD) {
		oracle_may_hold(&w->oracle, a->first, a->n, 0);
	}
	if (a->n)
		w->busy[a->first / GROUP] = true;
	ck_assert_int_eq(frontend_queue(side->f, &r), tag);
	return true;
}

static void ask(struct side *side)
{
	static const uint8_t ops[] = {
		BLKIF_OP_READ,	BLKIF_OP_READ,
		BLKIF_OP_WRITE, BLKIF_OP_WRITE,
		BLKIF_OP_WRITE, BLKIF_OP_FLUSH_DISKCACHE,
		BLKIF_OP_READ,	BLKIF_OP_WRITE_BARRIER,
		BLKIF_OP_WRITE, BLKIF_OP_DISCARD,
	};
	struct walk *w = side->walk;
	struct asked a = { .stamp = ++w->stamp };

	a.op = ops[dice_below(&w->dice, sizeof(ops))];
	if (dice_below(&w->dice, 50) == 0)
		a.op = BLKIF_OP_INDIRECT;
	if (a.op < BLKIF_OP_INDIRECT &&
	    (!flushes(a.op) || dice_below(&w->dice, 2))) {
		if (!find_place(side, &a))
			return;
		if (!oracle_has_room(&w->oracle, a.first, a.n))
			a.op = BLKIF_OP_READ;
	}
	queue(side, &a);
}

/* ---- guests come and go ---- */

/* What was not answered will not be. */
static void forget(struct side *side)
{
	take(side);
	for (unsigned i = 0; i < TAGS; i++) {
		if (side->asked[i].asked && side->asked[i].n)
			side->walk->busy[side->asked[i].first / GROUP] = false;
		side->asked[i].asked = false;
	}
	side->connected = side->leaving = side->closing = side->broken = false;
}

/* The memory is not used any more: the next ring lies in it. */
static void reset(struct side *side)
{
	forget(side);
	frontend_reset(side->f);
}

/* The domain dies, and another takes its place. */
static void replace(struct side *side)
{
	forget(side);
	frontend_close(side->f);
	side->options.sleep = false;
	ck_assert_int_eq(frontend_open(&side->options, &side->f), 0);
}

static void break_ring(struct side *side)
{
	uint32_t *req_prod = frontend_sring(side->f);

	__atomic_fetch_add(req_prod, 1000, __ATOMIC_RELEASE);
	frontend_kick(side->f);
	side->broken = true;
}

static void connect_side(struct side *side)
{
	struct walk *w = side->walk;
	struct vbd_connect connect = {
		.domid = DOMID,
		.devid = side->devid,
		.abi = side->options.abi,
		.guest = side->guest,
		.port = frontend_port(side->f),
		.nr_refs = frontend_nr_refs(side->f),
	};
	int err;

	memcpy(connect.refs, frontend_refs(side->f),
	       connect.nr_refs * sizeof(connect.refs[0]));
	err = vbd_connect(w->vbd, &connect);
	ck_assert_msg(err == 0 || err == -ENODEV || err == -EALREADY ||
			      err == -EBUSY,
		      "connect: %s", strerror(-err));
	side->connected = err == 0;
}

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
			      (err == -EIO && a->walk->spec->faulty),
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

static void disconnect(struct side *side)
{
	if (side->disconnect.pending || side->leaving)
		return;
	side->leaving = side->connected;
	vbd_disconnect(side->walk->vbd, DOMID, side->devid,
		       begin(side->walk, &side->disconnect, side));
}

static void close_disk(struct walk *w)
{
	w->closing = true;
	for (unsigned i = 0; i < SIDES; i++) {
		struct side *side = &w->sides[i];

		side->closing = side->connected && !side->leaving;
		side->leaving |= side->closing;
	}
	new_epoch(w);
	vbd_close(w->vbd, false, begin(w, &w->alone, NULL));
}

static void force_disk(struct walk *w)
{
	if (w->forced.pending)
		return;
	new_epoch(w);
	vbd_close(w->vbd, true, begin(w, &w->forced, NULL));
	ck_assert(!w->forced.pending);
	ck_assert(!w->closing || !w->alone.pending);
	/* the rings are only told yet */
	for (unsigned i = 0; i < SIDES; i++)
		if (w->sides[i].connected || w->sides[i].leaving)
			replace(&w->sides[i]);
}

static void open_disk(struct walk *w)
{
	struct vbd_open_options options = { 0 };
	int err = vbd_open(w->vbd, w->image, &options);

	ck_assert_msg(err == 0 || err == -EALREADY || err == -EBUSY, "open: %s",
		      strerror(-err));
	if (!err)
		new_epoch(w);
}

static void resume_disk(struct walk *w)
{
	new_epoch(w);
	vbd_resume(w->vbd, NULL, 0, false, begin(w, &w->alone, NULL));
}

static void retune(struct walk *w)
{
	static const uint32_t us[] = { 0, 20, 150, 1000, 5000 };
	struct vbd_polling polling = {
		.mode = (enum wait_mode)dice_below(&w->dice, NR_WAIT_MODES),
		.duration_us = us[dice_below(&w->dice, 5)],
	};

	ck_assert_int_eq(vbd_set_polling(w->vbd,
					 dice_below(&w->dice, 2)
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
		struct side *side = &w->sides[i];

		take(side);
		if (!side->leaving)
			continue;
		if (side->closing && !w->alone.pending)
			reset(side);
		else if (side->closing || side->disconnect.pending)
			continue;
		else if (side->disconnect.took_ns < PROMPT_NS)
			reset(side);
		else
			replace(side);
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
			disconnect(side);
		else
			connect_side(side);
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
			      w->spec->spec, in_flight(w),
			      vbd_state_word(w->vbd));
	}
}

static void verify(struct walk *w)
{
	settle(w);
	for (unsigned group = 0; group < GROUPS; group++) {
		struct side *side = &w->sides[group % SIDES];
		struct asked a = { .op = BLKIF_OP_READ,
				   .first = group * GROUP,
				   .n = GROUP };

		while (!queue(side, &a))
			settle(w);
		frontend_push(side->f);
	}
	settle(w);
}

/* What the toolstack may do, and what a guest may do to itself. */
static void upset(struct walk *w)
{
	struct side *side = &w->sides[dice_below(&w->dice, SIDES)];
	bool may_go = side->connected && !side->leaving;

	switch (dice_below(&w->dice, 14)) {
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
		disconnect(side);
		break;
	case 8:
		if (may_go)
			replace(side);
		break;
	case 9:
		if (may_go && !side->broken)
			break_ring(side);
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
	uint64_t what = dice_below(&w->dice, 100);
	struct side *side = &w->sides[what % SIDES];

	if (what < 8)
		upset(w);
	else if (what < 25)
		repair(w);
	else if (what < 40)
		run(w, dice_below(&w->dice, CLOCK_SECOND / 500));
	else if (!side->leaving && !side->broken) {
		for (uint64_t n = dice_below(&w->dice, 8); n; n--)
			ask(side);
		frontend_push(side->f);
	}
	look(w);
}

/* ---- the whole ---- */

static void walk_open(struct walk *w, uint64_t seed, const struct spec *spec)
{
	struct dice *dice = &w->dice;
	char path[256] = "";

	w->dice.state = seed;
	w->spec = spec;
	if (spec->spec[strlen(spec->spec) - 1] == ':')
		rig_file(path, sizeof(path), "image", SECTORS * ORACLE_SECTOR);
	snprintf(w->image, sizeof(w->image), "%s%s", spec->spec, path);
	oracle_holds(&w->oracle, 0, SECTORS, 0);
	ck_assert_int_eq(loop_open(&w->loop), 0);
	w->fds = scratch_descriptors();
	ck_assert_int_eq(vbd_create(w->loop, 3, -1, NULL, &w->vbd), 0);
	for (unsigned i = 0; i < SIDES; i++) {
		struct side *side = &w->sides[i];

		side->walk = w;
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
			      w->spec->spec, rig_threads() - threads,
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
