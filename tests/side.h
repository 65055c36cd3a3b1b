/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One of the guests that share a disk in test_chaos.c: it asks at random, knows
 * what each answer must be, and what the sectors may hold whatever becomes of
 * it and of its ring.  Functions fail the running test when an answer is wrong.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "ring/vbd.h"
#include "tests/dice.h"
#include "tests/frontend.h"
#include "tests/oracle.h"

enum {
	SIDES = 2,
	/* Guests own groups in turn, so that they share 4096-byte blocks. */
	SIDE_GROUP = 5, /* sectors */
	SIDE_GROUPS = 64,
	SIDE_SECTORS = SIDE_GROUP * SIDE_GROUPS, /* ORACLE_SECTORS at most */
	SIDE_TAGS = 64,
	SIDE_DOMID = 7,
};

/* What all guests of a disk know of it. */
struct side_disk {
	struct dice dice;
	const char *spec;
	bool faulty; /* any request may fail */
	bool forgets; /* all zeros after every open */
	struct oracle oracle;
	bool busy[SIDE_GROUPS];
	uint32_t stamp;
	unsigned epoch; /* grows whenever the image may have been reopened */
	bool flush_failed;
};

struct side_asked {
	bool asked;
	uint8_t op;
	unsigned first, n; /* sectors; n 0: no data */
	uint32_t stamp; /* of a write */
	unsigned epoch;
	bool doomed; /* a flush that can only fail, in this epoch */
};

/* A guest with its ring. */
struct side {
	struct side_disk *disk;
	unsigned number; /* of SIDES */
	struct frontend *f;
	struct frontend_options options;
	char socket[108], guest[120];
	uint32_t devid;
	struct side_asked asked[SIDE_TAGS];
	bool connected; /* and nobody took it back */
	bool leaving; /* the memory may still be used, for no request of ours */
	bool closing; /* leaving, because the disk is closed */
	bool broken;
};

/* The image was opened anew, or may have been. */
void side_disk_reopened(struct side_disk *d);

/* Queue something, anything; or @a, false if the ring is full. */
void side_ask(struct side *side);
bool side_queue(struct side *side, const struct side_asked *a);
/* Check what has been answered. */
void side_take(struct side *side);

void side_connect(struct side *side, struct vbd *vbd);
/* The memory is not used any more: the next ring lies in it. */
void side_reset(struct side *side);
/* The domain dies, and another takes its place. */
void side_replace(struct side *side);
void side_break_ring(struct side *side);
