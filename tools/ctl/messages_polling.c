/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tells and changes how a disk waits, as JSON: messages 130 and 136, and
 * the settings in 128.  Knows no socket and no vbd.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tools/ctl/keys.h"
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

static const char *const sync_names[NR_VBD_SYNCS] = {
	[VBD_SYNC_AUTO] = "auto",
	[VBD_SYNC_OFF] = "off",
};

/* By gaps_index. */
static const char *const kind_names[GAPS_KINDS] = { "guest", "device", "both" };

static const char op_letters[NR_POLICY_OPS] = {
	[POLICY_READ] = 'r',
	[POLICY_WRITE] = 'w',
	[POLICY_FLUSH] = 'f',
};

/* "[2147483647,18446744073709551615,18446744073709551615]," at most */
static_assert(GAPS_KINDS * GAPS_BINS * 55 + 4096 < WIRE_JSON_MAX,
	      "a report with all gaps is a message");
/* "2147483647," and a letter */
static_assert(MESSAGES_TRACE_MAX * 12 + 256 < WIRE_JSON_MAX,
	      "a full trace is a message");

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
		keys_add_text(json, "mode", "default");
	else if (has->has_mode)
		keys_add_text(json, "mode", messages_mode_name(to->mode));
	if (has->has_duration)
		keys_add_u64(json, "duration_us", to->duration_us);
	if (has->has_idle_threshold)
		keys_add_u64(json, "idle_threshold", to->idle_threshold);
	if (has->has_align)
		keys_add_bool(json, "align", to->align);
	if (to->has_cap)
		keys_add_u64(json, "cap", to->cap);
	if (has->has_sync)
		keys_add_text(json, "sync", sync_names[to->sync]);
	return json;
}

static int read_mode(struct json_object *json, struct messages_polling *out)
{
	const char *mode;
	int found = keys_find_text(json, "mode", &mode);

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
	int found = keys_find_text(json, "sync", &sync);

	if (found != 1)
		return found;
	out->has_sync = true;
	found = place_of(sync, sync_names, NR_VBD_SYNCS);
	if (found < 0)
		return found;
	out->polling.sync = (enum vbd_sync)found;
	return 0;
}

static int read_settings(struct json_object *json, struct messages_polling *out)
{
	struct vbd_polling *to = &out->polling;
	struct json_object *align;
	uint32_t threshold = 0;
	int duration, idle, aligned, cap;

	memset(out, 0, sizeof(*out));
	duration = keys_find_u32(json, "duration_us", GRANULARITY_WINDOW_MAX_US,
				 &to->duration_us);
	idle = keys_find_u32(json, "idle_threshold", 100, &threshold);
	aligned = keys_find(json, "align", json_type_boolean, &align);
	cap = keys_find_u32(json, "cap", VBD_CAP_MAX, &to->cap);
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
		.has_sync = polling->sync != VBD_SYNC_AUTO,
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
		keys_add_text(json, "source", "xenstore");
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
	int found = keys_find_text(json, "source", &source);

	if (found != 1)
		return found;
	out->xenstore = !strcmp(source, "xenstore");
	return out->xenstore || !strcmp(source, "tap-ctl") ? 0 : -EINVAL;
}

/* A word that we do not know is one of a newer peer's. */
static int read_want(struct json_object *json, struct messages_polling *out)
{
	struct json_object *want, *word;
	int found = keys_find(json, "want", json_type_array, &want);

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

	keys_add_fraction(json, "price",
			  (double)report->policy.price / POLICY_ONE);
	keys_add_fraction(json, "rho", (double)report->policy.rho / POLICY_ONE);
	keys_add_fraction(json, "w0_us", (double)report->w0_ns / 1000);
	keys_add_fraction(json, "cw_us", (double)report->cw_ns / 1000);
	for (unsigned i = 0; i < GAPS_KINDS; i++) {
		kind = json_object_new_object();
		keys_add_u64(kind, "gaps", report->gaps[i]);
		keys_add_u64(kind, "decided", report->policy.of[i].waits);
		keys_add_fraction(kind, "threshold_us",
				  (double)report->policy.of[i].spin_ns / 1000);
		keys_add_fraction(kind, "nap_us",
				  (double)report->policy.of[i].nap_ns / 1000);
		keys_add_text(kind, "decider",
			      report->policy.of[i].decider
				      ? report->policy.of[i].decider
				      : "none");
		json_object_object_add(json, kind_names[i], kind);
	}
	return json;
}

static struct json_object *write_histogram(const struct gaps_histogram *gaps)
{
	struct json_object *list = json_object_new_array(), *bin;

	for (unsigned i = 0; i < GAPS_BINS; i++) {
		if (!gaps->bins[i].n)
			continue;
		bin = json_object_new_array();
		json_object_array_add(
			bin, json_object_new_int64((int64_t)gaps_edge_ns(i)));
		json_object_array_add(
			bin, json_object_new_int64((int64_t)gaps->bins[i].n));
		json_object_array_add(
			bin, json_object_new_int64((int64_t)gaps->bins[i].ns));
		json_object_array_add(list, bin);
	}
	return list;
}

static struct json_object *write_gaps(const struct gaps_histogram *gaps)
{
	struct json_object *json = json_object_new_object();

	for (unsigned i = 0; i < GAPS_KINDS; i++)
		json_object_object_add(json, kind_names[i],
				       write_histogram(&gaps[i]));
	return json;
}

/* One [edge, count, sum]. */
static int read_bin(struct json_object *bin, struct gaps_histogram *out)
{
	int64_t number[3];
	struct json_object *value;

	if (!json_object_is_type(bin, json_type_array) ||
	    json_object_array_length(bin) != 3)
		return -EINVAL;
	for (unsigned i = 0; i < 3; i++) {
		value = json_object_array_get_idx(bin, i);
		if (!json_object_is_type(value, json_type_int))
			return -EINVAL;
		number[i] = json_object_get_int64(value);
		if (number[i] < 0)
			return -EINVAL;
	}
	out->bins[gaps_bin_of((uint64_t)number[0])].n += (uint64_t)number[1];
	out->bins[gaps_bin_of((uint64_t)number[0])].ns += (uint64_t)number[2];
	return 0;
}

int messages_gaps_read(struct json_object *json,
		       struct gaps_histogram out[GAPS_KINDS])
{
	struct json_object *gaps, *list;

	memset(out, 0, GAPS_KINDS * sizeof(*out));
	if (keys_need(json, "gaps", json_type_object, &gaps) < 0)
		return -EINVAL;
	for (unsigned k = 0; k < GAPS_KINDS; k++) {
		if (keys_need(gaps, kind_names[k], json_type_array, &list) < 0)
			return -EINVAL;
		for (size_t i = 0; i < (size_t)json_object_array_length(list);
		     i++)
			if (read_bin(json_object_array_get_idx(list, i),
				     &out[k]) < 0)
				return -EINVAL;
	}
	return 0;
}

struct json_object *
messages_polling_report(const struct vbd_polling_report *report,
			const struct gaps_histogram *gaps)
{
	struct json_object *json = json_object_new_object();

	keys_add_text(json, "mode", messages_mode_name(report->polling.mode));
	keys_add_u64(json, "requested_us", report->polling.duration_us);
	keys_add_u64(json, "effective_us", report->effective_us);
	keys_add_u64(json, "granularity_us", report->granularity.us);
	keys_add_text(json, "granularity_source", report->granularity.source);
	keys_add_bool(json, "align", report->polling.align);
	keys_add_u64(json, "idle_threshold", report->polling.idle_threshold);
	keys_add_text(json, "source", messages_source_name(report->source));
	keys_add_u64(json, "requests", report->requests);
	keys_add_u64(json, "spin_ns", report->waits.spin_ns);
	keys_add_u64(json, "hits", report->waits.hits);
	keys_add_u64(json, "misses", report->waits.misses);
	keys_add_u64(json, "lost", report->waits.lost);
	keys_add_u64(json, "sleeps", report->waits.sleeps);
	keys_add_u64(json, "arms", report->waits.arms);
	keys_add_u64(json, "guest_events", report->guest_events);
	keys_add_u64(json, "notifications", report->notifications);
	keys_add_u64(json, "cap", vbd_polling_cap(&report->polling));
	keys_add_text(json, "sync", sync_names[report->polling.sync]);
	json_object_object_add(json, "policy", write_policy(report));
	if (gaps)
		json_object_object_add(json, "gaps", write_gaps(gaps));
	return json;
}

/* ---- 136 TRACE ---- */

const char *messages_kind_name(enum wait_kind kind)
{
	return kind_names[gaps_index(kind)];
}

struct json_object *messages_trace(const struct messages_trace *request)
{
	struct json_object *json = json_object_new_object();

	keys_add_text(json, "kind", messages_kind_name(request->kind));
	if (request->cursor != VBD_TRACE_NOW)
		keys_add_u64(json, "cursor", request->cursor);
	return json;
}

static int find_u64(struct json_object *json, const char *key, uint64_t *out)
{
	struct json_object *value;
	int found = keys_find(json, key, json_type_int, &value);

	if (found != 1)
		return found;
	if (json_object_get_int64(value) < 0)
		return -EINVAL;
	*out = (uint64_t)json_object_get_int64(value);
	return 1;
}

int messages_trace_read(struct json_object *json, struct messages_trace *out)
{
	const char *kind;
	int i;

	out->cursor = VBD_TRACE_NOW;
	if (find_u64(json, "cursor", &out->cursor) < 0 ||
	    keys_need_text(json, "kind", &kind) < 0)
		return -EINVAL;
	i = place_of(kind, kind_names, GAPS_KINDS);
	if (i < 0)
		return i;
	out->kind = (enum wait_kind)(WAIT_GUEST + i);
	return 0;
}

struct json_object *messages_trace_reply(enum wait_kind kind, uint64_t cursor,
					 uint64_t lost,
					 const struct gaps_entry *entries,
					 unsigned n)
{
	struct json_object *json = json_object_new_object();
	struct json_object *gaps = json_object_new_array();
	char ops[MESSAGES_TRACE_MAX + 1];
	unsigned used = 0;

	assert(n <= MESSAGES_TRACE_MAX);
	for (unsigned i = 0; i < n; i++) {
		if (entries[i].kind != kind)
			continue;
		json_object_array_add(
			gaps, json_object_new_int64((int64_t)entries[i].ns));
		ops[used++] = op_letters[entries[i].op];
	}
	ops[used] = '\0';
	keys_add_u64(json, "cursor", cursor);
	keys_add_u64(json, "lost", lost);
	json_object_object_add(json, "gaps", gaps);
	keys_add_text(json, "ops", ops);
	return json;
}

/* One gap and its letter. */
static int read_entry(struct json_object *gap, char letter,
		      struct gaps_entry *out)
{
	const char *op =
		letter ? memchr(op_letters, letter, NR_POLICY_OPS) : NULL;

	if (!op || !json_object_is_type(gap, json_type_int) ||
	    json_object_get_int64(gap) < 0)
		return -EINVAL;
	out->ns = (uint64_t)json_object_get_int64(gap);
	out->op = (enum policy_op)(op - op_letters);
	return 0;
}

int messages_trace_reply_read(struct json_object *json, uint64_t *cursor,
			      uint64_t *lost, struct gaps_entry *out,
			      unsigned *n)
{
	struct json_object *gaps;
	const char *ops;
	size_t len;

	if (find_u64(json, "cursor", cursor) != 1 ||
	    find_u64(json, "lost", lost) != 1 ||
	    keys_need(json, "gaps", json_type_array, &gaps) < 0 ||
	    keys_need_text(json, "ops", &ops) < 0)
		return -EINVAL;
	len = (size_t)json_object_array_length(gaps);
	if (len > MESSAGES_TRACE_MAX || strlen(ops) != len)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (read_entry(json_object_array_get_idx(gaps, i), ops[i],
			       &out[i]) < 0)
			return -EINVAL;
	*n = (unsigned)len;
	return 0;
}
