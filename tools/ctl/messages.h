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
 * polling: {mode, duration_us, idle_threshold, align}}.  @guest_buf receives
 * the name that connect->guest then points to.  -EINVAL, -EPROTONOSUPPORT,
 * -ENAMETOOLONG, -ENOTSUP (more than one queue).
 */
struct json_object *messages_connect(const struct vbd_connect *connect);
int messages_connect_read(struct json_object *json, char *guest_buf,
			  size_t guest_size, struct vbd_connect *out);

/*
 * 130 POLLING: what to change; without any key it only asks.  A mode
 * of "default" takes tap-ctl's setting back: has_mode and to_default are then
 * true and nothing else is set.  Keys left out keep what is in force.
 */
struct messages_polling {
	bool has_mode, has_duration, has_idle_threshold, has_align;
	bool to_default;
	bool xenstore; /* "source": "xenstore" (tapback) */
	struct vbd_polling polling;
};
struct json_object *messages_polling(const struct messages_polling *change);
/* -EINVAL. */
int messages_polling_read(struct json_object *json,
			  struct messages_polling *out);

/*
 * The reply to 130, and tap-ctl polling --json: mode, requested_us,
 * effective_us, granularity_us, granularity_source, align, idle_threshold,
 * source, requests, spin_ns, hits, misses, lost, sleeps, arms,
 * guest_events, notifications.
 */
struct json_object *
messages_polling_report(const struct vbd_polling_report *report);

/*
 * 132 HELLO: {version, ring_order_max, queues_max, indirect_max, ops, info,
 * sectors, sector_size, physical_sector_size, discard_granularity}.
 */
struct json_object *messages_hello(const struct vbd_disk_info *info);

/* One line of 134 EVENTS: {"event": "resized"...}. */
struct json_object *messages_event(enum vbd_event event);

const char *messages_mode_name(enum wait_mode mode); /* event, fixed */
const char *messages_source_name(enum vbd_polling_source source);
