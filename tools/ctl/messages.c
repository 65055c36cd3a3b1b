/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON to structures and back, one writer and one reader for each message, side
 * by side so that they cannot drift.  Knows no socket and no vbd.
 */
#include <errno.h>
#include <string.h>
#include <json-c/json.h>
#include "tools/ctl/messages.h"
#include "tools/ctl/wire.h"

#define MESSAGES_VERSION 1
#define RING_ORDER_MAX 4
#define SECTOR_SIZE 512

static_assert(1 << RING_ORDER_MAX == VBD_RING_PAGES_MAX, "pages of a ring");

/* How the project calls them on this wire, in xenstore and on tap-ctl. */
static const char *const abi_names[NR_ABIS] = {
	[ABI_NATIVE] = "native",
	[ABI_X86_32] = "x86_32-abi",
	[ABI_X86_64] = "x86_64-abi",
};

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

static const char *const event_names[] = {
	[VBD_RESIZED] = "resized",
	[VBD_RING_BROKEN] = "ring-broken",
	[VBD_PAUSED] = "paused",
	[VBD_CLOSING] = "closing",
};

const char *messages_mode_name(enum wait_mode mode)
{
	return mode_names[mode];
}

const char *messages_source_name(enum vbd_polling_source source)
{
	return source_names[source];
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int messages_parse(const char *text, size_t len, struct json_object **out)
{
	struct json_tokener *tokener;
	struct json_object *json;
	size_t end;
	int err = -EINVAL;

	*out = NULL;
	if (len > WIRE_JSON_MAX)
		return -EINVAL;
	tokener = json_tokener_new();
	if (!tokener)
		return -ENOMEM;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	json = json_tokener_parse_ex(tokener, text, (int)len);
	/* A number or a word could go on: only an object ends by itself. */
	end = (size_t)tokener->char_offset;
	while (end < len && is_space(text[end]))
		end++;
	if (json && json_object_is_type(json, json_type_object) && end == len) {
		*out = json;
		json = NULL;
		err = 0;
	}
	json_object_put(json);
	json_tokener_free(tokener);
	return err;
}

/*
 * The value of @key.  Returns 1; 0 if there is no such key; -EINVAL if it is of
 * another type, or if @json is no object.
 */
static int find(struct json_object *json, const char *key, enum json_type type,
		struct json_object **out)
{
	if (!json_object_is_type(json, json_type_object))
		return -EINVAL;
	if (!json_object_object_get_ex(json, key, out))
		return 0;
	return json_object_is_type(*out, type) ? 1 : -EINVAL;
}

/* The same for a key that has to be there: 0 or -EINVAL. */
static int need(struct json_object *json, const char *key, enum json_type type,
		struct json_object **out)
{
	return find(json, key, type, out) == 1 ? 0 : -EINVAL;
}

/* json-c clamps what leaves int64_t, so nothing can wrap into the range. */
static int value_u32(struct json_object *value, uint32_t max, uint32_t *out)
{
	int64_t n = json_object_get_int64(value);

	if (n < 0 || n > (int64_t)max)
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

/* 1, 0 (no such key) or -EINVAL. */
static int find_u32(struct json_object *json, const char *key, uint32_t max,
		    uint32_t *out)
{
	struct json_object *value;
	int found = find(json, key, json_type_int, &value);

	if (found != 1)
		return found;
	return value_u32(value, max, out) < 0 ? -EINVAL : 1;
}

static int need_u32(struct json_object *json, const char *key, uint32_t max,
		    uint32_t *out)
{
	return find_u32(json, key, max, out) == 1 ? 0 : -EINVAL;
}

/* 1, 0 or -EINVAL, also for text with a NUL in it. */
static int find_text(struct json_object *json, const char *key,
		     const char **out)
{
	struct json_object *value;
	int found = find(json, key, json_type_string, &value);

	if (found != 1)
		return found;
	*out = json_object_get_string(value);
	if (strlen(*out) != (size_t)json_object_get_string_len(value))
		return -EINVAL;
	return 1;
}

static int need_text(struct json_object *json, const char *key,
		     const char **out)
{
	return find_text(json, key, out) == 1 ? 0 : -EINVAL;
}

static void add_u64(struct json_object *json, const char *key, uint64_t value)
{
	/* json-c 0.12 has no unsigned numbers */
	json_object_object_add(json, key,
			       json_object_new_int64((int64_t)value));
}

static void add_text(struct json_object *json, const char *key,
		     const char *value)
{
	json_object_object_add(json, key, json_object_new_string(value));
}

static void add_bool(struct json_object *json, const char *key, bool value)
{
	json_object_object_add(json, key, json_object_new_boolean(value));
}

static int mode_from_name(const char *name, enum wait_mode *out)
{
	for (int i = 0; i < NR_WAIT_MODES; i++) {
		if (!strcmp(name, mode_names[i])) {
			*out = (enum wait_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}

static struct json_object *write_refs(const struct vbd_connect *connect)
{
	struct json_object *refs = json_object_new_array();

	for (unsigned i = 0; i < connect->nr_refs; i++)
		json_object_array_add(refs,
				      json_object_new_int64(connect->refs[i]));
	return refs;
}

struct json_object *messages_connect(const struct vbd_connect *connect)
{
	const struct vbd_polling *from = &connect->polling;
	struct json_object *json = json_object_new_object();
	struct json_object *queues = json_object_new_array();
	struct json_object *queue = json_object_new_object();
	struct json_object *polling;

	add_u64(json, "domid", connect->domid);
	add_u64(json, "devid", connect->devid);
	add_text(json, "protocol", abi_names[connect->abi]);
	add_text(json, "guest", connect->guest);
	add_u64(queue, "port", connect->port);
	json_object_object_add(queue, "ring_refs", write_refs(connect));
	json_object_array_add(queues, queue);
	json_object_object_add(json, "queues", queues);
	if (!connect->has_polling)
		return json;
	polling = json_object_new_object();
	add_text(polling, "mode", messages_mode_name(from->mode));
	add_u64(polling, "duration_us", from->duration_us);
	add_u64(polling, "idle_threshold", from->idle_threshold);
	add_bool(polling, "align", from->align);
	json_object_object_add(json, "polling", polling);
	return json;
}

static int read_refs(struct json_object *queue, struct vbd_connect *out)
{
	struct json_object *refs, *ref;
	unsigned n;

	if (need(queue, "ring_refs", json_type_array, &refs) < 0)
		return -EINVAL;
	n = (unsigned)json_object_array_length(refs);
	if (n == 0 || n > VBD_RING_PAGES_MAX || (n & (n - 1)))
		return -EINVAL;
	for (unsigned i = 0; i < n; i++) {
		ref = json_object_array_get_idx(refs, i);
		if (!json_object_is_type(ref, json_type_int) ||
		    value_u32(ref, UINT32_MAX, &out->refs[i]) < 0)
			return -EINVAL;
	}
	out->nr_refs = n;
	return 0;
}

static int read_queues(struct json_object *json, struct vbd_connect *out)
{
	struct json_object *queues, *queue;
	int err;

	err = need(json, "queues", json_type_array, &queues);
	if (err < 0)
		return err;
	if (json_object_array_length(queues) == 0)
		return -EINVAL;
	if (json_object_array_length(queues) > 1)
		return -ENOTSUP;
	queue = json_object_array_get_idx(queues, 0);
	err = need_u32(queue, "port", UINT32_MAX, &out->port);
	if (err < 0)
		return err;
	return read_refs(queue, out);
}

static int read_connect_polling(struct json_object *json,
				struct vbd_connect *out)
{
	struct json_object *polling, *align;
	const char *mode;
	uint32_t threshold;
	int err;

	err = find(json, "polling", json_type_object, &polling);
	out->has_polling = err == 1;
	if (err != 1)
		return err;
	if (need_text(polling, "mode", &mode) < 0 ||
	    need_u32(polling, "duration_us", GRANULARITY_WINDOW_MAX_US,
		     &out->polling.duration_us) < 0 ||
	    need_u32(polling, "idle_threshold", 100, &threshold) < 0 ||
	    need(polling, "align", json_type_boolean, &align) < 0)
		return -EINVAL;
	out->polling.idle_threshold = (uint8_t)threshold;
	out->polling.align = json_object_get_boolean(align);
	return mode_from_name(mode, &out->polling.mode);
}

int messages_connect_read(struct json_object *json, char *guest_buf,
			  size_t guest_size, struct vbd_connect *out)
{
	const char *protocol, *guest;
	int err;

	memset(out, 0, sizeof(*out));
	if (need_u32(json, "domid", UINT32_MAX, &out->domid) < 0 ||
	    need_u32(json, "devid", UINT32_MAX, &out->devid) < 0 ||
	    need_text(json, "protocol", &protocol) < 0 ||
	    need_text(json, "guest", &guest) < 0)
		return -EINVAL;
	err = abi_from_name(protocol, &out->abi);
	if (err < 0)
		return err;
	if (strlen(guest) >= guest_size)
		return -ENAMETOOLONG;
	memcpy(guest_buf, guest, strlen(guest) + 1);
	out->guest = guest_buf;
	err = read_queues(json, out);
	if (err < 0)
		return err;
	return read_connect_polling(json, out);
}

struct json_object *messages_polling(const struct messages_polling *change)
{
	const struct vbd_polling *to = &change->polling;
	struct json_object *json = json_object_new_object();

	if (change->to_default)
		add_text(json, "mode", "default");
	else if (change->has_mode)
		add_text(json, "mode", messages_mode_name(to->mode));
	if (change->has_duration)
		add_u64(json, "duration_us", to->duration_us);
	if (change->has_idle_threshold)
		add_u64(json, "idle_threshold", to->idle_threshold);
	if (change->has_align)
		add_bool(json, "align", to->align);
	if (change->xenstore)
		add_text(json, "source", "xenstore");
	return json;
}

static int read_mode(struct json_object *json, struct messages_polling *out)
{
	const char *mode;
	int found = find_text(json, "mode", &mode);

	if (found != 1)
		return found;
	out->has_mode = true;
	if (!strcmp(mode, "default")) {
		out->to_default = true;
		return 0;
	}
	return mode_from_name(mode, &out->polling.mode);
}

static int read_source(struct json_object *json, struct messages_polling *out)
{
	const char *source;
	int found = find_text(json, "source", &source);

	if (found != 1)
		return found;
	out->xenstore = !strcmp(source, "xenstore");
	return out->xenstore || !strcmp(source, "tap-ctl") ? 0 : -EINVAL;
}

int messages_polling_read(struct json_object *json,
			  struct messages_polling *out)
{
	struct json_object *align;
	uint32_t threshold = 0;
	int duration, idle, aligned, err;

	memset(out, 0, sizeof(*out));
	duration = find_u32(json, "duration_us", GRANULARITY_WINDOW_MAX_US,
			    &out->polling.duration_us);
	idle = find_u32(json, "idle_threshold", 100, &threshold);
	aligned = find(json, "align", json_type_boolean, &align);
	if (duration < 0 || idle < 0 || aligned < 0)
		return -EINVAL;
	out->has_duration = duration;
	out->has_idle_threshold = idle;
	out->polling.idle_threshold = (uint8_t)threshold;
	out->has_align = aligned;
	if (aligned)
		out->polling.align = json_object_get_boolean(align);
	if (read_source(json, out) < 0)
		return -EINVAL;
	err = read_mode(json, out);
	if (err < 0)
		return err;
	/* "as before, but" says nothing once everything is taken back */
	if (out->to_default &&
	    (out->has_duration || out->has_idle_threshold || out->has_align))
		return -EINVAL;
	return 0;
}

struct json_object *
messages_polling_report(const struct vbd_polling_report *report)
{
	struct json_object *json = json_object_new_object();

	add_text(json, "mode", messages_mode_name(report->polling.mode));
	add_u64(json, "requested_us", report->polling.duration_us);
	add_u64(json, "effective_us", report->effective_us);
	add_u64(json, "granularity_us", report->granularity.us);
	add_text(json, "granularity_source", report->granularity.source);
	add_bool(json, "align", report->polling.align);
	add_u64(json, "idle_threshold", report->polling.idle_threshold);
	add_text(json, "source", messages_source_name(report->source));
	add_u64(json, "requests", report->requests);
	add_u64(json, "spin_ns", report->waits.spin_ns);
	add_u64(json, "hits", report->waits.hits);
	add_u64(json, "misses", report->waits.misses);
	add_u64(json, "lost", report->waits.lost);
	add_u64(json, "sleeps", report->waits.sleeps);
	add_u64(json, "arms", report->waits.arms);
	add_u64(json, "guest_events", report->guest_events);
	add_u64(json, "notifications", report->notifications);
	return json;
}

static struct json_object *write_ops(const struct vbd_disk_info *info)
{
	struct json_object *ops = json_object_new_array();

	json_object_array_add(ops, json_object_new_string("read"));
	json_object_array_add(ops, json_object_new_string("flush"));
	if (!info->writable)
		return ops;
	json_object_array_add(ops, json_object_new_string("write"));
	json_object_array_add(ops, json_object_new_string("barrier"));
	if (info->discard_granularity)
		json_object_array_add(ops, json_object_new_string("discard"));
	return ops;
}

struct json_object *messages_hello(const struct vbd_disk_info *info)
{
	struct json_object *json = json_object_new_object();

	add_u64(json, "version", MESSAGES_VERSION);
	add_u64(json, "ring_order_max", RING_ORDER_MAX);
	add_u64(json, "queues_max", 1);
	add_u64(json, "indirect_max", 0);
	json_object_object_add(json, "ops", write_ops(info));
	add_u64(json, "info", info->info);
	add_u64(json, "sectors", info->bytes / SECTOR_SIZE);
	add_u64(json, "sector_size", info->logical_block);
	add_u64(json, "physical_sector_size", info->physical_block);
	add_u64(json, "discard_granularity", info->discard_granularity);
	return json;
}

struct json_object *messages_event(enum vbd_event event)
{
	struct json_object *json = json_object_new_object();

	add_text(json, "event", event_names[event]);
	return json;
}
