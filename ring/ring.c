/* SPDX-License-Identifier: BSD-3-Clause */
/* Indices and barriers: see ring.h. */
#include <assert.h>
#include <errno.h>
#include "ring/ring.h"

static_assert(offsetof(struct ring_shared, slots) == 64, "io/ring.h");

int ring_attach(struct ring *ring, enum abi abi, void *shared, unsigned pages)
{
	uint32_t slots = abi_ring_slots(abi, pages);
	int n;

	*ring = (struct ring){
		.shared = shared,
		.slots =
			(uint8_t *)shared + offsetof(struct ring_shared, slots),
		.mask = slots - 1,
		.slot_size = (uint32_t)abi_slot_size(abi),
		.abi = abi,
	};
	ring->rsp_prod =
		__atomic_load_n(&ring->shared->rsp_prod, __ATOMIC_RELAXED);
	ring->req_cons = ring->rsp_prod;
	ring->rsp_pushed = ring->rsp_prod;
	n = ring_pending(ring);
	return n < 0 ? n : 0;
}

int ring_pending(const struct ring *ring)
{
	/*
	 * Acquire: the slots are read after the index that announces them.
	 * Read once: what is checked is what is used.
	 */
	uint32_t prod =
		__atomic_load_n(&ring->shared->req_prod, __ATOMIC_ACQUIRE);
	uint32_t n = prod - ring->req_cons;

	/* an index that went back is a huge number here */
	if (n > ring_slots(ring) - ring_outstanding(ring))
		return -EPROTO;
	return (int)n;
}

static void *slot(const struct ring *ring, uint32_t index)
{
	return ring->slots + (size_t)(index & ring->mask) * ring->slot_size;
}

void ring_take(struct ring *ring, union abi_slot *out)
{
	abi_read_slot(ring->abi, slot(ring, ring->req_cons++), out);
}

void ring_put(struct ring *ring, uint64_t id, uint8_t op, int16_t status)
{
	assert(ring_outstanding(ring) > 0);
	abi_write_response(ring->abi, slot(ring, ring->rsp_prod++), id, op,
			   status);
}

bool ring_push(struct ring *ring)
{
	struct ring_shared *shared = ring->shared;
	/* the guest can write rsp_prod too: what we published is known here */
	uint32_t new = ring->rsp_prod, old = ring->rsp_pushed, event;

	ring->rsp_pushed = new;
	/* release: the responses are there before the index that says so */
	__atomic_store_n(&shared->rsp_prod, new, __ATOMIC_RELEASE);
	/*
	 * The guest writes rsp_event and then reads rsp_prod; we write rsp_prod
	 * and then read rsp_event.  One of us must see the other's.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	event = __atomic_load_n(&shared->rsp_event, __ATOMIC_RELAXED);
	return new - event < new - old;
}

bool ring_arm(struct ring *ring)
{
	struct ring_shared *shared = ring->shared;

	__atomic_store_n(&shared->req_event, ring->req_cons + 1,
			 __ATOMIC_RELAXED);
	/*
	 * We write req_event and then read req_prod; the guest writes req_prod
	 * and then reads req_event.  One of us must see the other's.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&shared->req_prod, __ATOMIC_ACQUIRE) !=
	       ring->req_cons;
}

void ring_disarm(struct ring *ring)
{
	/*
	 * The guest sends an event when req_prod passes req_event; where it
	 * stands at what was taken nothing passes it for 2^32 requests.
	 */
	__atomic_store_n(&ring->shared->req_event, ring->req_cons,
			 __ATOMIC_RELAXED);
}
