/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One command being carried out: what the files with the handlers share with
 * commands.c, which decides when a command runs and sends its answer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "ring/vbd.h"
#include "tools/ctl/wire.h"
#include "tools/tapdisk/incoming.h"

struct command;
struct commands;
struct control_client;
struct json_object;
struct loop;

/* The one disk of this process. */
struct command_disk {
	struct loop *loop;
	struct vbd *vbd; /* NULL: none attached */
	unsigned driver_flags; /* of OPEN; RESUME opens with the same */
	bool left; /* the process is about to end: no new disk */
	bool left_behind; /* see commands_left_io */
	struct vbd_listener listener;
};

enum command_turn {
	COMMAND_NOW, /* only looks, or must always get through */
	COMMAND_BESIDE, /* beside a running one, but not past a waiting one */
	COMMAND_ALONE, /* after all that came before has been answered */
};

struct command_kind {
	uint16_t type; /* 0 ends a table */
	enum command_turn turn;
	/* Ends, now or later, in exactly one of the answers below. */
	void (*run)(struct command *command);
};

struct command {
	struct commands *commands;
	const struct command_kind *kind;
	struct command_disk *disk;
	struct control_client *client; /* NULL: a signal, nobody listens */
	const struct incoming *request; /* the client's, NULL likewise */
	const struct wire_message *message; /* the request's */
	struct vbd_reply reply; /* for a handler that waits for the vbd */
	struct command *next;
};

extern const struct command_kind command_upstream_kinds[]; /* 1 to 30 */
extern const struct command_kind command_json_kinds[]; /* 128 and up */
/* Close and detach, for a process that was told to end. */
extern const struct command_kind command_shutdown_kinds[];

/* The disk, if it has the minor that the message names; NULL. */
struct vbd *command_vbd(const struct command *command);

/* May this client fill the log?  Then say what is wrong. */
bool command_may_log(struct command *command);

/* Answer with @len bytes at @bytes.  @command is gone afterwards. */
void command_answer(struct command *command, const void *bytes, size_t len);

/* A message of @type with the cookie of the request and nothing else. */
void command_answer_plain(struct command *command, uint16_t type);

/* A message of @type, then @json, which is given away. */
void command_answer_json(struct command *command, uint16_t type,
			 struct json_object *json, int json_flags);

/* The message, and from then on every event of the disk. */
void command_answer_and_keep(struct command *command, uint16_t type);

/* ERROR with the negative errno @err. */
void command_fail(struct command *command, int err);
