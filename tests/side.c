/* SPDX-License-Identifier: BSD-3-Clause */
/* See side.h. */
#include <check.h>
#include <errno.h>
#include <string.h>
#include "tests/side.h"

enum { UNTOUCHED = 0xa5 };

static bool writes(uint8_t op)
{
	return op == BLKIF_OP_WRITE || op == BLKIF_OP_WRITE_BARRIER ||
	       op == BLKIF_OP_FLUSH_DISKCACHE;
}

static bool flushes(uint8_t op)
{
	return op == BLKIF_OP_WRITE_BARRIER || op == BLKIF_OP_FLUSH_DISKCACHE;
}

void side_disk_reopened(struct side_disk *d)
{
	d->epoch++;
	d->flush_failed = false;
	if (d->forgets)
		oracle_may_hold(&d->oracle, 0, SIDE_SECTORS, 0);
}

static void check_status(struct side *side, const struct side_asked *a,
			 int status)
{
	struct side_disk *d = side->disk;

	if (a->op >= BLKIF_OP_INDIRECT) {
		ck_assert_int_eq(status, BLKIF_RSP_EOPNOTSUPP);
		return;
	}
	ck_assert_msg(status == BLKIF_RSP_OKAY || d->faulty,
		      "%s: operation %u: status %d", d->spec, a->op, status);
	if (!flushes(a->op) || a->epoch != d->epoch)
		return;
	ck_assert_msg(!a->doomed || status != BLKIF_RSP_OKAY,
		      "%s: a flush after a failed one succeeded", d->spec);
	/* of one with data the write may be what failed */
	if (status != BLKIF_RSP_OKAY && !a->n)
		d->flush_failed = true;
}

static void check_data(struct side *side, const struct side_asked *a,
		       unsigned tag, int status)
{
	const uint8_t *data = frontend_data(side->f, tag);
	struct side_disk *d = side->disk;

	if (status == BLKIF_RSP_OKAY && a->op == BLKIF_OP_READ)
		oracle_was_read(&d->oracle, a->first, a->n, data);
	else if (status == BLKIF_RSP_OKAY && writes(a->op))
		oracle_holds(&d->oracle, a->first, a->n, a->stamp);
	for (unsigned i = 0; i < a->n * ORACLE_SECTOR; i++)
		if (a->op == BLKIF_OP_READ && status != BLKIF_RSP_OKAY)
			ck_assert_msg(data[i] == UNTOUCHED,
				      "a failed read changed the guest's page");
}

void side_take(struct side *side)
{
	struct frontend_response rsp;
	struct side_asked *a;
	int n;

	while ((n = frontend_take(side->f, &rsp)) > 0) {
		a = &side->asked[rsp.tag];
		ck_assert(a->asked);
		a->asked = false;
		check_status(side, a, rsp.status);
		check_data(side, a, rsp.tag, rsp.status);
		if (a->n)
			side->disk->busy[a->first / SIDE_GROUP] = false;
	}
	ck_assert_msg(n == 0, "%s: a wrong answer", side->disk->spec);
}

/* A place of this guest's that nobody is at, or false. */
static bool find_place(struct side *side, struct side_asked *a)
{
	struct side_disk *d = side->disk;
	unsigned group = (unsigned)dice_below(&d->dice, SIDE_GROUPS / SIDES);
	unsigned at;

	group = group * SIDES + side->number;
	if (d->busy[group])
		return false;
	at = (unsigned)dice_below(&d->dice, SIDE_GROUP);
	a->first = group * SIDE_GROUP + at;
	a->n = 1 + (unsigned)dice_below(&d->dice, SIDE_GROUP - at);
	return true;
}

bool side_queue(struct side *side, const struct side_asked *a)
{
	int tag = frontend_next_tag(side->f);
	struct frontend_request r;
	struct side_disk *d = side->disk;
	uint8_t *data;

	if (tag < 0)
		return false;
	data = frontend_data(side->f, (unsigned)tag);
	frontend_fill(&r, a->op, a->first, a->n * ORACLE_SECTOR);
	side->asked[tag] = *a;
	side->asked[tag].asked = true;
	side->asked[tag].epoch = d->epoch;
	side->asked[tag].doomed = d->flush_failed;
	memset(data, UNTOUCHED, SIDE_GROUP * ORACLE_SECTOR);
	if (writes(a->op)) {
		oracle_fill(data, a->first, a->n, a->stamp);
		oracle_may_hold(&d->oracle, a->first, a->n, a->stamp);
	} else if (a->op == BLKIF_OP_DISCARD) {
		oracle_may_hold(&d->oracle, a->first, a->n, 0);
	}
	if (a->n)
		d->busy[a->first / SIDE_GROUP] = true;
	ck_assert_int_eq(frontend_queue(side->f, &r), tag);
	return true;
}

void side_ask(struct side *side)
{
	static const uint8_t ops[] = {
		BLKIF_OP_READ,	BLKIF_OP_READ,
		BLKIF_OP_WRITE, BLKIF_OP_WRITE,
		BLKIF_OP_WRITE, BLKIF_OP_FLUSH_DISKCACHE,
		BLKIF_OP_READ,	BLKIF_OP_WRITE_BARRIER,
		BLKIF_OP_WRITE, BLKIF_OP_DISCARD,
	};
	struct side_disk *d = side->disk;
	struct side_asked a = { .stamp = ++d->stamp };

	a.op = ops[dice_below(&d->dice, sizeof(ops))];
	if (dice_below(&d->dice, 50) == 0)
		a.op = BLKIF_OP_INDIRECT;
	if (a.op < BLKIF_OP_INDIRECT &&
	    (!flushes(a.op) || dice_below(&d->dice, 2))) {
		if (!find_place(side, &a))
			return;
		if (!oracle_has_room(&d->oracle, a.first, a.n))
			a.op = BLKIF_OP_READ;
	}
	side_queue(side, &a);
}

/* What was not answered will not be. */
static void forget(struct side *side)
{
	side_take(side);
	for (unsigned i = 0; i < SIDE_TAGS; i++) {
		if (side->asked[i].asked && side->asked[i].n)
			side->disk->busy[side->asked[i].first / SIDE_GROUP] =
				false;
		side->asked[i].asked = false;
	}
	side->connected = side->leaving = side->closing = side->broken = false;
}

void side_reset(struct side *side)
{
	forget(side);
	frontend_reset(side->f);
}

void side_replace(struct side *side)
{
	forget(side);
	frontend_close(side->f);
	side->options.sleep = false;
	ck_assert_int_eq(frontend_open(&side->options, &side->f), 0);
}

void side_break_ring(struct side *side)
{
	uint32_t *req_prod = frontend_sring(side->f);

	__atomic_fetch_add(req_prod, 1000, __ATOMIC_RELEASE);
	frontend_kick(side->f);
	side->broken = true;
}

void side_connect(struct side *side, struct vbd *vbd)
{
	struct vbd_connect connect = {
		.domid = SIDE_DOMID,
		.devid = side->devid,
		.abi = side->options.abi,
		.guest = side->guest,
		.port = frontend_port(side->f),
		.nr_refs = frontend_nr_refs(side->f),
	};
	int err;

	memcpy(connect.refs, frontend_refs(side->f),
	       connect.nr_refs * sizeof(connect.refs[0]));
	err = vbd_connect(vbd, &connect);
	ck_assert_msg(err == 0 || err == -ENODEV || err == -EALREADY ||
			      err == -EBUSY,
		      "connect: %s", strerror(-err));
	side->connected = err == 0;
}
