/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines from one table; see options.h.
 */
#include "tests/bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 32
#define OPTION_HELP 255
#define OPTION_FIRST 256 /* getopt's value of the first row */

static void print_row(const struct option_row *row)
{
	char left[40];
	const char *line = row->help, *end;

	snprintf(left, sizeof(left), "%s%c%s%s%s%s%s", row->letter ? "-" : "",
		 row->letter ? row->letter : ' ',
		 row->letter && row->name ? ", " : "", row->name ? "--" : "",
		 row->name ? row->name : "", row->arg ? " " : "",
		 row->arg ? row->arg : "");
	printf("  %-26s ", row->letter ? left : left + 1);
	while ((end = strchr(line, '\n')) != NULL) {
		printf("%.*s\n%29s", (int)(end - line), line, "");
		line = end + 1;
	}
	printf("%s\n", line);
}

void options_help(const struct option_table *table)
{
	size_t i;

	printf("usage: %s %s\n\n%s\n\n", table->program, table->usage,
	       table->about);
	for (i = 0; i < table->nr_rows; i++)
		print_row(&table->rows[i]);
	printf("  %-26s this text\n", "-h, --help");
}

static void fill_getopt(const struct option_table *table, char *letters,
			struct option *longs)
{
	size_t i;

	*letters++ = ':'; /* a missing argument is ':', not '?' */
	*letters++ = 'h';
	for (i = 0; i < table->nr_rows; i++) {
		const struct option_row *row = &table->rows[i];

		if (row->letter) {
			*letters++ = row->letter;
			if (row->arg)
				*letters++ = ':';
		}
		if (row->name)
			*longs++ = (struct option){
				.name = row->name,
				.has_arg = row->arg ? required_argument
						    : no_argument,
				.val = OPTION_FIRST + (int)i,
			};
	}
	*letters = 0;
	*longs++ = (struct option){ .name = "help", .val = OPTION_HELP };
	*longs = (struct option){ 0 };
}

/* @value is one that fill_getopt gave away. */
static const struct option_row *find_row(const struct option_table *table,
					 int value)
{
	size_t i = 0;

	if (value >= OPTION_FIRST)
		return &table->rows[value - OPTION_FIRST];
	while (table->rows[i].letter != value)
		i++;
	return &table->rows[i];
}

static int apply(const struct option_table *table, const struct option_row *row,
		 void *target)
{
	const char *why = "not understood";
	int err = row->set((char *)target + row->offset, optarg, &why);

	if (err && row->name)
		fprintf(stderr, "%s: --%s: %s: %s\n", table->program, row->name,
			optarg, why);
	else if (err)
		fprintf(stderr, "%s: -%c: %s: %s\n", table->program,
			row->letter, optarg, why);
	return err;
}

static int misuse(const struct option_table *table, const char *object,
		  const char *why)
{
	fprintf(stderr, "%s: %s: %s; try --help\n", table->program, object,
		why);
	return -EINVAL;
}

int options_parse(const struct option_table *table, int argc, char **argv,
		  void *target)
{
	struct option longs[OPTIONS_MAX + 2];
	char letters[2 * OPTIONS_MAX + 3];
	int value, err;

	fill_getopt(table, letters, longs);
	optind = 0; /* glibc: start over, options_parse may be called again */
	opterr = 0;
	while ((value = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		switch (value) {
		case 'h':
		case OPTION_HELP:
			options_help(table);
			return 1;
		case '?':
			return misuse(table, argv[optind - 1],
				      "no such option");
		case ':':
			return misuse(table, argv[optind - 1],
				      "its argument is missing");
		default:
			err = apply(table, find_row(table, value), target);
			if (err)
				return err;
		}
	}
	if (optind < argc)
		return misuse(table, argv[optind], "not an option");
	return 0;
}

/* Split "12.5us" into 12.5 and "us". */
static int parse_scaled(const char *text, double *number, const char **suffix)
{
	char *end;

	if (!strchr("0123456789.", text[0]) || !text[0])
		return -EINVAL;
	*number = strtod(text, &end);
	if (end == text || !isfinite(*number))
		return -EINVAL;
	*suffix = end;
	return 0;
}

static int scale(double number, double factor, uint64_t *out)
{
	if (number * factor >= 9e18)
		return -ERANGE;
	*out = (uint64_t)llround(number * factor);
	return 0;
}

int option_parse_bytes(const char *text, uint64_t *out)
{
	static const char units[] = "kmgt";
	const char *suffix, *unit;
	double number, factor = 1;
	int err;

	err = parse_scaled(text, &number, &suffix);
	if (err)
		return err;
	if (*suffix) {
		unit = strchr(units, *suffix | 0x20); /* K or k */
		if (!unit || suffix[1])
			return -EINVAL;
		factor = (double)(UINT64_C(1024) << (10 * (unit - units)));
	}
	return scale(number, factor, out);
}

int option_parse_time(const char *text, uint64_t unit_ns, uint64_t *out_ns)
{
	static const struct {
		const char *suffix;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	const char *suffix;
	double number;
	size_t i;
	int err;

	err = parse_scaled(text, &number, &suffix);
	if (err)
		return err;
	if (!*suffix)
		return scale(number, (double)unit_ns, out_ns);
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(suffix, units[i].suffix) == 0)
			return scale(number, units[i].ns, out_ns);
	return -EINVAL;
}

int option_flag(void *field, const char *text, const char **why)
{
	(void)text;
	(void)why;
	*(bool *)field = true;
	return 0;
}

int option_bytes(void *field, const char *text, const char **why)
{
	*why = "not a size such as 4k or 256m";
	return option_parse_bytes(text, field) ? -EINVAL : 0;
}

int option_seconds(void *field, const char *text, const char **why)
{
	*why = "not a time such as 2 (seconds) or 500ms";
	return option_parse_time(text, 1000000000, field) ? -EINVAL : 0;
}

int option_microseconds(void *field, const char *text, const char **why)
{
	*why = "not a time such as 100 (microseconds) or 2ms";
	return option_parse_time(text, 1000, field) ? -EINVAL : 0;
}

int option_number(void *field, const char *text, const char **why)
{
	unsigned long value;
	char *end;

	*why = "not a number from 0 to 4294967295";
	if (!strchr("0123456789", text[0]) || !text[0])
		return -EINVAL;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value > UINT32_MAX)
		return -EINVAL;
	*(uint32_t *)field = (uint32_t)value;
	return 0;
}

int option_text(void *field, const char *text, const char **why)
{
	(void)why;
	*(const char **)field = text;
	return 0;
}
