/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON to struct hello.  Sizes are checked here, once, so that whoever
 * publishes them to a guest need not.
 */
#include "tools/ctl/hello.h"

#include <errno.h>
#include <string.h>
#include <json-c/json.h>
#include "tools/ctl/messages.h"

#define BLOCK_MIN 512
#define BLOCK_MAX (1 << 20)

static const char *const event_names[] = {
	[VBD_RESIZED] = "resized",
	[VBD_RING_BROKEN] = "ring-broken",
	[VBD_PAUSED] = "paused",
	[VBD_CLOSING] = "closing",
};

static int number(struct json_object *json, const char *key, int64_t max,
		  int64_t *out)
{
	struct json_object *value;

	if (!json_object_object_get_ex(json, key, &value) ||
	    !json_object_is_type(value, json_type_int))
		return -EINVAL;
	*out = json_object_get_int64(value);
	return *out >= 0 && *out <= max ? 0 : -EINVAL;
}

static int number_u32(struct json_object *json, const char *key, uint32_t max,
		      uint32_t *out)
{
	int64_t n;

	if (number(json, key, max, &n) < 0)
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

static int read_ops(struct json_object *json, struct hello *out)
{
	struct json_object *ops, *op;
	const char *name;

	if (!json_object_object_get_ex(json, "ops", &ops) ||
	    !json_object_is_type(ops, json_type_array))
		return -EINVAL;
	for (int i = 0; i < (int)json_object_array_length(ops); i++) {
		op = json_object_array_get_idx(ops, i);
		if (!json_object_is_type(op, json_type_string))
			return -EINVAL;
		name = json_object_get_string(op);
		out->flush |= !strcmp(name, "flush");
		out->barrier |= !strcmp(name, "barrier");
		out->discard |= !strcmp(name, "discard");
	}
	return 0;
}

static bool is_block(uint32_t size)
{
	return size >= BLOCK_MIN && (size & (size - 1)) == 0;
}

int hello_read(const char *text, size_t len, struct hello *out)
{
	struct json_object *json;
	int64_t sectors;
	int err;

	memset(out, 0, sizeof(*out));
	err = messages_parse(text, len, &json);
	if (err < 0)
		return err;
	if (number_u32(json, "ring_order_max", 4, &out->ring_order_max) < 0 ||
	    number_u32(json, "info", UINT32_MAX, &out->info) < 0 ||
	    number(json, "sectors", INT64_MAX / BLOCK_MIN, &sectors) < 0 ||
	    number_u32(json, "physical_sector_size", BLOCK_MAX,
		       &out->physical_sector_size) < 0 ||
	    number_u32(json, "discard_granularity", UINT32_MAX,
		       &out->discard_granularity) < 0 ||
	    read_ops(json, out) < 0)
		err = -EINVAL;
	json_object_put(json);
	if (err < 0)
		return err;
	out->sectors = (uint64_t)sectors;
	/* a vbd without an image has no blocks */
	if (sectors && !is_block(out->physical_sector_size))
		return -EINVAL;
	if (out->discard && out->discard_granularity < BLOCK_MIN)
		return -EINVAL;
	return 0;
}

int hello_read_event(const char *text, size_t len, enum vbd_event *out)
{
	struct json_object *json, *name;
	int err;

	err = messages_parse(text, len, &json);
	if (err < 0)
		return err;
	if (!json_object_object_get_ex(json, "event", &name) ||
	    !json_object_is_type(name, json_type_string)) {
		json_object_put(json);
		return -EINVAL;
	}
	err = -ENOENT;
	for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]);
	     i++) {
		if (!strcmp(json_object_get_string(name), event_names[i])) {
			*out = (enum vbd_event)i;
			err = 0;
		}
	}
	json_object_put(json);
	return err;
}
