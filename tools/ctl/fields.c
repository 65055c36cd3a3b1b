/* SPDX-License-Identifier: BSD-3-Clause */
/* See fields.h. */
#include "tools/ctl/fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int fields_find(struct json_object *json, const char *key, enum json_type type,
		struct json_object **out)
{
	if (!json_object_is_type(json, json_type_object))
		return -EINVAL;
	if (!json_object_object_get_ex(json, key, out))
		return 0;
	return json_object_is_type(*out, type) ? 1 : -EINVAL;
}

int fields_need(struct json_object *json, const char *key, enum json_type type,
		struct json_object **out)
{
	return fields_find(json, key, type, out) == 1 ? 0 : -EINVAL;
}

/* json-c clamps what leaves int64_t, so nothing can wrap into the range. */
int fields_value_u32(struct json_object *value, uint32_t max, uint32_t *out)
{
	int64_t n = json_object_get_int64(value);

	if (n < 0 || n > (int64_t)max)
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

int fields_find_u32(struct json_object *json, const char *key, uint32_t max,
		    uint32_t *out)
{
	struct json_object *value;
	int found = fields_find(json, key, json_type_int, &value);

	if (found != 1)
		return found;
	return fields_value_u32(value, max, out) < 0 ? -EINVAL : 1;
}

int fields_need_u32(struct json_object *json, const char *key, uint32_t max,
		    uint32_t *out)
{
	return fields_find_u32(json, key, max, out) == 1 ? 0 : -EINVAL;
}

int fields_find_text(struct json_object *json, const char *key,
		     const char **out)
{
	struct json_object *value;
	int found = fields_find(json, key, json_type_string, &value);

	if (found != 1)
		return found;
	*out = json_object_get_string(value);
	if (strlen(*out) != (size_t)json_object_get_string_len(value))
		return -EINVAL;
	return 1;
}

int fields_need_text(struct json_object *json, const char *key,
		     const char **out)
{
	return fields_find_text(json, key, out) == 1 ? 0 : -EINVAL;
}

void fields_add_u64(struct json_object *json, const char *key, uint64_t value)
{
	/* json-c 0.12 has no unsigned numbers */
	json_object_object_add(json, key,
			       json_object_new_int64((int64_t)value));
}

void fields_add_text(struct json_object *json, const char *key,
		     const char *value)
{
	json_object_object_add(json, key, json_object_new_string(value));
}

void fields_add_bool(struct json_object *json, const char *key, bool value)
{
	json_object_object_add(json, key, json_object_new_boolean(value));
}

void fields_add_fraction(struct json_object *json, const char *key,
			 double value)
{
	char text[64];

	/* as many digits as mean something, whatever json-c would print */
	snprintf(text, sizeof(text), "%.6g", value);
	json_object_object_add(json, key,
			       json_object_new_double_s(value, text));
}
