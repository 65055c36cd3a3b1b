/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tells and changes how a disk waits, as JSON: message 130, and the
 * settings in 128.  Knows no socket and no vbd.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tools/ctl/fields.h"
#include "tools/ctl/messages.h"
#include "tools/ctl/wire.h"

static const char *const mode_names[NR_WAIT_MODES] = {
	[WAIT_EVENT] = "event",
	[WAIT_FIXED] = "fixed",
	[WAIT_ADAPTIVE] = "adaptive",
};

static const char *const source_names[] = {
	[VBD_FROM_DEFAULT] = "default",
	[VBD_FROM_CONNECT] = "connect",
	[VBD_FROM_XENSTORE] = "xenstore",
	[VBD_FROM_TAP_CTL] = "tap-ctl",
};

static const char *const sync_names[NR_SYNC_MODES] = {
	[SYNC_AUTO] = "auto",
	[SYNC_OFF] = "off",
	[SYNC_ON] = "on",
};

static const char *const costs_sources[] = {
	[CALIBRATION_DEFAULT] = "default",
	[CALIBRATION_MEASURED] = "measured",
	[CALIBRATION_SHARED] = "shared",
};

const char *messages_mode_name(enum wait_mode mode)
{
	return mode_names[mode];
}

const char *messages_source_name(enum vbd_polling_source source)
{
	return source_names[source];
}

/* The place of @name in @names, or -EINVAL. */
static int place_of(const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -EINVAL;
}

/* ---- settings ---- */

/* Those that @has says are there; 0 is never one of them. */
static struct json_object *write_settings(const struct messages_polling *has)
{
	const struct vbd_polling *to = &has->polling;
	struct json_object *json = json_object_new_object();

	if (has->to_default)
		fields_add_text(json, "mode", "default");
	else if (has->has_mode)
		fields_add_text(json, "mode", messages_mode_name(to->mode));
	if (has->has_duration)
		fields_add_u64(json, "duration_us", to->duration_us);
	if (has->has_idle_threshold)
		fields_add_u64(json, "idle_threshold", to->idle_threshold);
	if (has->has_align)
		fields_add_bool(json, "align", to->align);
	if (to->has_cap)
		fields_add_u64(json, "cap", to->cap);
	if (has->has_sync)
		fields_add_text(json, "sync", sync_names[to->sync]);
	return json;
}

static int read_mode(struct json_object *json, struct messages_polling *out)
{
	const char *mode;
	int found = fields_find_text(json, "mode", &mode);

	if (found != 1)
		return found;
	out->has_mode = true;
	if (!strcmp(mode, "default")) {
		out->to_default = true;
		return 0;
	}
	found = place_of(mode, mode_names, NR_WAIT_MODES);
	if (found < 0)
		return found;
	out->polling.mode = (enum wait_mode)found;
	return 0;
}

static int read_sync(struct json_object *json, struct messages_polling *out)
{
	const char *sync;
	int found = fields_find_text(json, "sync", &sync);

	if (found != 1)
		return found;
	out->has_sync = true;
	found = place_of(sync, sync_names, NR_SYNC_MODES);
	if (found < 0)
		return found;
	out->polling.sync = (enum sync_mode)found;
	return 0;
}

static int read_settings(struct json_object *json, struct messages_polling *out)
{
	struct vbd_polling *to = &out->polling;
	struct json_object *align;
	uint32_t threshold = 0;
	int duration, idle, aligned, cap;

	memset(out, 0, sizeof(*out));
	duration = fields_find_u32(json, "duration_us",
				   GRANULARITY_WINDOW_MAX_US, &to->duration_us);
	idle = fields_find_u32(json, "idle_threshold", 100, &threshold);
	aligned = fields_find(json, "align", json_type_boolean, &align);
	cap = fields_find_u32(json, "cap", VBD_CAP_MAX, &to->cap);
	if (duration < 0 || idle < 0 || aligned < 0 || cap < 0)
		return -EINVAL;
	out->has_duration = duration;
	out->has_idle_threshold = idle;
	to->idle_threshold = (uint8_t)threshold;
	out->has_align = aligned;
	if (aligned)
		to->align = json_object_get_boolean(align);
	to->has_cap = cap;
	if (read_sync(json, out) < 0)
		return -EINVAL;
	return read_mode(json, out);
}

struct json_object *messages_polling_write(const struct vbd_polling *polling)
{
	struct messages_polling all = {
		.has_mode = true,
		.has_duration = true,
		.has_idle_threshold = true,
		.has_align = true,
		.has_sync = polling->sync != SYNC_AUTO,
		.polling = *polling,
	};

	return write_settings(&all);
}

int messages_polling_parse(struct json_object *json, struct vbd_polling *out)
{
	struct messages_polling all;

	if (read_settings(json, &all) < 0 || all.to_default || !all.has_mode ||
	    !all.has_duration || !all.has_idle_threshold || !all.has_align)
		return -EINVAL;
	*out = all.polling;
	return 0;
}

/* ---- 130 POLLING ---- */

struct json_object *messages_polling(const struct messages_polling *change)
{
	struct json_object *json = write_settings(change);
	struct json_object *want;

	if (change->xenstore)
		fields_add_text(json, "source", "xenstore");
	if (change->want_gaps) {
		want = json_object_new_array();
		json_object_array_add(want, json_object_new_string("gaps"));
		json_object_object_add(json, "want", want);
	}
	return json;
}

static int read_source(struct json_object *json, struct messages_polling *out)
{
	const char *source;
	int found = fields_find_text(json, "source", &source);

	if (found != 1)
		return found;
	out->xenstore = !strcmp(source, "xenstore");
	return out->xenstore || !strcmp(source, "tap-ctl") ? 0 : -EINVAL;
}

/* A word that we do not know is one of a newer peer's. */
static int read_want(struct json_object *json, struct messages_polling *out)
{
	struct json_object *want, *word;
	int found = fields_find(json, "want", json_type_array, &want);

	if (found != 1)
		return found;
	for (size_t i = 0; i < (size_t)json_object_array_length(want); i++) {
		word = json_object_array_get_idx(want, i);
		if (!json_object_is_type(word, json_type_string))
			return -EINVAL;
		if (!strcmp(json_object_get_string(word), "gaps"))
			out->want_gaps = true;
	}
	return 0;
}

int messages_polling_read(struct json_object *json,
			  struct messages_polling *out)
{
	if (read_settings(json, out) < 0 || read_source(json, out) < 0 ||
	    read_want(json, out) < 0)
		return -EINVAL;
	/* "as before, but" says nothing once everything is taken back */
	if (out->to_default &&
	    (out->has_duration || out->has_idle_threshold || out->has_align ||
	     out->polling.has_cap || out->has_sync))
		return -EINVAL;
	return 0;
}

/* ---- its reply ---- */

static struct json_object *write_policy(const struct vbd_polling_report *report)
{
	struct json_object *json = json_object_new_object(), *kind;

	fields_add_fraction(json, "price",
			    (double)report->policy.price / POLICY_ONE);
	fields_add_fraction(json, "rho",
			    (double)report->policy.rho / POLICY_ONE);
	fields_add_fraction(json, "w0_us",
			    report->governor.costs.wake_ns / 1000.0);
	fields_add_fraction(json, "cw_us",
			    report->governor.costs.block_ns / 1000.0);
	for (unsigned i = 0; i < GAPS_KINDS; i++) {
		kind = json_object_new_object();
		fields_add_u64(kind, "gaps", report->gaps[i]);
		fields_add_u64(kind, "decided", report->policy.of[i].waits);
		fields_add_fraction(kind, "threshold_us",
				    (double)report->policy.of[i].spin_ns /
					    1000);
		fields_add_fraction(kind, "nap_us",
				    (double)report->policy.of[i].nap_ns / 1000);
		fields_add_text(kind, "decider",
				report->policy.of[i].decider
					? report->policy.of[i].decider
					: "none");
		json_object_object_add(
			json,
			messages_kind_name((enum wait_kind)(WAIT_GUEST + i)),
			kind);
	}
	return json;
}

/* Only what is known. */
static void add_share(struct json_object *json, const char *key, int64_t bp)
{
	if (bp != CPU_UNKNOWN)
		fields_add_fraction(json, key, (double)bp / 100);
}

static struct json_object *write_governor(const struct cpu_report *from)
{
	const char *const whys[] = { from->page_why, from->idle_why,
				     from->costs_why };
	struct json_object *json = json_object_new_object();
	struct json_object *missing = json_object_new_array();

	fields_add_bool(json, "allowed", from->allowed);
	fields_add_fraction(json, "price",
			    (double)from->price_q16 / POLICY_ONE);
	add_share(json, "idle_pct", from->idle_bp);
	fields_add_text(json, "idle_source", from->idle_source);
	add_share(json, "pressure_pct", from->pressure_bp);
	fields_add_u64(json, "tapdisks", from->tapdisks);
	fields_add_fraction(json, "spinning_pct",
			    from->rate * 100.0 / CPU_PRICE_CPU);
	if (from->share != UINT32_MAX)
		fields_add_fraction(json, "share_pct",
				    from->share * 100.0 / CPU_PRICE_CPU);
	fields_add_text(json, "costs_source",
			costs_sources[from->costs_source]);
	fields_add_u64(json, "clock_ns", from->costs.clock_ns);
	fields_add_u64(json, "turn_ns", from->costs.turn_ns);
	fields_add_u64(json, "arm_ns", from->costs.arm_ns);
	for (size_t i = 0; i < sizeof(whys) / sizeof(whys[0]); i++)
		if (whys[i][0])
			json_object_array_add(missing,
					      json_object_new_string(whys[i]));
	json_object_object_add(json, "missing", missing);
	return json;
}

struct json_object *
messages_polling_report(const struct vbd_polling_report *report,
			const struct gaps_histogram *gaps)
{
	struct json_object *json = json_object_new_object();

	fields_add_text(json, "mode", messages_mode_name(report->polling.mode));
	fields_add_u64(json, "requested_us", report->polling.duration_us);
	fields_add_u64(json, "effective_us", report->effective_us);
	fields_add_u64(json, "granularity_us", report->granularity.us);
	fields_add_text(json, "granularity_source", report->granularity.source);
	fields_add_bool(json, "align", report->polling.align);
	fields_add_u64(json, "idle_threshold", report->polling.idle_threshold);
	fields_add_text(json, "source", messages_source_name(report->source));
	fields_add_u64(json, "requests", report->requests);
	fields_add_u64(json, "spin_ns", report->waits.spin_ns);
	fields_add_u64(json, "hits", report->waits.hits);
	fields_add_u64(json, "misses", report->waits.misses);
	fields_add_u64(json, "lost", report->waits.lost);
	fields_add_u64(json, "sleeps", report->waits.sleeps);
	fields_add_u64(json, "arms", report->waits.arms);
	fields_add_u64(json, "guest_events", report->guest_events);
	fields_add_u64(json, "notifications", report->notifications);
	fields_add_u64(json, "cap", vbd_polling_cap(&report->polling));
	fields_add_text(json, "sync", sync_names[report->polling.sync]);
	json_object_object_add(json, "policy", write_policy(report));
	json_object_object_add(json, "governor",
			       write_governor(&report->governor));
	if (gaps)
		json_object_object_add(json, "gaps", messages_gaps(gaps));
	return json;
}
