/* SPDX-License-Identifier: BSD-3-Clause */
/* See copy.h. */
#include <errno.h>
#include "poll/counter.h"
#include "ring/copy.h"
#include "ring/queue.h"

static unsigned describe(struct req *req, struct guest_copy *copies)
{
	uint8_t *local = req->buf;
	unsigned i;

	for (i = 0; i < req->parsed.nr_segments; i++) {
		const struct parse_segment *seg = &req->parsed.segments[i];

		copies[i] = (struct guest_copy){
			.gref = seg->gref,
			.offset = seg->offset,
			.len = seg->len,
			.local = local,
		};
		local += seg->len;
	}
	return i;
}

bool copy_requests(struct queue *queue, struct req *list, enum req_step step,
		   enum guest_direction direction)
{
	struct guest_copy *copy = queue->copies;
	unsigned n = 0;

	for (struct req *r = list; r; r = r->next)
		if (r->step == step)
			n += describe(r, queue->copies + n);
	if (n == 0 ||
	    !queue->guest_ops->copy(queue->guest, direction, queue->copies, n))
		return n > 0;
	for (struct req *r = list; r; r = r->next) {
		if (r->step != step)
			continue;
		for (unsigned i = 0; i < r->parsed.nr_segments; i++, copy++)
			if (copy->err && (!r->err || r->err == -EAGAIN))
				r->err = copy->err;
		if (r->err)
			counter_add(&queue->counters.copy_errors, 1);
	}
	return true;
}
