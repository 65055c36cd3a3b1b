/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See inbox.h.  Knows nothing of what the letters say.
 */
#include <sys/epoll.h>
#include "drivers/inbox.h"
#include "poll/clock.h"

static bool inbox_arm(void *arg)
{
	struct inbox *inbox = arg;

	return mailbox_arm(&inbox->box);
}

static void inbox_disarm(void *arg)
{
	struct inbox *inbox = arg;

	mailbox_disarm(&inbox->box);
}

int inbox_open(struct inbox *inbox, struct wait *wait)
{
	int err;

	err = mailbox_init(&inbox->box);
	if (err)
		return err;
	inbox->wait = wait;
	inbox->source = (struct wait_source){
		.arm = inbox_arm,
		.disarm = inbox_disarm,
		.arg = inbox,
		.due_ns = CLOCK_NEVER,
	};
	err = wait_add(wait, &inbox->source, &inbox->box.word);
	if (err)
		goto out;
	err = wait_add_fd(wait, &inbox->source, inbox->box.fd, EPOLLIN);
	if (err)
		wait_remove(wait, &inbox->source);
out:
	if (err)
		mailbox_fini(&inbox->box);
	return err;
}

void inbox_close(struct inbox *inbox)
{
	wait_remove_fd(inbox->wait, inbox->box.fd);
	wait_remove(inbox->wait, &inbox->source);
	mailbox_fini(&inbox->box);
}

unsigned inbox_turn(struct inbox *inbox)
{
	uint32_t seen;
	unsigned n;

	/* a letter that comes after this look is seen by the next wait */
	seen = __atomic_load_n(&inbox->box.word, __ATOMIC_ACQUIRE);
	n = mailbox_run(&inbox->box);
	wait_seen(inbox->wait, &inbox->source, seen);
	return n;
}
