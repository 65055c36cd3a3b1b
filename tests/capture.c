/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Readers of tests/data/wire.  The tests run in the root of the tree.
 */
#include "tests/capture.h"

#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY "tests/data/wire/"

static FILE *open_file(const char *name)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), DIRECTORY "%s", name);
	file = fopen(path, "r");
	ck_assert_msg(file != NULL, "%s: cannot open", path);
	return file;
}

unsigned char *capture_bytes(const char *name, size_t *size)
{
	FILE *file = open_file(name);
	unsigned char *bytes = malloc(1 << 16);
	unsigned byte;

	*size = 0;
	while (*size < 1 << 16 && fscanf(file, " %2x", &byte) == 1)
		bytes[(*size)++] = (unsigned char)byte;
	ck_assert_msg(feof(file), "%s: not a hex dump", name);
	fclose(file);
	return bytes;
}

static void parse_line(char *line, struct capture *out)
{
	char *field[7];
	unsigned n = 0;

	memset(out, 0, sizeof(*out));
	while (n < 7 && line)
		field[n++] = strsep(&line, "\t");
	ck_assert_uint_eq(n, 7);
	snprintf(out->name, sizeof(out->name), "%s", field[0]);
	out->request_type = (unsigned)atoi(field[1]);
	out->request_cookie = (unsigned)atoi(field[2]);
	out->request_size = (size_t)atoi(field[3]);
	snprintf(out->reply, sizeof(out->reply), "%s", field[4]);
	sscanf(out->reply, "ERROR %d", &out->reply_error);
	out->reply_size = (size_t)atoi(field[6]);
}

struct capture *capture_index(size_t *nr)
{
	FILE *file = open_file("index.tsv");
	struct capture *captures = calloc(256, sizeof(*captures));
	char line[1024];

	*nr = 0;
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), file)); /* heading */
	while (*nr < 256 && fgets(line, sizeof(line), file))
		parse_line(line, &captures[(*nr)++]);
	fclose(file);
	return captures;
}
