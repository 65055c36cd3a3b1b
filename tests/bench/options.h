/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines from one table: parsing and --help cannot drift.
 *
 * A row names an option and who turns its text into a field of the caller's
 * structure.  Knows no option of any program.  Complains on stderr, in one
 * line.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct option_row {
	char letter; /* 'p' for -p, 0 for none */
	const char *name; /* "rw" for --rw, NULL for none */
	const char *arg; /* what --help calls its argument, NULL: a switch */
	const char *help; /* lines after a \n are indented */
	/* Returns 0, or -EINVAL and says in @why what is wrong. */
	int (*set)(void *field, const char *text, const char **why);
	size_t offset; /* of the field */
};

struct option_table {
	const char *program;
	const char *usage; /* what follows the program's name */
	const char *about;
	const struct option_row *rows;
	size_t nr_rows;
};

/*
 * Fill @target.  Returns 0, 1 if --help was printed, or -EINVAL after a
 * complaint; arguments that are no options are refused.
 */
int options_parse(const struct option_table *table, int argc, char **argv,
		  void *target);

void options_help(const struct option_table *table);

/* Fields: bool, uint64_t bytes, uint64_t ns, uint32_t, const char *. */
int option_flag(void *field, const char *text, const char **why);
int option_bytes(void *field, const char *text, const char **why);
int option_seconds(void *field, const char *text, const char **why);
int option_microseconds(void *field, const char *text, const char **why);
int option_number(void *field, const char *text, const char **why);
int option_text(void *field, const char *text, const char **why);

/* "4k", "256m", "1g", "512": bytes.  0 or -EINVAL, -ERANGE. */
int option_parse_bytes(const char *text, uint64_t *out);

/*
 * "100us", "3ms", "2s", "50ns", or a bare number of @unit_ns; decimals are
 * fine.  0 or -EINVAL, -ERANGE.
 */
int option_parse_time(const char *text, uint64_t unit_ns, uint64_t *out_ns);
