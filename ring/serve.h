/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a data thread does with requests, between two waits: the steps of one
 * request, for all that a turn takes.  Only queue.c calls this.
 */
#pragma once

#include <stdbool.h>
#include "ring/queue.h"

/*
 * One turn: take, copy in, submit, reap, copy out, answer, notify.  True if
 * anything was done, so that the window opens anew.
 */
bool serve_turn(struct queue *queue);

/* Every request that was taken has been answered, or dropped. */
bool serve_idle(const struct queue *queue);

/*
 * The guest is gone: what waits for another try is dropped.  What is in flight
 * is dropped when it ends.
 */
void serve_abandon(struct queue *queue);

/* After trim_ns changed: the clock source's date is the earliest there is. */
void serve_set_due(struct queue *queue);

/* If the guest sent a request now, it would be taken. */
static inline bool serve_takes(const struct queue *queue)
{
	return queue->state == RING_RUNNING && !queue->barrier;
}
