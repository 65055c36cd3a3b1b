/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests in flight: as many as the ring has slots, allocated at connect, so
 * that a guest can never ask for one more.  Each owns a buffer for the most
 * data a request can carry.  Buffers lie in one mapping that costs no memory
 * until used and is given back when the ring is idle.  One thread.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "drivers/io.h"
#include "ring/parse.h"

#define REQ_BUFFER_SIZE (PARSE_SEGMENTS_MAX * 4096u)

struct queue;

/* What a request does next; some steps are skipped. */
enum req_step {
	REQ_COPY_IN, /* write data from the guest */
	REQ_FLUSH_BEFORE,
	REQ_DATA,
	REQ_FLUSH_AFTER,
	REQ_COPY_OUT, /* read data to the guest */
	REQ_ANSWER,
};

struct req {
	struct io io; /* first: a done callback's io is its req */
	struct queue *queue;
	void *buf; /* REQ_BUFFER_SIZE bytes, 4096-aligned */
	struct req *next;
	enum req_step step;
	int err; /* what it will be answered with: 0 or -errno */
	uint64_t retry_ns; /* when to try the step again */
	uint64_t give_up_ns; /* when not to any more; 0: no try failed yet */
	uint32_t weight; /* see meter_weight; 0: the two are not set */
	uint64_t taken_ns; /* off the ring */
	uint64_t issued_ns; /* to the disk, the last time */
	struct parsed parsed;
};

struct req_pool {
	struct req *reqs;
	struct req *free; /* last in, first out: its buffer is warm */
	uint8_t *buffers;
	unsigned n;
	unsigned used; /* reqs that are not free */
	unsigned dirty; /* buffers below this number may hold memory */
};

int req_pool_init(struct req_pool *pool, unsigned n, struct queue *queue);
void req_pool_fini(struct req_pool *pool);

struct req *req_get(struct req_pool *pool); /* never fails: see above */
void req_put(struct req_pool *pool, struct req *req);

/* Give the buffers' memory back; none may be in use. */
void req_pool_trim(struct req_pool *pool);
