/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long waits took, as JSON: the histogram in the reply to message 130, and
 * message 136.  Knows no socket and no vbd.
 */
#include <errno.h>
#include <string.h>
#include "tools/ctl/fields.h"
#include "tools/ctl/messages.h"
#include "tools/ctl/wire.h"

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

/* ---- histograms ---- */

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

struct json_object *messages_gaps(const struct gaps_histogram gaps[GAPS_KINDS])
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
	if (fields_need(json, "gaps", json_type_object, &gaps) < 0)
		return -EINVAL;
	for (unsigned k = 0; k < GAPS_KINDS; k++) {
		if (fields_need(gaps, kind_names[k], json_type_array, &list) <
		    0)
			return -EINVAL;
		for (size_t i = 0; i < (size_t)json_object_array_length(list);
		     i++)
			if (read_bin(json_object_array_get_idx(list, i),
				     &out[k]) < 0)
				return -EINVAL;
	}
	return 0;
}

/* ---- traces ---- */

const char *messages_kind_name(enum wait_kind kind)
{
	return kind_names[gaps_index(kind)];
}

struct json_object *messages_trace(const struct messages_trace *request)
{
	struct json_object *json = json_object_new_object();

	fields_add_text(json, "kind", messages_kind_name(request->kind));
	if (request->cursor != VBD_TRACE_NOW)
		fields_add_u64(json, "cursor", request->cursor);
	return json;
}

static int find_u64(struct json_object *json, const char *key, uint64_t *out)
{
	struct json_object *value;
	int found = fields_find(json, key, json_type_int, &value);

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

	out->cursor = VBD_TRACE_NOW;
	if (find_u64(json, "cursor", &out->cursor) < 0 ||
	    fields_need_text(json, "kind", &kind) < 0)
		return -EINVAL;
	for (unsigned i = 0; i < GAPS_KINDS; i++) {
		if (strcmp(kind, kind_names[i]))
			continue;
		out->kind = (enum wait_kind)(WAIT_GUEST + i);
		return 0;
	}
	return -EINVAL;
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
	fields_add_u64(json, "cursor", cursor);
	fields_add_u64(json, "lost", lost);
	json_object_object_add(json, "gaps", gaps);
	fields_add_text(json, "ops", ops);
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
	    fields_need(json, "gaps", json_type_array, &gaps) < 0 ||
	    fields_need_text(json, "ops", &ops) < 0)
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
