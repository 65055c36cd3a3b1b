/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to one thread from any other: one word to watch while it spins, one
 * eventfd to sleep on.  Lock-free, never fails, never allocates: the sender
 * brings the envelope.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct mail {
	struct mail *next;
	void (*fn)(struct mail *mail); /* run by the receiver; may free it */
};

struct mailbox {
	uint32_t word; /* grows with every letter: watch it while spinning */
	uint32_t armed; /* mailbox's own: does the receiver sleep */
	struct mail *newest;
	int fd; /* readable if a letter came after mailbox_arm */
};

int mailbox_init(struct mailbox *box); /* 0 or -errno of eventfd */
void mailbox_fini(struct mailbox *box); /* must be empty */

/* Any thread.  @mail stays the sender's until the receiver runs mail->fn. */
void mailbox_post(struct mailbox *box, struct mail *mail);

/*
 * The receiver: run the letters that are there, oldest first; what they post
 * in turn waits for the next run.  Returns how many.  Without a letter no
 * system call.  A receiver that spins notes box->word before, not after.
 */
unsigned mailbox_run(struct mailbox *box);

/*
 * The receiver, before it sleeps on box->fd.  True: there is a letter, do not
 * sleep (and the box is not armed).
 */
bool mailbox_arm(struct mailbox *box);

/* The receiver, awake again: senders need not write to the eventfd. */
void mailbox_disarm(struct mailbox *box);
