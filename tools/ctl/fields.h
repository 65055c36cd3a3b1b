/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of JSON objects, read strictly.  For messages.h; knows no key by name.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The value of @key.  Returns 1; 0 if there is no such key; -EINVAL if it is of
 * another type, or if @json is no object.
 */
int fields_find(struct json_object *json, const char *key, enum json_type type,
		struct json_object **out);

/* The same for numbers up to @max, and for texts (none with a NUL in it). */
int fields_find_u32(struct json_object *json, const char *key, uint32_t max,
		    uint32_t *out);
int fields_find_text(struct json_object *json, const char *key,
		     const char **out);

/* The same for a key that has to be there: 0 or -EINVAL. */
int fields_need(struct json_object *json, const char *key, enum json_type type,
		struct json_object **out);
int fields_need_u32(struct json_object *json, const char *key, uint32_t max,
		    uint32_t *out);
int fields_need_text(struct json_object *json, const char *key,
		     const char **out);

/* An integer's value, at most @max: 0 or -EINVAL. */
int fields_value_u32(struct json_object *value, uint32_t max, uint32_t *out);

void fields_add_u64(struct json_object *json, const char *key, uint64_t value);
void fields_add_text(struct json_object *json, const char *key,
		     const char *value);
void fields_add_bool(struct json_object *json, const char *key, bool value);
void fields_add_fraction(struct json_object *json, const char *key,
			 double value);
