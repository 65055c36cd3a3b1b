/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an operator reads: one line an event, to syslog and to a file of our
 * own.
 *
 * Any thread may log.  A call formats, sends a datagram that may be dropped
 * and queues the line in memory; it never waits for a disk or for syslogd.
 * The main thread empties the queue into the file (log_drain).  Before
 * log_open, and in programs without it, lines go to stderr.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Start logging as @ident ("tapdisk[123]").  @syslog_fd is a datagram socket
 * connected to /dev/log, @file_fd a file opened for append, each -1 for none;
 * both belong to the log from here on.  @echo also prints to stderr.  This and
 * log_close: main thread, while no other thread logs.
 *
 * Returns 0, or -errno if the wake-up descriptor cannot be made.
 */
int log_open(const char *ident, int syslog_fd, int file_fd, bool echo);

/* Write out what is queued, close the descriptors, go back to stderr. */
void log_close(void);

/* Readable while lines are queued.  -1 before log_open. */
int log_fd(void);

/* Main thread: write the queued lines to the file.  May wait for the disk. */
void log_drain(void);

/* Main thread: continue in @file_fd (a rotated file), which the log owns. */
void log_reopen(int file_fd);

/* The number of lines logged at error level since log_open. */
uint64_t log_errors(void);

void log_err(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Goes to the file and to stderr only, never to syslog. */
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * For lines a guest, a client or an image can cause: at most 16 in 90 seconds
 * for each limit.  Zeroed is ready to use.  One thread at a time.
 */
struct log_limit {
	uint64_t since_ns;
	uint32_t lines;
	uint32_t dropped; /* not said since the window opened */
};

/*
 * True if a line may be logged now.  The first call of a new window says how
 * many lines the last one swallowed, naming @who.
 */
bool log_allow(struct log_limit *limit, const char *who);
