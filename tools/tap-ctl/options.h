/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines: tables of what a command takes, and the one reader and the one
 * usage text for all of them.  Knows kinds of values, not what they are for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define OPTIONS_UNSET (-1)
#define OPTIONS_TIMEOUT_MAX_S 2000000

/* Everything that any command can be told. */
struct options {
	const char *command; /* for error lines */
	int64_t pid, minor, parent_minor; /* numbers: OPTIONS_UNSET */
	int64_t timeout_s, request_timeout_s;
	int64_t domid, devid, port;
	int64_t duration_us, idle_threshold, cap, seconds;
	/* index into the option's words */
	int64_t mode, align, sync, kind, protocol;
	const char *image, *secondary, *log, *name; /* texts: NULL */
	const char *type, *file, *ring_refs, *guest, *plot, *trace;
	bool read_only, local_cache, standby, buffered, encrypted, force, json;
	bool watch, advise;
};

enum option_kind { OPTION_FLAG, OPTION_NUMBER, OPTION_TEXT, OPTION_WORD };

struct option_def {
	char letter; /* 0: only the long name */
	const char *name;
	enum option_kind kind;
	size_t at; /* offset in struct options */
	const char *argument; /* how usage calls it; not for flags */
	const char *help;
	int64_t min, max; /* numbers */
	const char *const *words; /* ended by NULL */
};

/* One option of one command.  A table ends with a NULL def. */
struct option_use {
	const struct option_def *def;
	bool required;
};

struct command {
	const char *name;
	const char *summary;
	const struct option_use *options; /* NULL: arguments are not read */
	/*
	 * Upstream ignores operands ("allocate foo" allocates), so these have
	 * to; a command of our own refuses them.
	 */
	bool ours;
	/* 0 or -errno, and then it has said why (say_error). */
	int (*run)(const struct options *options);
};

/*
 * Read @argv, whose first element is the command's name.  Returns 0; 1 if help
 * was asked for and printed; -EINVAL, said on stderr with the usage.
 */
int options_parse(const struct command *command, int argc, char **argv,
		  struct options *out);

/* "usage: tap-ctl close -p PID -m MINOR [-f] [-t SECONDS]". */
void options_usage(const struct command *command, FILE *to);
