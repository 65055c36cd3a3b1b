/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl polling --trace: single waits into a file, a line each, as
 * polling-sim reads them: how long in ns, and what was asked for before.
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "poll/clock.h"
#include "tools/ctl/messages.h"
#include "tools/ctl/wire.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/polling.h"
#include "tools/tap-ctl/say.h"
#include "tools/tap-ctl/talk.h"

#define SECONDS_DEFAULT 10
/* The tapdisk's buffer lasts longer, at any rate a ring can have. */
#define PAUSE_US 50000

struct trace {
	const struct options *options;
	FILE *file;
	struct messages_trace request;
	uint64_t waits, lost;
};

static const char *const op_names[NR_POLICY_OPS] = {
	[POLICY_READ] = "read",
	[POLICY_WRITE] = "write",
	[POLICY_FLUSH] = "flush",
};

static int write_waits(struct trace *t, struct json_object *reply)
{
	struct gaps_entry entries[MESSAGES_TRACE_MAX];
	uint64_t lost;
	unsigned n;

	if (messages_trace_reply_read(reply, &t->request.cursor, &lost, entries,
				      &n) < 0)
		return say_error(t->options, -EPROTO,
				 "tapdisk %d: its reply makes no sense",
				 (int)t->options->pid);
	t->lost += lost;
	t->waits += n;
	for (unsigned i = 0; i < n; i++)
		fprintf(t->file, "%" PRIu64 " %s\n", entries[i].ns,
			op_names[entries[i].op]);
	if (ferror(t->file))
		return say_error(t->options, errno ? -errno : -EIO, "%s",
				 t->options->trace);
	return 0;
}

/* Everything up to now.  0 or -errno, said. */
static int catch_up(struct trace *t)
{
	struct json_object *json, *reply;
	uint64_t before;
	int err;

	do {
		before = t->request.cursor;
		json = messages_trace(&t->request);
		err = talk_json(t->options, WIRE_TRACE, json, &reply);
		json_object_put(json);
		if (err < 0)
			return err;
		err = write_waits(t, reply);
		json_object_put(reply);
		if (err < 0)
			return err;
	} while (before != VBD_TRACE_NOW &&
		 t->request.cursor - before >= MESSAGES_TRACE_MAX);
	return 0;
}

static int record(struct trace *t)
{
	int64_t seconds = t->options->seconds;
	uint64_t end;
	int err;

	if (seconds == OPTIONS_UNSET)
		seconds = SECONDS_DEFAULT;
	end = clock_ns() + (uint64_t)seconds * CLOCK_SECOND;
	for (;;) {
		err = catch_up(t);
		if (err < 0 || clock_ns() >= end)
			return err;
		usleep(PAUSE_US);
	}
}

int trace_run(const struct options *options)
{
	struct trace t = {
		.options = options,
		.request = { .kind = WAIT_GUEST, .cursor = VBD_TRACE_NOW },
	};
	int err;

	if (options->kind != OPTIONS_UNSET)
		t.request.kind = (enum wait_kind)(WAIT_GUEST + options->kind);
	t.file = fopen(options->trace, "we");
	if (!t.file)
		return say_error(options, -errno, "%s", options->trace);
	err = record(&t);
	if (fclose(t.file) && err == 0)
		err = say_error(options, -errno, "%s", options->trace);
	if (err < 0)
		return err;
	printf("%" PRIu64 " waits recorded, %" PRIu64 " lost\n", t.waits,
	       t.lost);
	return 0;
}
