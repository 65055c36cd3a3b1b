/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * getopt_long(3) fed from the tables, and a strict reading of the values: a
 * number is decimal digits within its range and nothing else.
 */
#include "tools/tap-ctl/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "tools/tap-ctl/say.h"

#define OPTIONS_MAX 16
#define HELP_WIDTH 30

static const struct option_def help = {
	.letter = 'h',
	.name = "help",
	.kind = OPTION_FLAG,
	.help = "print this",
};

static unsigned count(const struct option_use *uses)
{
	unsigned n = 0;

	while (uses[n].def)
		n++;
	return n;
}

/* "-p PID", "--port N", "-f". */
static int write_short(char *out, size_t size, const struct option_def *def)
{
	const char *space = def->argument ? " " : "";
	const char *argument = def->argument ? def->argument : "";

	if (def->letter)
		return snprintf(out, size, "-%c%s%s", def->letter, space,
				argument);
	return snprintf(out, size, "--%s%s%s", def->name, space, argument);
}

void options_usage(const struct command *command, FILE *to)
{
	char word[128];

	fprintf(to, "usage: tap-ctl %s", command->name);
	for (const struct option_use *use = command->options; use->def; use++) {
		write_short(word, sizeof(word), use->def);
		fprintf(to, use->required ? " %s" : " [%s]", word);
	}
	fprintf(to, "\n");
}

static void print_option(const struct option_def *def)
{
	char letter[] = "    ", left[128];

	if (def->letter)
		snprintf(letter, sizeof(letter), "-%c, ", def->letter);
	snprintf(left, sizeof(left), "%s--%s%s%s", letter, def->name,
		 def->argument ? " " : "", def->argument ? def->argument : "");
	if (strlen(left) >= HELP_WIDTH)
		printf("  %s\n  %-*s%s\n", left, HELP_WIDTH, "", def->help);
	else
		printf("  %-*s%s\n", HELP_WIDTH, left, def->help);
}

static void print_help(const struct command *command)
{
	options_usage(command, stdout);
	printf("\n%s\n\n", command->summary);
	for (const struct option_use *use = command->options; use->def; use++)
		print_option(use->def);
	print_option(&help);
}

static int read_number(const char *text, int64_t min, int64_t max, int64_t *out)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (*end || errno || n > INT64_MAX)
		return -EINVAL;
	if ((int64_t)n < min || (int64_t)n > max)
		return -EINVAL;
	*out = (int64_t)n;
	return 0;
}

static int read_word(const char *text, const char *const *words, int64_t *out)
{
	for (int64_t i = 0; words[i]; i++) {
		if (!strcmp(text, words[i])) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int store(const struct option_def *def, const char *text,
		 struct options *out)
{
	char *at = (char *)out + def->at;

	switch (def->kind) {
	case OPTION_FLAG:
		*(bool *)at = true;
		return 0;
	case OPTION_NUMBER:
		if (read_number(text, def->min, def->max, (int64_t *)at) == 0)
			return 0;
		return say_error(out, -EINVAL,
				 "--%s %s: not a number from %" PRId64
				 " to %" PRId64,
				 def->name, text, def->min, def->max);
	case OPTION_TEXT:
		*(const char **)at = text;
		return 0;
	case OPTION_WORD:
		if (read_word(text, def->words, (int64_t *)at) == 0)
			return 0;
		return say_error(out, -EINVAL, "--%s %s: not %s", def->name,
				 text, def->argument);
	}
	return -EINVAL;
}

static void clear(struct options *out, const char *command)
{
	memset(out, 0, sizeof(*out));
	out->command = command;
	out->pid = out->minor = out->parent_minor = OPTIONS_UNSET;
	out->timeout_s = out->request_timeout_s = OPTIONS_UNSET;
	out->domid = out->devid = out->port = OPTIONS_UNSET;
	out->duration_us = out->idle_threshold = OPTIONS_UNSET;
	out->cap = out->seconds = OPTIONS_UNSET;
	out->mode = out->align = out->protocol = OPTIONS_UNSET;
	out->sync = out->kind = OPTIONS_UNSET;
}

/* For getopt_long: val is the option's place in the table, from 1. */
static void list_options(const struct option_use *uses, char *letters,
			 struct option *longs)
{
	unsigned n = count(uses);

	*letters++ = ':'; /* we print what is wrong */
	for (unsigned i = 0; i <= n; i++) {
		const struct option_def *def = i < n ? uses[i].def : &help;

		if (def->letter)
			*letters++ = def->letter;
		if (def->letter && def->argument)
			*letters++ = ':';
		longs[i] = (struct option){
			.name = def->name,
			.has_arg =
				def->argument ? required_argument : no_argument,
			.val = (int)i + 1,
		};
	}
	*letters = '\0';
	longs[n + 1] = (struct option){ 0 };
}

/* The place that getopt_long's answer means, or -1. */
static int find_place(const struct option_use *uses, int got)
{
	int n = (int)count(uses);

	if (got >= 1 && got <= n + 1)
		return got - 1;
	for (int i = 0; i < n; i++)
		if (uses[i].def->letter == got)
			return i;
	return got == help.letter ? n : -1;
}

static int misuse(const struct command *command, const struct options *out,
		  const char *what, const char *which)
{
	options_usage(command, stderr);
	return say_error(out, -EINVAL, "%s%s", what, which);
}

/* The option getopt_long stumbled over. */
static int misuse_option(const struct command *command,
			 const struct options *out, const char *what,
			 const char *word)
{
	char letter[] = "-?";

	/* one of several behind one dash, or the first of its kind */
	if (optopt > 0 && isgraph(optopt)) {
		letter[1] = (char)optopt;
		word = letter;
	}
	return misuse(command, out, what, word);
}

static int check_all(const struct command *command, int seen, char **rest,
		     const struct options *out)
{
	char word[128];

	if (command->ours && *rest)
		return misuse(command, out, "unexpected ", *rest);
	for (int i = 0; command->options[i].def; i++) {
		if (!command->options[i].required || (seen & 1 << i))
			continue;
		write_short(word, sizeof(word), command->options[i].def);
		return misuse(command, out, "missing ", word);
	}
	return 0;
}

int options_parse(const struct command *command, int argc, char **argv,
		  struct options *out)
{
	struct option longs[OPTIONS_MAX + 2];
	char letters[2 * OPTIONS_MAX + 4];
	const struct option_use *uses = command->options;
	int got, place, err, seen = 0;

	assert(count(uses) <= OPTIONS_MAX);
	clear(out, command->name);
	list_options(uses, letters, longs);
	optind = 0; /* glibc: start over */
	for (;;) {
		got = getopt_long(argc, argv, letters, longs, NULL);
		if (got == -1)
			return check_all(command, seen, argv + optind, out);
		if (got == ':')
			return misuse_option(command, out, "missing value of ",
					     argv[optind - 1]);
		place = find_place(uses, got);
		if (place < 0)
			return misuse_option(command, out, "no such option: ",
					     argv[optind - 1]);
		if (!uses[place].def) {
			print_help(command);
			return 1;
		}
		err = store(uses[place].def, optarg, out);
		if (err < 0)
			return err;
		seen |= 1 << place;
	}
}
