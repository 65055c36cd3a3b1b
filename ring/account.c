/* SPDX-License-Identifier: BSD-3-Clause */
/* See account.h.  A sector is 512 bytes, as in all of blkif. */
#include "ring/account.h"

#include "poll/counter.h"

enum { SECTOR_SHIFT = 9 };

void account_taken(struct queue *queue, const struct req *req)
{
	const struct parsed *p = &req->parsed;
	struct meter_counts *now = &queue->meter.now;
	uint64_t sect = p->len >> SECTOR_SHIFT;

	if (!p->has_data) {
		now->flushes++;
	} else if (p->op == IO_READ) {
		counter_add(&queue->counters.read_sect, sect);
		now->read.submitted++;
		now->read.sect += sect;
	} else if (p->op == IO_WRITE) {
		counter_add(&queue->counters.write_sect, sect);
		now->write.submitted++;
		now->write.sect += sect;
	} else {
		now->discards++;
	}
}

void account_answered(struct queue *queue, const struct req *req)
{
	struct meter *meter = &queue->meter;
	uint64_t ns = 0;
	struct meter_side *side;

	if (req->weight) {
		ns = meter_clock(meter) - req->taken_ns;
		meter_took(meter, METER_TOTAL, ns, req->weight);
	}
	if (!req->parsed.has_data)
		return;
	if (req->parsed.op == IO_READ)
		side = &meter->now.read;
	else if (req->parsed.op == IO_WRITE)
		side = &meter->now.write;
	else
		return;
	side->completed++;
	side->total_ns += ns * req->weight;
	if (ns > side->max_ns)
		side->max_ns = ns;
}

void account_show(struct queue *queue)
{
	struct meter_counts *now = &queue->meter.now;

	now->errors = queue->counters.io_errors;
	now->req_cons = queue->ring.req_cons;
	now->rsp_prod = queue->ring.rsp_pushed;
	meter_show(&queue->meter);
}
