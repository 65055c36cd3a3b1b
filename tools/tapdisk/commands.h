/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a tapdisk does when it is told to: one disk, the commands for it, and
 * their order.  What changes the disk is done one command at a time, first
 * come first served; what only looks is answered at once, and so is a forced
 * close.  Main thread only.  Logs refusals, rate-limited.
 */
#pragma once

#include <stdbool.h>

struct loop;
struct commands;

/*
 * Listen for commands at @path.  @left is called once, when the process has
 * nothing more to do: its disk was detached, or commands_shutdown is through.
 * Logs.  -ENOMEM, -errno.
 */
int commands_open(struct loop *loop, const char *path, void (*left)(void *arg),
		  void *arg, struct commands **out);

/* Only after @left was called, or before any command came. */
void commands_close(struct commands *commands);

/*
 * Whether the disk was detached before its I/O was over: then its threads still
 * use what is theirs, and the process must end without freeing any of it.
 */
bool commands_left_io(const struct commands *commands);

/* Close and detach the disk after all that was asked before, then leave. */
void commands_shutdown(struct commands *commands);

/* Every ring polls for one window from now on. */
void commands_poll_now(const struct commands *commands);

/* The process dies now: nothing of the disk stays on the host. */
void commands_die(const struct commands *commands);

/* What the disk is doing, into the log. */
void commands_dump(const struct commands *commands);
