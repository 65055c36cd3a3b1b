/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: see serve.h.  A request goes through the steps of req.h; each
 * step ends by a call of io_done, or at once.  All writes of a turn are copied
 * from the guest in one call, all reads to it in one call; one push and at most
 * one notification close the turn.
 */
#include <errno.h>
#include <string.h>
#include "poll/clock.h"
#include "poll/counter.h"
#include "ring/account.h"
#include "ring/copy.h"
#include "ring/queue.h"
#include "ring/serve.h"

enum {
	PASSES_MAX = 16, /* of one turn, so that mail is looked at */
};

#define RETRY_NS UINT64_C(10000000)

static void issue(struct req *req);

/* ---- lists: in the order they were taken, or finished ---- */

static void append(struct req ***tail, struct req *req)
{
	req->next = NULL;
	**tail = req;
	*tail = &req->next;
}

static void to_answers(struct req *req)
{
	append(&req->queue->answers_tail, req);
}

/* ---- dates: retries and giving memory back ---- */

void serve_set_due(struct queue *queue)
{
	uint64_t due = queue->trim_ns;

	for (struct req *r = queue->retries; r; r = r->next)
		if (r->retry_ns < due)
			due = r->retry_ns;
	queue->clock_source.due_ns = due;
}

/* Try the step again later.  False: it has been tried for long enough. */
static bool retry(struct req *req)
{
	struct queue *queue = req->queue;
	uint64_t now = clock_ns();

	if (req->give_up_ns == 0)
		req->give_up_ns = now + queue->retry_s * CLOCK_SECOND;
	if (now >= req->give_up_ns)
		return false;
	req->retry_ns = now + RETRY_NS;
	req->err = 0;
	req->next = queue->retries;
	queue->retries = req;
	serve_set_due(queue);
	return true;
}

static unsigned run_dates(struct queue *queue)
{
	struct req *list, *next;
	uint64_t now;
	unsigned n = 0;

	if (queue->clock_source.due_ns == CLOCK_NEVER)
		return 0;
	now = clock_ns();
	if (now < queue->clock_source.due_ns)
		return 0;
	if (now >= queue->trim_ns) {
		if (queue->pool.used == 0)
			req_pool_trim(&queue->pool);
		queue->trim_ns = CLOCK_NEVER;
	}
	list = queue->retries;
	queue->retries = NULL;
	for (struct req *r = list; r; r = next) {
		next = r->next;
		if (now < r->retry_ns) {
			r->next = queue->retries;
			queue->retries = r;
			continue;
		}
		n++;
		if (r->step == REQ_COPY_IN)
			append(&queue->staged_tail, r);
		else
			issue(r);
	}
	serve_set_due(queue);
	return n;
}

/* ---- the steps ---- */

static bool writes_data(const struct parsed *p)
{
	return p->has_data && p->op == IO_WRITE;
}

static enum req_step next_step(const struct req *req)
{
	const struct parsed *p = &req->parsed;

	switch (req->step) {
	case REQ_COPY_IN:
		if (p->flush_before)
			return REQ_FLUSH_BEFORE;
		/* fallthrough */
	case REQ_FLUSH_BEFORE:
		if (p->has_data)
			return REQ_DATA;
		/* fallthrough */
	case REQ_DATA:
		if (p->flush_after)
			return REQ_FLUSH_AFTER;
		/* fallthrough */
	case REQ_FLUSH_AFTER:
		if (p->has_data && p->op == IO_READ)
			return REQ_COPY_OUT;
		/* fallthrough */
	case REQ_COPY_OUT:
	case REQ_ANSWER:
		break;
	}
	return REQ_ANSWER;
}

static void io_done(struct io *io, int err)
{
	struct req *req = (struct req *)io;
	struct queue *queue = req->queue;

	if (req->weight)
		meter_took(&queue->meter, METER_DEVICE,
			   meter_clock(&queue->meter) - req->issued_ns,
			   req->weight);
	if (queue->state == RING_DRAINING) {
		to_answers(req); /* where it is dropped */
		return;
	}
	if (err && io_refused(err) && retry(req))
		return;
	if (err) {
		req->err = err;
		req->step = REQ_ANSWER;
	} else {
		req->step = next_step(req);
	}
	issue(req);
}

/*
 * To the image.  A lone request may be done at once, on this thread; what it
 * cost is measured now and then, of requests that are a single step.
 */
static void submit(struct req *req)
{
	struct queue *queue = req->queue;
	bool spins = queue->wait.settings.spin_ns &&
		     queue->wait.settings.mode != WAIT_EVENT;
	enum policy_op op = queue->wait.op;
	enum sync_way way = SYNC_LATER;
	uint64_t start;

	if (queue->pool.used == 1 && !queue->barrier &&
	    req->parsed.has_data != req->parsed.flush_before)
		way = sync_choose(&queue->sync, op, spins);
	req->io.at_once = way != SYNC_LATER;
	if (req->weight) {
		req->issued_ns = meter_clock(&queue->meter);
		meter_took(&queue->meter, METER_RING,
			   req->issued_ns - req->taken_ns, req->weight);
	}
	if (way == SYNC_LATER) {
		image_submit(queue->port, &req->io);
		return;
	}
	start = way == SYNC_TIMED ? clock_ns() : 0;
	meter_step(&queue->meter);
	image_submit(queue->port, &req->io);
	if (start)
		sync_took(&queue->sync, op, clock_ns() - start);
	/* a broken ring is told by take */
	sync_returned(&queue->sync, ring_pending(&queue->ring) > 0);
}

/* Start the step the request is at. */
static void issue(struct req *req)
{
	const struct parsed *p = &req->parsed;

	switch (req->step) {
	case REQ_FLUSH_BEFORE:
	case REQ_FLUSH_AFTER:
		req->io = (struct io){ .op = IO_FLUSH, .done = io_done };
		submit(req);
		break;
	case REQ_DATA:
		req->io = (struct io){
			.op = p->op,
			.offset = p->offset,
			.len = p->len,
			.buf = p->nr_segments ? req->buf : NULL,
			.done = io_done,
		};
		submit(req);
		break;
	case REQ_COPY_IN: /* start_staged's */
	case REQ_COPY_OUT:
	case REQ_ANSWER:
		to_answers(req);
		break;
	}
}

static void start(struct req *req)
{
	req->step = next_step(req);
	issue(req);
}

/* A barrier starts when everything taken before it has been answered. */
static bool barrier_can_start(const struct queue *queue)
{
	const struct req *req = queue->barrier;

	return req && req->step == REQ_COPY_IN && queue->pool.used == 1 &&
	       !queue->staged && !queue->retries;
}

static unsigned start_barrier(struct queue *queue)
{
	if (!barrier_can_start(queue))
		return 0;
	start(queue->barrier);
	return 1;
}

/* What was taken: copy in, in one call, then start each in order. */
static void start_staged(struct queue *queue)
{
	struct req *list = queue->staged, *next;

	if (!list)
		return;
	queue->staged = NULL;
	queue->staged_tail = &queue->staged;
	if (copy_requests(queue, list, REQ_COPY_IN, GUEST_TO_US))
		meter_step(&queue->meter);
	for (struct req *r = list; r; r = next) {
		next = r->next;
		if (io_refused(r->err) && r->step == REQ_COPY_IN && retry(r))
			continue;
		if (r->err) {
			r->step = REQ_ANSWER;
			to_answers(r);
		} else if (r == queue->barrier) {
			continue; /* start_barrier's */
		} else if (r->step == REQ_COPY_IN) {
			start(r);
		} else {
			issue(r);
		}
	}
}

/* ---- from the ring ---- */

static bool may_log(struct queue *queue)
{
	return log_allow(&queue->limit, "guest");
}

static void fault(struct queue *queue)
{
	queue->state = ring_state_next(queue->state, RING_EV_FAULT);
	log_err("vbd %u: domain %u device %u: ring broken: the guest published "
		"more than %u requests; serving no more until it reconnects",
		queue->minor, queue->domid, queue->devid,
		ring_slots(&queue->ring));
}

static void take_one(struct queue *queue)
{
	struct req *req = req_get(&queue->pool);
	union abi_slot slot;

	ring_take(&queue->ring, &slot);
	req->weight = meter_weight(&queue->meter, queue->wait.counters.sleeps);
	if (req->weight)
		req->taken_ns = meter_clock(&queue->meter);
	req->err = parse_slot(&slot, &req->parsed);
	if (req->err) {
		counter_add(&queue->counters.bad_requests, 1);
		if (may_log(queue))
			log_warn("vbd %u: domain %u device %u: bad request, "
				 "operation %u with %u segments: %s",
				 queue->minor, queue->domid, queue->devid,
				 slot.rw.operation, slot.rw.nr_segments,
				 strerror(-req->err));
		/* told and counted: nothing of it is an I/O error */
		req->parsed.has_data = false;
		req->parsed.flush_before = false;
		req->step = REQ_ANSWER;
	} else {
		req->step = REQ_COPY_IN;
		account_taken(queue, req);
		queue->wait.op = req->parsed.flush_before    ? POLICY_FLUSH
				 : writes_data(&req->parsed) ? POLICY_WRITE
							     : POLICY_READ;
		if (req->parsed.barrier)
			queue->barrier = req;
		else if (!writes_data(&req->parsed))
			req->step = next_step(req);
	}
	append(&queue->staged_tail, req);
}

static unsigned take(struct queue *queue)
{
	int n, i;

	if (!serve_takes(queue))
		return 0;
	n = ring_pending(&queue->ring);
	if (n < 0) {
		fault(queue);
		return 0;
	}
	if (n == 0)
		return 0;
	/* behind a barrier nothing is taken until it is answered */
	for (i = 0; i < n && !queue->barrier; i++)
		take_one(queue);
	counter_add(&queue->counters.requests, (uint64_t)i);
	if (queue->trim_ns != CLOCK_NEVER) {
		queue->trim_ns = CLOCK_NEVER;
		serve_set_due(queue);
	}
	return (unsigned)i;
}

/* ---- to the ring ---- */

static int16_t status_of(int err)
{
	if (!err)
		return BLKIF_RSP_OKAY;
	return err == -EOPNOTSUPP ? BLKIF_RSP_EOPNOTSUPP : BLKIF_RSP_ERROR;
}

static void tell_error(struct queue *queue, const struct req *req)
{
	static const char *const names[NR_IO_OPS] = {
		"read", "write", "flush", "discard", "write-zeroes",
	};
	const struct parsed *p = &req->parsed;

	counter_add(&queue->counters.io_errors, 1);
	if (may_log(queue))
		log_warn("vbd %u: domain %u device %u: %s of %llu bytes at "
			 "%llu: %s",
			 queue->minor, queue->domid, queue->devid,
			 p->has_data ? names[p->op] : names[IO_FLUSH],
			 (unsigned long long)p->len,
			 (unsigned long long)p->offset, strerror(-req->err));
}

static void finish(struct queue *queue, struct req *req)
{
	if (req == queue->barrier)
		queue->barrier = NULL;
	req_put(&queue->pool, req);
}

static unsigned drop(struct queue *queue, struct req *list)
{
	struct req *next;
	unsigned n = 0;

	for (struct req *r = list; r; r = next, n++) {
		next = r->next;
		finish(queue, r);
	}
	return n;
}

/* Answer what is finished: copy out, put, one push, one notification. */
static unsigned answer(struct queue *queue)
{
	struct req *list = queue->answers, *next;
	unsigned n = 0;

	if (!list)
		return 0;
	queue->answers = NULL;
	queue->answers_tail = &queue->answers;
	if (queue->state == RING_DRAINING)
		return drop(queue, list);
	if (copy_requests(queue, list, REQ_COPY_OUT, US_TO_GUEST))
		meter_step(&queue->meter);
	for (struct req *r = list; r; r = next) {
		next = r->next;
		if (r->step == REQ_COPY_OUT && io_refused(r->err) && retry(r))
			continue;
		if (r->err && (r->parsed.has_data || r->parsed.flush_before))
			tell_error(queue, r);
		ring_put(&queue->ring, r->parsed.id, r->parsed.wire_op,
			 status_of(r->err));
		account_answered(queue, r);
		finish(queue, r);
		n++;
	}
	if (n == 0)
		return 1; /* all of them wait for another try */
	counter_add(&queue->counters.responses, n);
	if (ring_push(&queue->ring)) {
		counter_add(&queue->counters.notifications, 1);
		queue->guest_ops->notify(queue->guest);
	}
	return n;
}

bool serve_turn(struct queue *queue)
{
	unsigned n, passes = 0;
	bool active = false;

	do {
		meter_step(&queue->meter);
		n = run_dates(queue);
		n += take(queue);
		start_staged(queue);
		n += start_barrier(queue);
		meter_step(&queue->meter);
		if (queue->port)
			n += image_turn(queue->port);
		n += answer(queue);
		active |= n > 0;
		/* a barrier that may start now is announced by nothing else */
	} while (n > 0 && (++passes < PASSES_MAX || barrier_can_start(queue)));
	if (active)
		account_show(queue);
	return active;
}

bool serve_idle(const struct queue *queue)
{
	return queue->pool.used == 0;
}

void serve_abandon(struct queue *queue)
{
	struct req *waiting = queue->barrier, *next;

	for (struct req *r = queue->retries; r; r = next) {
		next = r->next;
		if (r == waiting)
			waiting = NULL;
		r->step = REQ_ANSWER; /* not start_barrier's any more */
		to_answers(r);
	}
	queue->retries = NULL;
	/* a barrier that others keep from starting is on no list */
	if (waiting && waiting->step == REQ_COPY_IN) {
		waiting->step = REQ_ANSWER;
		to_answers(waiting);
	}
}
