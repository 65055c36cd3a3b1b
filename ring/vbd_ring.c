/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rings of a vbd, from main's side: connect, disconnect, and what their
 * data threads answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "poll/clock.h"
#include "poll/log.h"
#include "ring/vbd_private.h"

enum { RINGS_MAX = 8 };

/* How long a disconnect waits for a data thread that is stuck in a device. */
#define PATIENCE_NS (CLOCK_SECOND / 20)

/* ---- all of them ---- */

static bool posted(const struct vbd_ring *ring, enum queue_command_kind kind)
{
	return ring->queue->commands[kind].posted;
}

bool vbd_rings_quiet(const struct vbd *vbd)
{
	for (const struct vbd_ring *r = vbd->rings; r; r = r->next)
		if (!r->held || r->disconnected || posted(r, QUEUE_HOLD) ||
		    posted(r, QUEUE_RELEASE))
			return false;
	return true;
}

bool vbd_rings_draining(const struct vbd *vbd)
{
	for (const struct vbd_ring *r = vbd->rings; r; r = r->next)
		if (r->disconnected)
			return true;
	return false;
}

void vbd_rings_hold(struct vbd *vbd)
{
	for (struct vbd_ring *r = vbd->rings; r; r = r->next)
		if (!r->disconnected && !posted(r, QUEUE_HOLD))
			queue_send(r->queue, QUEUE_HOLD);
}

void vbd_rings_release(struct vbd *vbd)
{
	for (struct vbd_ring *r = vbd->rings; r; r = r->next) {
		if (r->disconnected || !r->held || posted(r, QUEUE_HOLD) ||
		    posted(r, QUEUE_RELEASE))
			continue;
		r->queue->commands[QUEUE_RELEASE].image = vbd->image;
		queue_send(r->queue, QUEUE_RELEASE);
	}
}

static void tell_to_go(struct vbd_ring *ring)
{
	if (ring->disconnected)
		return;
	ring->disconnected = true;
	vbd_metrics_close(ring);
	if (ring->death.fd >= 0)
		loop_unwatch(ring->vbd->loop, &ring->death);
	queue_send(ring->queue, QUEUE_DISCONNECT);
	log_info("vbd %u: domain %u device %u: disconnected", ring->vbd->minor,
		 ring->queue->domid, ring->queue->devid);
}

void vbd_rings_disconnect(struct vbd *vbd)
{
	for (struct vbd_ring *r = vbd->rings; r; r = r->next)
		tell_to_go(r);
}

/* ---- what data threads say ---- */

static void reply_to(struct vbd_ring *ring)
{
	struct vbd_reply *reply = ring->reply;

	loop_timer_clear(ring->vbd->loop, &ring->timer);
	ring->reply = NULL;
	if (reply)
		reply->fn(reply, 0);
}

static void configure(struct vbd_ring *ring)
{
	struct queue *queue = ring->queue;

	if (posted(ring, QUEUE_CONFIGURE)) {
		ring->reconfigure = true;
		return;
	}
	ring->reconfigure = false;
	vbd_wait_settings(ring->vbd,
			  &queue->commands[QUEUE_CONFIGURE].settings);
	queue->commands[QUEUE_CONFIGURE].sync = vbd_sync(ring->vbd);
	queue_send(queue, QUEUE_CONFIGURE);
}

static void poll_now(struct vbd_ring *ring)
{
	ring->poll_now = posted(ring, QUEUE_FORCE);
	if (ring->poll_now)
		return;
	ring->queue->commands[QUEUE_FORCE].force_ns = vbd_window_ns(ring->vbd);
	queue_send(ring->queue, QUEUE_FORCE);
}

static void command_done(struct queue_command *command)
{
	struct vbd_ring *ring = command->queue->owner;
	struct vbd *vbd = ring->vbd;

	switch (command->kind) {
	case QUEUE_HOLD:
		ring->held = true;
		break;
	case QUEUE_RELEASE:
		ring->held = command->err != 0;
		if (command->err) {
			log_err("vbd %u: domain %u device %u: no way to the "
				"image for its data thread: %s; disconnecting",
				vbd->minor, command->queue->domid,
				command->queue->devid, strerror(-command->err));
			tell_to_go(ring);
		}
		break;
	case QUEUE_DISCONNECT:
		reply_to(ring);
		break;
	case QUEUE_CONFIGURE:
		if (ring->reconfigure && !ring->disconnected)
			configure(ring);
		break;
	case QUEUE_TRACE:
		vbd_trace_step(ring);
		break;
	case QUEUE_FORCE:
		if (ring->poll_now && !ring->disconnected)
			poll_now(ring);
		break;
	case NR_QUEUE_COMMANDS:
		break;
	}
	vbd_progress_later(vbd);
}

static void queue_broken(struct queue *queue)
{
	struct vbd_ring *ring = queue->owner;

	ring->broken = true;
	vbd_tell(ring->vbd, VBD_RING_BROKEN);
}

static void queue_active(struct queue *queue)
{
	vbd_metrics_active(queue->owner);
}

static void queue_gone(struct queue *queue)
{
	struct vbd_ring *ring = queue->owner, **p;
	struct vbd *vbd = ring->vbd;

	for (p = &vbd->rings; *p != ring; p = &(*p)->next)
		;
	*p = ring->next;
	queue_counters_add(&queue->counters, &vbd->dead);
	vbd_waits_add(&queue->wait.counters, &vbd->dead_waits);
	for (unsigned i = 0; i < GAPS_KINDS; i++)
		gaps_sum(&queue->gaps.of[i], &vbd->dead_gaps[i]);
	for (unsigned i = 0; i < NR_METER_LATENCIES; i++)
		gaps_sum(&queue->meter.latency[i], &vbd->dead_latency[i]);
	vbd_trace_gone(ring);
	queue_destroy(queue);
	reply_to(ring);
	free(ring);
	vbd_progress_later(vbd);
}

static const struct queue_callbacks callbacks = {
	.done = command_done,
	.broken = queue_broken,
	.active = queue_active,
	.gone = queue_gone,
};

static void guest_died(void *arg, uint32_t events)
{
	struct vbd_ring *ring = arg;

	(void)events;
	log_info("vbd %u: domain %u device %u: the domain is gone",
		 ring->vbd->minor, ring->queue->domid, ring->queue->devid);
	tell_to_go(ring);
}

/* ---- connect ---- */

/* Room for one more ring of this device?  0, -EALREADY, -EBUSY. */
static int admit(const struct vbd *vbd, uint32_t domid, uint32_t devid)
{
	unsigned n = 0;

	for (const struct vbd_ring *r = vbd->rings; r; r = r->next) {
		n++;
		if (r->disconnected || r->queue->domid != domid ||
		    r->queue->devid != devid)
			continue;
		/* waiting for an older one: this would be the third */
		return r->held && vbd_rings_draining(vbd) ? -EBUSY : -EALREADY;
	}
	return n < RINGS_MAX ? 0 : -EBUSY;
}

static int check(const struct vbd *vbd, const struct vbd_connect *connect)
{
	unsigned n = connect->nr_refs;

	switch (vbd->state) {
	case VBD_STATE_OPEN:
	case VBD_STATE_PAUSING:
	case VBD_STATE_PAUSED:
	case VBD_STATE_RESUME_FAILED:
		break;
	default:
		return -ENODEV;
	}
	if (n == 0 || n > VBD_RING_PAGES_MAX || (n & (n - 1)))
		return -EINVAL;
	return admit(vbd, connect->domid, connect->devid);
}

/* What the connect says; nothing: not what an earlier guest's said either. */
static int take_polling(struct vbd *vbd, const struct vbd_connect *connect)
{
	static const struct vbd_polling none = { .mode = WAIT_EVENT,
						 .align = true };

	if (connect->has_polling)
		return vbd_set_polling(vbd, VBD_FROM_CONNECT,
				       &connect->polling);
	if (vbd->base_source == VBD_FROM_CONNECT)
		return vbd_set_polling(vbd, VBD_FROM_DEFAULT, &none);
	return 0;
}

int vbd_connect(struct vbd *vbd, const struct vbd_connect *connect)
{
	struct queue_setup setup = {
		.abi = connect->abi,
		.nr_refs = connect->nr_refs,
		.refs = connect->refs,
		.domid = connect->domid,
		.devid = connect->devid,
		.port = connect->port,
		.minor = vbd->minor,
		.retry_s = vbd->options.retry_s,
		.guest = connect->guest,
		.main_box = &vbd->box,
		.callbacks = &callbacks,
	};
	bool runs = vbd->state == VBD_STATE_OPEN && !vbd_rings_draining(vbd);
	struct vbd_ring *ring = NULL;
	int err;

	err = check(vbd, connect);
	if (!err)
		err = take_polling(vbd, connect);
	if (err)
		goto out;
	ring = calloc(1, sizeof(*ring));
	if (!ring) {
		err = -ENOMEM;
		goto out;
	}
	ring->vbd = vbd;
	ring->held = !runs;
	ring->death.fd = -1;
	setup.owner = ring;
	vbd_wait_settings(vbd, &setup.settings);
	setup.sync = vbd_sync(vbd);
	err = queue_create(&setup, &ring->queue);
	if (err)
		goto out;
	ring->queue->wait.verdict = cpu_verdict(vbd->governor);
	cpu_set_guest(vbd->governor,
		      ring->queue->guest_ops->pid(ring->queue->guest));
	err = queue_start(ring->queue, runs ? vbd->image : NULL);
	if (err) {
		queue_destroy(ring->queue);
		goto out;
	}
	ring->next = vbd->rings;
	vbd->rings = ring;
	ring->death = (struct loop_watch){
		.fd = ring->queue->guest_ops->death_fd(ring->queue->guest),
		.fn = guest_died,
		.arg = ring,
	};
	if (ring->death.fd >= 0 && loop_watch(vbd->loop, &ring->death, 0))
		ring->death.fd = -1;
	vbd_metrics_open(ring);
	log_info("vbd %u: domain %u device %u: connected, %u pages%s",
		 vbd->minor, connect->domid, connect->devid, connect->nr_refs,
		 runs ? "" : ", held");
	ring = NULL;
out:
	free(ring);
	if (err)
		log_err("vbd %u: domain %u device %u: connect: %s", vbd->minor,
			connect->domid, connect->devid, strerror(-err));
	return err;
}

/* ---- disconnect ---- */

static void out_of_patience(void *arg)
{
	reply_to(arg);
}

void vbd_disconnect(struct vbd *vbd, uint32_t domid, uint32_t devid,
		    struct vbd_reply *reply)
{
	for (struct vbd_ring *r = vbd->rings; r; r = r->next) {
		if (r->disconnected || r->queue->domid != domid ||
		    r->queue->devid != devid)
			continue;
		r->reply = reply;
		r->timer =
			(struct loop_timer){ .fn = out_of_patience, .arg = r };
		loop_timer_set(vbd->loop, &r->timer, PATIENCE_NS);
		tell_to_go(r);
		return;
	}
	reply->fn(reply, -ENODEV);
}

int vbd_set_polling(struct vbd *vbd, enum vbd_polling_source source,
		    const struct vbd_polling *polling)
{
	if (polling &&
	    (polling->duration_us > GRANULARITY_WINDOW_MAX_US ||
	     polling->idle_threshold > 100 || polling->cap > VBD_CAP_MAX ||
	     polling->mode >= NR_WAIT_MODES || polling->sync >= NR_SYNC_MODES))
		return -EINVAL;
	if (source == VBD_FROM_TAP_CTL) {
		vbd->overridden = polling != NULL;
		if (polling)
			vbd->override = *polling;
	} else if (polling) {
		vbd->base = *polling;
		vbd->base_source = source;
	}
	vbd_governor_configure(vbd);
	for (struct vbd_ring *r = vbd->rings; r; r = r->next)
		if (!r->disconnected)
			configure(r);
	return 0;
}

void vbd_poll_now(struct vbd *vbd)
{
	for (struct vbd_ring *r = vbd->rings; r; r = r->next)
		if (!r->disconnected)
			poll_now(r);
}
