/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend's half of a blkif ring: indices and memory barriers, which live
 * here and nowhere else.  The shared page is struct blkif_sring of Xen's public
 * io/ring.h; the guest may write anything into it at any time.  One thread.
 * Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "ring/abi.h"

/* The start of the shared page (io/ring.h: DEFINE_RING_TYPES). */
struct ring_shared {
	uint32_t req_prod; /* the guest's: requests published */
	uint32_t req_event; /* ours: send an event when req_prod passes it */
	uint32_t rsp_prod; /* ours: responses published */
	uint32_t rsp_event; /* the guest's: when it wants one */
	uint8_t pad[48];
	uint8_t slots[];
};

struct ring {
	struct ring_shared *shared;
	uint8_t *slots;
	uint32_t mask; /* number of slots - 1 */
	uint32_t req_cons; /* requests taken */
	uint32_t rsp_prod; /* responses written, perhaps not yet published */
	uint32_t rsp_pushed; /* responses published */
	uint32_t slot_size;
	enum abi abi;
};

/*
 * Attach to the @pages pages mapped at @shared, going on where the last backend
 * published (a fresh ring is all zeros).  -EPROTO if the guest's index
 * is more than a ring ahead of that.
 */
int ring_attach(struct ring *ring, enum abi abi, void *shared, unsigned pages);

static inline uint32_t ring_slots(const struct ring *ring)
{
	return ring->mask + 1;
}

/* Requests taken and not yet answered. */
static inline uint32_t ring_outstanding(const struct ring *ring)
{
	return ring->req_cons - ring->rsp_prod;
}

/*
 * How many requests may be taken now; their slots can be read after this.
 * -EPROTO: the guest claims more than fit, or took some back.
 */
int ring_pending(const struct ring *ring);

/* Copy the next slot.  Only as often as ring_pending said. */
void ring_take(struct ring *ring, union abi_slot *out);

/* Write the next response, unpublished.  Never more than were taken. */
void ring_put(struct ring *ring, uint64_t id, uint8_t op, int16_t status);

/* Publish what was put.  True if the guest asked for an event. */
bool ring_push(struct ring *ring);

/*
 * Ask for an event at the next request, then look once more.  True: there is
 * one already.
 */
bool ring_arm(struct ring *ring);

/* Ask for none: the event index stays behind what was taken. */
void ring_disarm(struct ring *ring);
