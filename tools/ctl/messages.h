/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our own control messages as JSON, both halves: what tap-ctl and tapback
 * write here is what tapdisk reads here.  Reading is strict: a missing or
 * wrongly typed or out-of-range value is an error, an unknown key is ignored
 * (a newer peer).  Pure: no I/O, no log.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ring/vbd.h"

struct json_object;

/* Parse at most WIRE_JSON_MAX bytes of UTF-8.  -EINVAL, -ENOMEM. */
int messages_parse(const char *text, size_t len, struct json_object **out);

/*
 * 128 CONNECT: {domid, devid, protocol, guest, queues: [{port, ring_refs}],
 * polling: {mode, duration_us, idle_threshold, align, cap, sync}}, of which cap
 * and sync may be left out.  @guest_buf receives
 * the name that connect->guest then points to.  -EINVAL, -EPROTONOSUPPORT,
 * -ENAMETOOLONG, -ENOTSUP (more than one queue).
 */
struct json_object *messages_connect(const struct vbd_connect *connect);
int messages_connect_read(struct json_object *json, char *guest_buf,
			  size_t guest_size, struct vbd_connect *out);

/* The settings in it. -EINVAL. */
struct json_object *messages_polling_write(const struct vbd_polling *polling);
int messages_polling_parse(struct json_object *json, struct vbd_polling *out);

/*
 * 130 POLLING: {mode, duration_us, idle_threshold, align, cap, sync, source,
 * want: ["gaps"]}: what to change, and what to tell beside the settings and
 * counters; without any key it only asks.  A mode
 * of "default" takes tap-ctl's setting back: has_mode and to_default are then
 * true and nothing else is set.  Keys left out keep what is in force.
 */
struct messages_polling {
	bool has_mode, has_duration, has_idle_threshold, has_align, has_sync;
	bool to_default;
	bool want_gaps;
	bool xenstore; /* "source": "xenstore" (tapback) */
	struct vbd_polling polling; /* and whether it has a cap */
};
struct json_object *messages_polling(const struct messages_polling *change);
/* -EINVAL. */
int messages_polling_read(struct json_object *json,
			  struct messages_polling *out);

/*
 * The reply to 130, and tap-ctl polling --json: mode, requested_us,
 * effective_us, granularity_us, granularity_source, align, idle_threshold,
 * source, requests, spin_ns, hits, misses, lost, sleeps, arms, guest_events,
 * notifications, cap, sync, and
 *
 * policy: {price, rho, w0_us, cw_us, guest, device, both}, each of the last
 * three {gaps, decided, threshold_us, nap_us, decider}: how many waits of that
 * kind were recorded in any mode and decided in adaptive mode, and how the last
 * one was decided.
 *
 * governor: {allowed, price, idle_pct, idle_source, pressure_pct, tapdisks,
 * spinning_pct, share_pct, costs_source, clock_ns, turn_ns, arm_ns, missing:
 * [words]}; per cents that are not known, or without a limit, are left out.
 *
 * gaps, where @gaps are given: {guest, device, both}, each a list of [up to so
 * many ns, waits, their ns together].
 */
struct json_object *
messages_polling_report(const struct vbd_polling_report *report,
			const struct gaps_histogram *gaps);
/* What is there under "gaps"; read, with the key, from the reply: -EINVAL. */
struct json_object *messages_gaps(const struct gaps_histogram gaps[GAPS_KINDS]);
int messages_gaps_read(struct json_object *json,
		       struct gaps_histogram out[GAPS_KINDS]);

/*
 * 136 TRACE: {kind, cursor}: the single waits of one kind since the cursor that
 * the last reply gave; without one, from now on (see vbd_trace).  The reply has
 * {cursor, lost, gaps, ops}: how many waits of any kind were lost, how long
 * those of this kind took in ns, and a letter for what was asked for before
 * each: r, w or f.
 */
#define MESSAGES_TRACE_MAX 4000 /* waits of all kinds that one reply covers */
struct messages_trace {
	enum wait_kind kind;
	uint64_t cursor; /* VBD_TRACE_NOW: none yet */
};
struct json_object *messages_trace(const struct messages_trace *request);
/* -EINVAL. */
int messages_trace_read(struct json_object *json, struct messages_trace *out);
/* Those of @kind out of the first @n of @entries. */
struct json_object *messages_trace_reply(enum wait_kind kind, uint64_t cursor,
					 uint64_t lost,
					 const struct gaps_entry *entries,
					 unsigned n);
/* Into an @out of MESSAGES_TRACE_MAX; the kind is not set.  -EINVAL. */
int messages_trace_reply_read(struct json_object *json, uint64_t *cursor,
			      uint64_t *lost, struct gaps_entry *out,
			      unsigned *n);

/*
 * 132 HELLO: {version, ring_order_max, queues_max, indirect_max, ops, info,
 * sectors, sector_size, physical_sector_size, discard_granularity}.
 */
struct json_object *messages_hello(const struct vbd_disk_info *info);

/* One line of 134 EVENTS: {"event": "resized"...}. */
struct json_object *messages_event(enum vbd_event event);

const char *messages_mode_name(enum wait_mode mode); /* event... */
const char *messages_kind_name(enum wait_kind kind); /* guest, device, both */
const char *messages_source_name(enum vbd_polling_source source);
