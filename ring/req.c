/* SPDX-License-Identifier: BSD-3-Clause */
/* See req.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "ring/req.h"

int req_pool_init(struct req_pool *pool, unsigned n, struct queue *queue)
{
	size_t bytes = (size_t)n * REQ_BUFFER_SIZE;
	void *buffers;

	*pool = (struct req_pool){ .n = n };
	buffers = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (buffers == MAP_FAILED)
		return -ENOMEM;
	/* one warm buffer must not cost a huge page; a refusal is harmless */
	madvise(buffers, bytes, MADV_NOHUGEPAGE);
	/*
	 * Cache-line aligned: a request's io, which the driver writes, does
	 * not share a line with the next one's.
	 */
	pool->reqs = aligned_alloc(64, (n * sizeof(struct req) + 63) & ~63ul);
	if (!pool->reqs) {
		munmap(buffers, bytes);
		return -ENOMEM;
	}
	pool->buffers = buffers;
	for (unsigned i = n; i-- > 0;) {
		struct req *req = &pool->reqs[i];

		*req = (struct req){
			.queue = queue,
			.buf = pool->buffers + (size_t)i * REQ_BUFFER_SIZE,
			.next = pool->free,
		};
		pool->free = req;
	}
	return 0;
}

void req_pool_fini(struct req_pool *pool)
{
	if (!pool->reqs)
		return;
	munmap(pool->buffers, (size_t)pool->n * REQ_BUFFER_SIZE);
	free(pool->reqs);
	pool->reqs = NULL;
}

struct req *req_get(struct req_pool *pool)
{
	struct req *req = pool->free;
	unsigned index;

	assert(req);
	pool->free = req->next;
	pool->used++;
	index = (unsigned)(req - pool->reqs);
	if (index >= pool->dirty)
		pool->dirty = index + 1;
	req->next = NULL;
	req->err = 0;
	req->give_up_ns = 0;
	return req;
}

void req_put(struct req_pool *pool, struct req *req)
{
	req->next = pool->free;
	pool->free = req;
	pool->used--;
}

void req_pool_trim(struct req_pool *pool)
{
	assert(pool->used == 0);
	if (pool->dirty)
		madvise(pool->buffers, (size_t)pool->dirty * REQ_BUFFER_SIZE,
			MADV_DONTNEED);
	pool->dirty = 0;
}
