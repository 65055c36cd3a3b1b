/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recording single waits for whoever asks, and no longer than that: main gives
 * the newest ring's data thread something to write into, and takes it back when
 * nobody has asked for a while.  The memory is main's to free, once the thread
 * has answered that it no longer writes, or has ended.
 */
#include <errno.h>
#include <stdlib.h>
#include "poll/clock.h"
#include "ring/vbd_private.h"

#define PATIENCE_NS (5 * CLOCK_SECOND)

static struct vbd_ring *newest(const struct vbd *vbd)
{
	struct vbd_ring *ring = vbd->rings;

	while (ring && ring->disconnected)
		ring = ring->next;
	return ring;
}

static void give(struct vbd_ring *ring, struct gaps_trace *trace)
{
	ring->queue->commands[QUEUE_TRACE].trace = trace;
	queue_send(ring->queue, QUEUE_TRACE);
}

static void put_away(struct vbd_ring *ring)
{
	if (!ring->trace)
		return;
	if (ring->trace->head > ring->vbd->trace_next)
		ring->vbd->trace_next = ring->trace->head;
	free(ring->trace);
	ring->trace = NULL;
}

/* Not one that a wait of an older ring has. */
static uint64_t next_number(const struct vbd *vbd)
{
	uint64_t next = vbd->trace_next, head;

	for (const struct vbd_ring *r = vbd->rings; r; r = r->next) {
		head = r->trace ? __atomic_load_n(&r->trace->head,
						  __ATOMIC_RELAXED)
				: 0;
		if (head > next)
			next = head;
	}
	return next;
}

void vbd_trace_step(struct vbd_ring *ring)
{
	const struct queue_command *command =
		&ring->queue->commands[QUEUE_TRACE];
	bool wanted = ring->vbd->tracing && ring == newest(ring->vbd);

	/* one that drains reads no more letters, and takes its trace along */
	if (command->posted || ring->disconnected)
		return;
	if (!command->trace)
		put_away(ring);
	if (wanted && !ring->trace) {
		ring->trace = gaps_trace_new(next_number(ring->vbd));
		if (ring->trace)
			give(ring, ring->trace);
	} else if (!wanted && ring->trace) {
		give(ring, NULL);
	}
}

void vbd_trace_gone(struct vbd_ring *ring)
{
	put_away(ring);
}

void vbd_trace_end(struct vbd *vbd)
{
	vbd->tracing = false;
	for (struct vbd_ring *r = vbd->rings; r; r = r->next)
		vbd_trace_step(r);
}

int vbd_trace(struct vbd *vbd, uint64_t *cursor, struct gaps_entry *out,
	      unsigned size, uint64_t *lost)
{
	struct vbd_ring *ring = newest(vbd);
	bool now = *cursor == VBD_TRACE_NOW;

	*lost = 0;
	vbd->tracing = true;
	loop_timer_set(vbd->loop, &vbd->trace_timer, PATIENCE_NS);
	for (struct vbd_ring *r = vbd->rings; r; r = r->next)
		vbd_trace_step(r);
	if (!ring || !ring->trace) {
		if (now)
			*cursor = vbd->trace_next;
		return ring && !ring->queue->commands[QUEUE_TRACE].posted
			       ? -ENOMEM
			       : 0;
	}
	if (now) {
		*cursor = __atomic_load_n(&ring->trace->head, __ATOMIC_ACQUIRE);
		return 0;
	}
	return (int)gaps_trace_read(ring->trace, cursor, out, size, lost);
}
