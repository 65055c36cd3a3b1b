/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON to structures and back, one writer and one reader for each message, side
 * by side so that they cannot drift.  Knows no socket and no vbd.
 */
#include <errno.h>
#include <string.h>
#include <json-c/json.h>
#include "tools/ctl/fields.h"
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

static const char *const event_names[] = {
	[VBD_RESIZED] = "resized",
	[VBD_RING_BROKEN] = "ring-broken",
	[VBD_PAUSED] = "paused",
	[VBD_CLOSING] = "closing",
};

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
	struct json_object *json = json_object_new_object();
	struct json_object *queues = json_object_new_array();
	struct json_object *queue = json_object_new_object();

	fields_add_u64(json, "domid", connect->domid);
	fields_add_u64(json, "devid", connect->devid);
	fields_add_text(json, "protocol", abi_names[connect->abi]);
	fields_add_text(json, "guest", connect->guest);
	fields_add_u64(queue, "port", connect->port);
	json_object_object_add(queue, "ring_refs", write_refs(connect));
	json_object_array_add(queues, queue);
	json_object_object_add(json, "queues", queues);
	if (!connect->has_polling)
		return json;
	json_object_object_add(json, "polling",
			       messages_polling_write(&connect->polling));
	return json;
}

static int read_refs(struct json_object *queue, struct vbd_connect *out)
{
	struct json_object *refs, *ref;
	unsigned n;

	if (fields_need(queue, "ring_refs", json_type_array, &refs) < 0)
		return -EINVAL;
	n = (unsigned)json_object_array_length(refs);
	if (n == 0 || n > VBD_RING_PAGES_MAX || (n & (n - 1)))
		return -EINVAL;
	for (unsigned i = 0; i < n; i++) {
		ref = json_object_array_get_idx(refs, i);
		if (!json_object_is_type(ref, json_type_int) ||
		    fields_value_u32(ref, UINT32_MAX, &out->refs[i]) < 0)
			return -EINVAL;
	}
	out->nr_refs = n;
	return 0;
}

static int read_queues(struct json_object *json, struct vbd_connect *out)
{
	struct json_object *queues, *queue;
	int err;

	err = fields_need(json, "queues", json_type_array, &queues);
	if (err < 0)
		return err;
	if (json_object_array_length(queues) == 0)
		return -EINVAL;
	if (json_object_array_length(queues) > 1)
		return -ENOTSUP;
	queue = json_object_array_get_idx(queues, 0);
	err = fields_need_u32(queue, "port", UINT32_MAX, &out->port);
	if (err < 0)
		return err;
	return read_refs(queue, out);
}

static int read_polling(struct json_object *json, struct vbd_connect *out)
{
	struct json_object *polling;
	int found = fields_find(json, "polling", json_type_object, &polling);

	out->has_polling = found == 1;
	if (found != 1)
		return found;
	return messages_polling_parse(polling, &out->polling);
}

int messages_connect_read(struct json_object *json, char *guest_buf,
			  size_t guest_size, struct vbd_connect *out)
{
	const char *protocol, *guest;
	int err;

	memset(out, 0, sizeof(*out));
	if (fields_need_u32(json, "domid", UINT32_MAX, &out->domid) < 0 ||
	    fields_need_u32(json, "devid", UINT32_MAX, &out->devid) < 0 ||
	    fields_need_text(json, "protocol", &protocol) < 0 ||
	    fields_need_text(json, "guest", &guest) < 0)
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
	return read_polling(json, out);
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

	fields_add_u64(json, "version", MESSAGES_VERSION);
	fields_add_u64(json, "ring_order_max", RING_ORDER_MAX);
	fields_add_u64(json, "queues_max", 1);
	fields_add_u64(json, "indirect_max", 0);
	json_object_object_add(json, "ops", write_ops(info));
	fields_add_u64(json, "info", info->info);
	fields_add_u64(json, "sectors", info->bytes / SECTOR_SIZE);
	fields_add_u64(json, "sector_size", info->logical_block);
	fields_add_u64(json, "physical_sector_size", info->physical_block);
	fields_add_u64(json, "discard_granularity", info->discard_granularity);
	return json;
}

struct json_object *messages_event(enum vbd_event event)
{
	struct json_object *json = json_object_new_object();

	fields_add_text(json, "event", event_names[event]);
	return json;
}
