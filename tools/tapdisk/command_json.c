/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our own commands.  What they look like as JSON is tools/ctl/messages.c's
 * business; here is what they do.
 */
#include <errno.h>
#include <string.h>
#include <json-c/json.h>
#include "tools/ctl/messages.h"
#include "tools/tapdisk/command.h"

/* The disk and the JSON that a command is about: 0, -ENODEV, -EINVAL... */
static int begin(const struct command *command, struct vbd **vbd,
		 struct json_object **json)
{
	const char *text;
	size_t len;

	*json = NULL;
	*vbd = command_vbd(command);
	if (!*vbd)
		return -ENODEV;
	text = incoming_json(command->request, &len);
	if (len > 0)
		return messages_parse(text, len, json);
	*json = json_object_new_object(); /* nothing said is nothing wanted */
	return 0;
}

static void answer(struct command *command, struct json_object *json)
{
	command_answer_json(command, command->kind->type + 1, json,
			    JSON_C_TO_STRING_PLAIN);
}

static void run_connect(struct command *command)
{
	char guest[WIRE_PATH_MAX];
	struct json_object *json;
	struct vbd_connect connect;
	struct vbd *vbd;
	int err;

	err = begin(command, &vbd, &json);
	if (err == 0)
		err = messages_connect_read(json, guest, sizeof(guest),
					    &connect);
	if (err == 0)
		err = vbd_connect(vbd, &connect);
	json_object_put(json);
	if (err < 0)
		command_fail(command, err);
	else
		answer(command, json_object_new_object());
}

/* Keys left out keep what is in force. */
static int change_polling(struct vbd *vbd,
			  const struct messages_polling *change)
{
	struct vbd_polling_report now;
	struct vbd_polling to;

	if (change->to_default)
		return vbd_set_polling(vbd, VBD_FROM_TAP_CTL, NULL);
	if (!change->has_mode && !change->has_duration &&
	    !change->has_idle_threshold && !change->has_align &&
	    !change->polling.has_cap && !change->has_sync)
		return 0;
	vbd_polling_report(vbd, &now);
	to = now.polling;
	if (change->has_idle_threshold)
		to.idle_threshold = change->polling.idle_threshold;
	if (change->has_align)
		to.align = change->polling.align;
	if (change->polling.has_cap) {
		to.has_cap = true;
		to.cap = change->polling.cap;
	}
	if (change->has_sync)
		to.sync = change->polling.sync;
	if (change->has_mode) {
		to.mode = change->polling.mode;
		to.duration_us = 0; /* the mode's default */
	}
	if (change->has_duration) {
		to.duration_us = change->polling.duration_us;
		if (to.duration_us == 0)
			to.mode = WAIT_EVENT;
		else if (!change->has_mode && to.mode == WAIT_EVENT)
			to.mode = WAIT_ADAPTIVE;
	}
	return vbd_set_polling(
		vbd, change->xenstore ? VBD_FROM_XENSTORE : VBD_FROM_TAP_CTL,
		&to);
}

static void report_polling(struct command *command, struct vbd *vbd,
			   bool with_gaps)
{
	struct gaps_histogram gaps[GAPS_KINDS] = { 0 };
	struct vbd_polling_report report;

	vbd_polling_report(vbd, &report);
	if (with_gaps)
		vbd_gaps(vbd, gaps);
	answer(command,
	       messages_polling_report(&report, with_gaps ? gaps : NULL));
}

static void run_polling(struct command *command)
{
	struct messages_polling change;
	struct json_object *json;
	struct vbd *vbd;
	int err;

	err = begin(command, &vbd, &json);
	if (err == 0)
		err = messages_polling_read(json, &change);
	if (err == 0)
		err = change_polling(vbd, &change);
	json_object_put(json);
	if (err)
		command_fail(command, err);
	else
		report_polling(command, vbd, change.want_gaps);
}

static void run_trace(struct command *command)
{
	struct gaps_entry entries[MESSAGES_TRACE_MAX];
	struct messages_trace request;
	struct json_object *json;
	struct vbd *vbd;
	uint64_t lost;
	int err, n;

	err = begin(command, &vbd, &json);
	if (err == 0)
		err = messages_trace_read(json, &request);
	json_object_put(json);
	if (err) {
		command_fail(command, err);
		return;
	}
	n = vbd_trace(vbd, &request.cursor, entries, MESSAGES_TRACE_MAX, &lost);
	if (n < 0)
		command_fail(command, n);
	else
		answer(command,
		       messages_trace_reply(request.kind, request.cursor, lost,
					    entries, (unsigned)n));
}

static void run_hello(struct command *command)
{
	struct vbd_disk_info info;
	struct json_object *json;
	struct vbd *vbd;
	int err;

	err = begin(command, &vbd, &json);
	json_object_put(json);
	if (err < 0) {
		command_fail(command, err);
		return;
	}
	vbd_disk_info(vbd, &info);
	answer(command, messages_hello(&info));
}

static void run_events(struct command *command)
{
	struct json_object *json;
	struct vbd *vbd;
	int err;

	err = begin(command, &vbd, &json);
	json_object_put(json);
	if (err < 0)
		command_fail(command, err);
	else
		command_answer_and_keep(command, WIRE_EVENTS + 1);
}

const struct command_kind command_json_kinds[] = {
	{ WIRE_CONNECT, COMMAND_ALONE, run_connect },
	{ WIRE_POLLING, COMMAND_NOW, run_polling },
	{ WIRE_HELLO, COMMAND_NOW, run_hello },
	{ WIRE_EVENTS, COMMAND_NOW, run_events },
	{ WIRE_TRACE, COMMAND_NOW, run_trace },
	{ 0 },
};
