/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of commands, and the end of the process.  What each command does
 * stands in command_upstream.c and command_json.c.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <json-c/json.h>
#include "poll/log.h"
#include "poll/loop.h"
#include "tools/ctl/messages.h"
#include "tools/tapdisk/command.h"
#include "tools/tapdisk/commands.h"
#include "tools/tapdisk/control.h"

#define WAITING_MAX 16 /* a disk that is stuck must not collect callers */

struct commands {
	struct control *control;
	struct command_disk disk;
	struct command *first, **last; /* waiting for their turn */
	unsigned waiting;
	unsigned running; /* not counting COMMAND_NOW */
	struct loop_defer next;
	struct log_limit refusals;
	bool had_disk; /* or was told to end: leave when there is none */
	void (*left)(void *arg);
	void *left_arg;
};

struct vbd *command_vbd(const struct command *command)
{
	struct vbd *vbd = command->disk->vbd;

	if (vbd && command->message &&
	    command->message->cookie != vbd_minor(vbd))
		return NULL;
	return vbd;
}

bool command_may_log(struct command *command)
{
	return log_allow(&command->commands->refusals, "commands");
}

/* With the last disk goes the process, and its name before the answer. */
static void leave_if_empty(struct commands *commands)
{
	if (commands->disk.vbd)
		commands->had_disk = true;
	if (commands->disk.vbd || !commands->had_disk || commands->disk.left)
		return;
	commands->disk.left = true;
	control_stop(commands->control);
	control_when_idle(commands->control, commands->left,
			  commands->left_arg);
}

static void end(struct command *command)
{
	struct commands *commands = command->commands;

	if (command->kind->turn != COMMAND_NOW) {
		commands->running--;
		/* Not from here: the vbd may be in the middle of something. */
		loop_defer(commands->disk.loop, &commands->next);
	}
	free(command);
}

void command_answer(struct command *command, const void *bytes, size_t len)
{
	leave_if_empty(command->commands);
	if (command->client)
		control_reply(command->client, bytes, len);
	end(command);
}

static void head(const struct command *command, uint16_t type,
		 struct wire_message *out)
{
	memset(out, 0, sizeof(*out));
	out->type = type;
	if (command->message)
		out->cookie = command->message->cookie;
}

void command_answer_plain(struct command *command, uint16_t type)
{
	struct wire_message m;

	head(command, type, &m);
	command_answer(command, &m, sizeof(m));
}

void command_answer_json(struct command *command, uint16_t type,
			 struct json_object *json, int json_flags)
{
	const char *text = json_object_to_json_string_ext(json, json_flags);
	size_t len = strlen(text);
	struct wire_message *m = malloc(sizeof(*m) + len);

	if (!m) {
		json_object_put(json);
		command_fail(command, -ENOMEM);
		return;
	}
	head(command, type, m);
	m->u.info.length = len;
	memcpy(m + 1, text, len);
	json_object_put(json);
	command_answer(command, m, sizeof(*m) + len);
	free(m);
}

void command_answer_and_keep(struct command *command, uint16_t type)
{
	struct wire_message m;
	int err;

	head(command, type, &m);
	err = control_reply_and_keep(command->client, &m, sizeof(m));
	if (err < 0)
		command_fail(command, err);
	else
		end(command);
}

void command_fail(struct command *command, int err)
{
	struct wire_message m;

	if (!command->client && err != -ENODEV)
		log_err("commands: %s before the end: %s",
			wire_type_name(command->kind->type), strerror(-err));
	head(command, WIRE_ERROR, &m);
	m.u.response.error = -err;
	command_answer(command, &m, sizeof(m));
}

static bool may_run(const struct commands *commands,
		    const struct command_kind *kind)
{
	return kind->turn != COMMAND_ALONE || commands->running == 0;
}

static void run(struct command *command)
{
	if (command->kind->turn != COMMAND_NOW)
		command->commands->running++;
	command->kind->run(command);
}

static void run_waiting(void *arg)
{
	struct commands *commands = arg;
	struct command *command = commands->first;

	while (command && may_run(commands, command->kind)) {
		commands->first = command->next;
		if (!commands->first)
			commands->last = &commands->first;
		commands->waiting--;
		run(command);
		command = commands->first;
	}
}

static void start(struct command *command)
{
	struct commands *commands = command->commands;

	if (command->kind->turn == COMMAND_NOW ||
	    (!commands->first && may_run(commands, command->kind))) {
		run(command);
		return;
	}
	*commands->last = command;
	commands->last = &command->next;
	commands->waiting++;
}

static struct command *create(struct commands *commands,
			      const struct command_kind *kind,
			      struct control_client *client)
{
	struct command *command = calloc(1, sizeof(*command));

	if (!command)
		return NULL;
	command->commands = commands;
	command->kind = kind;
	command->disk = &commands->disk;
	command->client = client;
	if (client) {
		command->request = control_request(client);
		command->message = &command->request->message;
	}
	return command;
}

static const struct command_kind *find_kind(uint16_t type)
{
	const struct command_kind *kind = type < WIRE_CONNECT
						  ? command_upstream_kinds
						  : command_json_kinds;

	while (kind->type && kind->type != type)
		kind++;
	return kind->type ? kind : NULL;
}

static void refuse(struct control_client *client, uint16_t cookie, int err)
{
	struct wire_message m = { .type = WIRE_ERROR, .cookie = cookie };

	m.u.response.error = -err;
	control_reply(client, &m, sizeof(m));
}

static void requested(void *arg, struct control_client *client)
{
	struct commands *commands = arg;
	const struct wire_message *m = &control_request(client)->message;
	const struct command_kind *kind = find_kind(m->type);
	struct command *command;

	if (!kind) {
		if (log_allow(&commands->refusals, "commands"))
			log_warn("commands: nothing to do for message %u (%s)",
				 m->type, wire_type_name(m->type));
		refuse(client, 0, -EINVAL); /* cookie 0 as upstream's */
		return;
	}
	if (kind->turn != COMMAND_NOW && commands->waiting >= WAITING_MAX) {
		if (log_allow(&commands->refusals, "commands"))
			log_warn("commands: %s: %u commands wait already",
				 wire_type_name(m->type), commands->waiting);
		refuse(client, m->cookie, -EBUSY);
		return;
	}
	command = create(commands, kind, client);
	if (!command) {
		refuse(client, m->cookie, -ENOMEM);
		return;
	}
	start(command);
}

static void disk_event(void *arg, enum vbd_event event)
{
	struct commands *commands = arg;
	struct json_object *json = messages_event(event);
	char line[256];
	int len;

	len = snprintf(line, sizeof(line), "%s\n",
		       json_object_to_json_string_ext(json,
						      JSON_C_TO_STRING_PLAIN));
	json_object_put(json);
	assert(len > 0 && (size_t)len < sizeof(line));
	control_broadcast(commands->control, line, (size_t)len);
}

int commands_open(struct loop *loop, const char *path, void (*left)(void *arg),
		  void *arg, struct commands **out)
{
	struct commands *commands = calloc(1, sizeof(*commands));
	const struct control_handler handler = { requested, commands };
	int err;

	if (!commands)
		return -ENOMEM;
	commands->disk.loop = loop;
	commands->disk.listener.fn = disk_event;
	commands->disk.listener.arg = commands;
	commands->last = &commands->first;
	commands->next.fn = run_waiting;
	commands->next.arg = commands;
	commands->left = left;
	commands->left_arg = arg;
	err = control_open(loop, path, &handler, &commands->control);
	if (err < 0) {
		free(commands);
		return err;
	}
	*out = commands;
	return 0;
}

void commands_close(struct commands *commands)
{
	assert(!commands->disk.vbd && !commands->first);
	loop_defer_cancel(commands->disk.loop, &commands->next);
	control_close(commands->control);
	free(commands);
}

bool commands_left_io(const struct commands *commands)
{
	return commands->disk.left_behind;
}

void commands_shutdown(struct commands *commands)
{
	const struct command_kind *kind;
	struct command *command;

	commands->had_disk = true;
	for (kind = command_shutdown_kinds; kind->type; kind++) {
		command = create(commands, kind, NULL);
		if (!command) {
			log_err("commands: no memory to shut down");
			return;
		}
		start(command);
	}
}

void commands_poll_now(const struct commands *commands)
{
	if (commands->disk.vbd)
		vbd_poll_now(commands->disk.vbd);
}

void commands_die(const struct commands *commands)
{
	if (commands->disk.vbd)
		vbd_leave_host(commands->disk.vbd);
}

void commands_dump(const struct commands *commands)
{
	log_info("commands: %u running, %u waiting", commands->running,
		 commands->waiting);
	if (commands->disk.vbd)
		vbd_dump(commands->disk.vbd);
	else
		log_info("commands: no disk is attached");
}
