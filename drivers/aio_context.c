/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See aio.h.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "drivers/aio.h"
#include "poll/clock.h"

enum {
	HEADER_LENGTH = 32,
};

#define RING_MAGIC UINT32_C(0xa10a10a1)

/* How long to sleep when only half of what matters can end it. */
#define BLIND_NS (CLOCK_SECOND / 1000)

static_assert(offsetof(struct aio_ring, events) == HEADER_LENGTH, "layout");
static_assert(sizeof(struct io_event) == 32, "layout");

static struct aio_ring *find_ring(io_context_t id)
{
	struct aio_ring *ring = (struct aio_ring *)id;

	if (ring->magic != RING_MAGIC || ring->incompat_features ||
	    ring->header_length != HEADER_LENGTH || ring->head >= ring->nr ||
	    ring->tail >= ring->nr)
		return NULL;
	return ring;
}

static bool ring_ready(const struct aio_ring *ring)
{
	/* relaxed: head only moves by this thread, or in a call it makes */
	return __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
}

static bool ring_take(struct aio_ring *ring, struct io_event *event)
{
	uint32_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);

	/* acquire: tail before the event that it announces */
	if (head == __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE))
		return false;
	*event = ring->events[head];
	/* release: the event is read before its slot is given back */
	__atomic_store_n(&ring->head, head + 1 == ring->nr ? 0 : head + 1,
			 __ATOMIC_RELEASE);
	return true;
}

/* The next event, poll's own included, that costs no wait. */
static bool next_event(struct aio_context *context, struct io_event *event)
{
	struct timespec now = { 0 };

	if (context->has_kept) {
		*event = context->kept;
		context->has_kept = false;
		return true;
	}
	if (context->ring)
		return ring_take(context->ring, event);
	return io_getevents(context->id, 0, 1, event, &now) == 1;
}

/* Put the iocb that watches the wait's descriptor into the kernel. */
static int start_poll(struct aio_context *context)
{
	struct iocb *iocb = &context->poll;
	int rc;

	if (context->polling)
		return 0;
	io_prep_poll(iocb, context->wait->epoll_fd, POLLIN);
	rc = io_submit(context->id, 1, &iocb);
	if (rc != 1)
		return rc ? rc : -EAGAIN;
	context->polling = true;
	return 0;
}

/* wait_set_sleep: wait for an iocb, or for the wait's descriptors. */
static int hook(void *arg, uint64_t timeout_ns)
{
	struct aio_context *context = arg;
	struct timespec ts, *timeout = NULL;
	bool blind = start_poll(context) != 0; /* no room for it */
	int rc;

	if (blind && timeout_ns > BLIND_NS)
		timeout_ns = BLIND_NS;
	if (timeout_ns != CLOCK_NEVER) {
		ts.tv_sec = (time_t)(timeout_ns / CLOCK_SECOND);
		ts.tv_nsec = (long)(timeout_ns % CLOCK_SECOND);
		timeout = &ts;
	}
	rc = io_getevents(context->id, 1, 1, &context->kept, timeout);
	if (rc == 1 && context->kept.data) {
		context->has_kept = true;
		return blind;
	}
	if (rc == 1)
		context->polling = false;
	return rc == 1 || rc < 0 || blind;
}

static bool aio_context_arm(void *arg)
{
	struct aio_context *context = arg;
	uint64_t count;

	/*
	 * Before the look: what comes after it makes it readable again.
	 * Counted, because the kernel writes to it after it shows the event:
	 * one that was taken already may still make it readable.
	 */
	if (context->signals &&
	    read(context->event_fd, &count, sizeof(count)) > 0)
		context->signals -= (unsigned)count;
	if (context->has_kept)
		return true;
	if (context->ring)
		return ring_ready(context->ring);
	context->has_kept = next_event(context, &context->kept);
	return context->has_kept;
}

static int add_sources(struct aio_context *context)
{
	struct aio_ring *ring = context->ring;
	struct wait *wait = context->wait;
	int err;

	context->source = (struct wait_source){
		.arm = aio_context_arm,
		.arg = context,
		.due_ns = CLOCK_NEVER,
	};
	err = wait_add(wait, &context->source, ring ? &ring->tail : NULL);
	if (err)
		return err;
	err = wait_add_fd(wait, &context->source, context->event_fd, EPOLLIN);
	if (err)
		wait_remove(wait, &context->source);
	return err;
}

int aio_context_open(struct aio_context *context, struct wait *wait,
		     unsigned depth)
{
	int err;

	*context = (struct aio_context){ .wait = wait, .event_fd = -1 };
	err = io_setup((int)depth, &context->id);
	if (err)
		return err;
	context->ring = find_ring(context->id);
	context->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (context->event_fd < 0) {
		err = -errno;
		goto out;
	}
	err = add_sources(context);
	if (err)
		goto out;
	/* whether this kernel can is better known before it matters */
	context->no_poll = wait->foreign || start_poll(context) == -EINVAL;
out:
	if (err) {
		if (context->event_fd >= 0)
			close(context->event_fd);
		io_destroy(context->id);
	}
	return err;
}

void aio_context_close(struct aio_context *context)
{
	aio_context_rest(context);
	wait_remove_fd(context->wait, context->event_fd);
	wait_remove(context->wait, &context->source); /* before its word goes */
	io_destroy(context->id); /* and poll with it */
	close(context->event_fd);
}

void aio_context_add(struct aio_context *context, struct iocb *iocb)
{
	/*
	 * With nothing pending, choose how what comes now shall end a sleep.
	 * The hook is whose asks first; with several contexts on one wait, as
	 * in a chain of images, the others use their eventfd.
	 */
	if (!context->pending && !context->no_poll && !context->wait->sleep) {
		wait_set_sleep(context->wait, hook, context);
		context->hooked = true;
	}
	if (!context->hooked) {
		io_set_eventfd(iocb, context->event_fd);
		context->signals++;
	}
	context->pending++;
}

void aio_context_drop(struct aio_context *context)
{
	/* how a sleep ends is not chosen anew while anything is pending */
	if (!context->hooked)
		context->signals--;
	context->pending--;
}

int aio_context_submit(struct aio_context *context, unsigned n,
		       struct iocb **iocbs)
{
	int rc;

	do
		rc = io_submit(context->id, n, iocbs);
	while (rc == -EINTR);
	if (!rc)
		return -EAGAIN;
	if (rc > 0)
		context->in_kernel += (unsigned)rc;
	return rc;
}

void aio_context_begin(struct aio_context *context)
{
	/* what ends after this look is seen by the next wait */
	if (context->ring)
		wait_seen(context->wait, &context->source,
			  __atomic_load_n(&context->ring->tail,
					  __ATOMIC_ACQUIRE));
}

bool aio_context_take(struct aio_context *context, struct io_event *event)
{
	while (next_event(context, event)) {
		if (event->data) {
			context->pending--;
			context->in_kernel--;
			return true;
		}
		context->polling = false;
	}
	return false;
}

void aio_context_rest(struct aio_context *context)
{
	if (!context->hooked || context->pending)
		return;
	wait_set_sleep(context->wait, NULL, NULL);
	context->hooked = false;
}
