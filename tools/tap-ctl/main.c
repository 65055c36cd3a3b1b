/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl: control tapdisks.
 *
 * What is printed on stdout and the exit status are an interface that xapi's
 * storage manager and others are written against: see tap-ctl(8).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/dialect.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"

/* Also for a command we do not know, with success: callers count on it. */
static int print_commands(void)
{
	const struct command *command;

	printf("usage: tap-ctl COMMAND [OPTIONS]\n"
	       "COMMAND := {");
	for (command = commands_table; command->name; command++)
		printf("%s %s", command == commands_table ? "" : " |",
		       command->name);
	printf(" }\n\n");
	for (command = commands_table; command->name; command++)
		printf("  %-12s%s\n", command->name, command->summary);
	printf("\n\"tap-ctl COMMAND --help\" describes a command.\n");
	return 0;
}

static const struct command *find_command(const char *word)
{
	const struct command *command;

	for (command = commands_table; word && command->name; command++)
		if (!strcmp(word, command->name))
			return command;
	if (!word || !dialect_is_xcp_ng())
		return NULL;
	for (command = dialect_commands; command->name; command++)
		if (!strcmp(word, command->name))
			return command;
	return NULL;
}

/* "--debug" anywhere means nothing any more, but callers may still say it. */
static int strip_debug(int argc, char **argv)
{
	int kept = 0;

	for (int i = 0; i < argc; i++)
		if (i == 0 || strcmp(argv[i], "--debug"))
			argv[kept++] = argv[i];
	argv[kept] = NULL;
	return kept;
}

/* So that no file or socket of ours becomes stdin, stdout or stderr. */
static void fill_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	const struct command *command;
	struct options options;
	int err;

	fill_standard_files();
	argc = strip_debug(argc, argv);
	command = find_command(argc > 1 ? argv[1] : NULL);
	if (!command)
		return print_commands();
	options = (struct options){ .command = command->name };
	err = 0;
	if (command->options)
		err = options_parse(command, argc - 1, argv + 1, &options);
	if (err == 0)
		err = command->run(&options);
	if (fflush(stdout) && err >= 0)
		err = say_error(&options, -errno, "stdout");
	return err < 0 ? -err : 0;
}
