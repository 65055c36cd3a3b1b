/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters to one thread: a lock-free stack that the receiver turns round, and
 * an eventfd that is written at most once a sleep.  It knows nothing of what
 * the letters say, of threads, or of how the receiver waits.
 *
 * Who moves box->armed:
 *
 *	AWAKE -> ARMED	mailbox_arm
 *	ARMED -> AWAKE	mailbox_disarm
 *	ARMED -> RUNG	a sender, who then writes to the eventfd
 *	RUNG -> AWAKE	the receiver, once it has read what that sender wrote
 *
 * So RUNG means that the eventfd is readable or surely will be, even if its
 * writer lost the CPU just before writing, and in every other state it is
 * empty.  That spares the receiver a system call to find out.
 */
#include "poll/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum armed {
	AWAKE,
	ARMED,
	RUNG,
};

int mailbox_init(struct mailbox *box)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	*box = (struct mailbox){ .armed = AWAKE, .fd = fd };
	return 0;
}

void mailbox_fini(struct mailbox *box)
{
	assert(!box->newest);
	close(box->fd);
	box->fd = -1;
}

void mailbox_post(struct mailbox *box, struct mail *mail)
{
	struct mail *newest = __atomic_load_n(&box->newest, __ATOMIC_RELAXED);
	uint32_t armed = ARMED;
	uint64_t one = 1;

	/*
	 * Sequentially consistent, as is the look at armed below: the letter
	 * is in the box before we look whether the receiver sleeps.  The other
	 * half is in mailbox_arm.
	 */
	do
		mail->next = newest;
	while (!__atomic_compare_exchange_n(&box->newest, &newest, mail, true,
					    __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED));
	/* @mail may be gone from here on */

	/* Release: who sees the word grow finds the letter in newest. */
	__atomic_fetch_add(&box->word, 1, __ATOMIC_RELEASE);

	if (__atomic_load_n(&box->armed, __ATOMIC_SEQ_CST) != ARMED ||
	    !__atomic_compare_exchange_n(&box->armed, &armed, RUNG, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	if (write(box->fd, &one, sizeof(one)) != sizeof(one))
		assert(!"an empty eventfd takes one");
}

/* If the eventfd was written, empty it. */
static void silence(struct mailbox *box)
{
	uint64_t count;

	/* No order needed: only we leave RUNG, and missing it is no harm. */
	if (__atomic_load_n(&box->armed, __ATOMIC_RELAXED) != RUNG)
		return;
	/* Its writer is not there yet: stay RUNG, it can still end a sleep. */
	if (read(box->fd, &count, sizeof(count)) != sizeof(count))
		return;
	__atomic_store_n(&box->armed, AWAKE, __ATOMIC_SEQ_CST);
}

unsigned mailbox_run(struct mailbox *box)
{
	struct mail *mail, *next, *oldest = NULL;
	unsigned count = 0;

	silence(box);
	if (!__atomic_load_n(&box->newest, __ATOMIC_RELAXED))
		return 0;

	/* Acquire: newest before what the sender wrote into its letter. */
	mail = __atomic_exchange_n(&box->newest, NULL, __ATOMIC_ACQUIRE);
	for (; mail; mail = next) {
		next = mail->next;
		mail->next = oldest;
		oldest = mail;
	}
	/* What these post is for the next run, or we might never come back. */
	for (mail = oldest; mail; mail = next) {
		next = mail->next;
		mail->fn(mail);
		count++;
	}
	return count;
}

bool mailbox_arm(struct mailbox *box)
{
	uint32_t armed = AWAKE;

	silence(box);
	/*
	 * Sequentially consistent both: armed is set before we look at newest,
	 * and a sender puts its letter into newest before it looks at armed.
	 * One of the two sees the other.  Already RUNG is as good: the sleep
	 * ends when that sender gets to its write.
	 */
	__atomic_compare_exchange_n(&box->armed, &armed, ARMED, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&box->newest, __ATOMIC_SEQ_CST))
		return false;
	mailbox_disarm(box);
	return true;
}

void mailbox_disarm(struct mailbox *box)
{
	uint32_t armed = ARMED;

	/* RUNG stays, until silence has read the eventfd. */
	__atomic_compare_exchange_n(&box->armed, &armed, AWAKE, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}
