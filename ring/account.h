/* SPDX-License-Identifier: BSD-3-Clause */
/* What the data path tells its meter (meter.h).  Only serve.c calls this. */
#pragma once

#include "ring/queue.h"

/* A good request came off the ring. */
void account_taken(struct queue *queue, const struct req *req);

/* Any request got its answer, after the last copy of its turn. */
void account_answered(struct queue *queue, const struct req *req);

/* At the end of a turn that did something. */
void account_show(struct queue *queue);
