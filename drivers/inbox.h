/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mailbox that is a source of its port's wait: how another thread (a
 * worker, another port's) hands something back to the thread of a port.
 * Never logs.
 */
#pragma once

#include "poll/mailbox.h"
#include "poll/wait.h"

struct inbox {
	struct mailbox box;
	struct wait_source source;
	struct wait *wait;
};

/* 0, -ENOSPC (too many sources), -errno of eventfd or epoll_ctl. */
int inbox_open(struct inbox *inbox, struct wait *wait);
/* Empty, and whoever posted to it has come back from mailbox_post. */
void inbox_close(struct inbox *inbox);

/* Run the letters.  Returns how many. */
unsigned inbox_turn(struct inbox *inbox);
