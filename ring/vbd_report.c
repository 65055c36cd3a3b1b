/* SPDX-License-Identifier: BSD-3-Clause */
/* What a vbd and its rings are doing: reports for control and log. */
#include <string.h>
#include "poll/counter.h"
#include "poll/log.h"
#include "ring/vbd_private.h"

enum {
	DEFAULT_GRANULES = 2, /* xapi's default: 8 ms at HZ=250 */
	/* break-even figures until this machine's are known */
	BASE_PRICE = POLICY_ONE / 20,
	WAKE_NS = 40000,
	SLEEP_CPU_NS = 12000,
};

const struct vbd_polling *vbd_polling_now(const struct vbd *vbd)
{
	return vbd->overridden ? &vbd->override : &vbd->base;
}

static uint32_t effective_us(const struct vbd *vbd)
{
	const struct vbd_polling *p = vbd_polling_now(vbd);

	if (p->mode == WAIT_EVENT)
		return 0;
	if (p->duration_us == 0)
		return DEFAULT_GRANULES * vbd->granularity.us;
	if (!p->align)
		return p->duration_us;
	return granularity_align(p->duration_us, vbd->granularity.us);
}

void vbd_wait_settings(const struct vbd *vbd, struct wait_settings *out)
{
	*out = (struct wait_settings){
		.mode = vbd_polling_now(vbd)->mode,
		.spin_ns = effective_us(vbd) * UINT64_C(1000),
		.price = BASE_PRICE,
		.w0_ns = WAKE_NS,
		.cw_ns = SLEEP_CPU_NS,
	};
}

bool vbd_is_left_behind(const struct vbd *vbd)
{
	return vbd_is_empty(vbd) && (vbd->image || vbd->rings);
}

enum sync_mode vbd_sync(const struct vbd *vbd)
{
	return vbd_polling_now(vbd)->sync;
}

uint64_t vbd_window_ns(const struct vbd *vbd)
{
	uint32_t us = effective_us(vbd);

	if (!us)
		us = DEFAULT_GRANULES * vbd->granularity.us;
	return us * UINT64_C(1000);
}

void vbd_gaps(const struct vbd *vbd, struct gaps_histogram out[GAPS_KINDS])
{
	for (unsigned i = 0; i < GAPS_KINDS; i++) {
		gaps_sum(&vbd->dead_gaps[i], &out[i]);
		for (const struct vbd_ring *r = vbd->rings; r; r = r->next)
			gaps_sum(&r->queue->gaps.of[i], &out[i]);
	}
}

void vbd_latencies(const struct vbd *vbd,
		   struct gaps_histogram out[NR_METER_LATENCIES])
{
	for (unsigned i = 0; i < NR_METER_LATENCIES; i++) {
		gaps_sum(&vbd->dead_latency[i], &out[i]);
		for (const struct vbd_ring *r = vbd->rings; r; r = r->next)
			gaps_sum(&r->queue->meter.latency[i], &out[i]);
	}
}

static uint64_t count(const struct gaps_histogram *gaps)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < GAPS_BINS; i++)
		n += counter_read(&gaps->bins[i].n);
	return n;
}

/* What adaptive mode makes of it. */
static void report_policy(const struct vbd *vbd, struct vbd_polling_report *out)
{
	const struct vbd_ring *newest = NULL;

	cpu_report(vbd->governor, &out->governor);
	for (unsigned i = 0; i < GAPS_KINDS; i++)
		out->gaps[i] = count(&vbd->dead_gaps[i]);
	for (const struct vbd_ring *r = vbd->rings; r; r = r->next) {
		if (!newest && !r->disconnected)
			newest = r;
		for (unsigned i = 0; i < GAPS_KINDS; i++)
			out->gaps[i] += count(&r->queue->gaps.of[i]);
	}
	if (newest)
		adapt_shown_read(&newest->queue->wait.adapt, &out->policy);
	/* nothing was decided, so no spin failed: no more than the price */
	if (!out->policy.price) {
		out->policy.price = out->governor.price_q16;
		out->policy.rho = out->governor.price_q16;
	}
}

void vbd_waits_add(const struct wait_counters *from, struct wait_counters *to)
{
	struct wait_counters now;

	wait_counters_read(from, &now);
	to->spin_ns += now.spin_ns;
	to->hits += now.hits;
	to->misses += now.misses;
	to->lost += now.lost;
	to->sleeps += now.sleeps;
	to->arms += now.arms;
}

static void sum(const struct vbd *vbd, struct queue_counters *out)
{
	*out = vbd->dead;
	for (const struct vbd_ring *r = vbd->rings; r; r = r->next)
		queue_counters_add(&r->queue->counters, out);
}

void vbd_polling_report(const struct vbd *vbd, struct vbd_polling_report *out)
{
	struct queue_counters counters;

	sum(vbd, &counters);
	*out = (struct vbd_polling_report){
		.polling = *vbd_polling_now(vbd),
		.source = vbd->overridden ? VBD_FROM_TAP_CTL : vbd->base_source,
		.effective_us = effective_us(vbd),
		.granularity = vbd->granularity,
		.waits = vbd->dead_waits,
		.requests = counters.requests,
		.guest_events = counters.guest_events,
		.notifications = counters.notifications,
	};
	for (const struct vbd_ring *r = vbd->rings; r; r = r->next)
		vbd_waits_add(&r->queue->wait.counters, &out->waits);
	report_policy(vbd, out);
}

static void ring_stats(const struct vbd_ring *ring, struct vbd_ring_stats *out)
{
	struct queue_counters c = { 0 };

	queue_counters_add(&ring->queue->counters, &c);
	*out = (struct vbd_ring_stats){
		.domid = ring->queue->domid,
		.devid = ring->queue->devid,
		.requests = c.requests,
		.responses = c.responses,
		.guest_events = c.guest_events,
		.notifications = c.notifications,
		.bad_requests = c.bad_requests,
		.copy_errors = c.copy_errors,
		.io_errors = c.io_errors,
		.broken = ring->broken,
	};
}

void vbd_stats_read(const struct vbd *vbd, struct vbd_stats *out)
{
	struct queue_counters counters;
	struct vbd_ring_stats ring;

	memset(out, 0, sizeof(*out));
	sum(vbd, &counters);
	out->read_sect = counters.read_sect;
	out->write_sect = counters.write_sect;
	out->buffered = vbd->options.driver_flags & DRIVER_BUFFERED;
	out->depth = vbd->image ? MAIN_PORT_DEPTH : 0;
	if (vbd->image)
		out->nr_layers = image_stats(vbd->image, out->layers,
					     sizeof(out->layers) /
						     sizeof(out->layers[0]));
	out->outstanding = vbd->user_io;
	for (const struct vbd_ring *r = vbd->rings; r; r = r->next) {
		ring_stats(r, &ring);
		out->depth += queue_depth(r->queue);
		/* read one after the other, while both grow */
		if (ring.requests > ring.responses)
			out->outstanding += ring.requests - ring.responses;
		if (!out->has_ring && !r->disconnected) {
			out->has_ring = true;
			out->ring = ring;
		}
	}
}

uint16_t vbd_minor(const struct vbd *vbd)
{
	return vbd->minor;
}

const char *vbd_spec(const struct vbd *vbd)
{
	return vbd->state == VBD_STATE_EMPTY ? NULL : vbd->spec;
}

uint32_t vbd_state_word(const struct vbd *vbd)
{
	return vbd->state == VBD_STATE_EMPTY ? vbd->closed_word
					     : vbd_state_bits(vbd->state);
}

bool vbd_is_empty(const struct vbd *vbd)
{
	return vbd->state == VBD_STATE_EMPTY;
}

void vbd_disk_info(const struct vbd *vbd, struct vbd_disk_info *out)
{
	*out = vbd->info;
}

void vbd_dump(const struct vbd *vbd)
{
	struct vbd_ring_stats s;

	log_info("vbd %u: %s, %s", vbd->minor, vbd_state_name(vbd->state),
		 vbd_spec(vbd) ? vbd->spec : "no image");
	for (const struct vbd_ring *r = vbd->rings; r; r = r->next) {
		ring_stats(r, &s);
		log_info("vbd %u: domain %u device %u: %s, %llu requests, "
			 "%llu responses, %llu bad, %llu copy errors, %llu I/O "
			 "errors, %llu events seen, %llu sent",
			 vbd->minor, s.domid, s.devid,
			 r->disconnected ? "draining"
			 : r->broken	 ? "broken"
			 : r->held	 ? "held"
					 : "running",
			 (unsigned long long)s.requests,
			 (unsigned long long)s.responses,
			 (unsigned long long)s.bad_requests,
			 (unsigned long long)s.copy_errors,
			 (unsigned long long)s.io_errors,
			 (unsigned long long)s.guest_events,
			 (unsigned long long)s.notifications);
	}
}
