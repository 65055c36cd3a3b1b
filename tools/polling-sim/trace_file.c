/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recorded traces as text: a gap in ns and the operation before it, by line.
 * Believes nothing that it reads.
 */
#include "tools/polling-sim/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GAP_MAX_NS 1e15 /* eleven days */

static const char *const ops[TRACE_OPS] = { "read", "write", "flush" };

/* 1: a step; 0: a line without one; or -EINVAL. */
static int parse(char *text, struct trace_step *step)
{
	char *word, *end, *rest = NULL;
	unsigned op;

	text[strcspn(text, "#")] = '\0';
	word = strtok_r(text, " \t\r\n", &rest);
	if (!word)
		return 0;
	step->ns = (double)strtoull(word, &end, 10);
	if (end == word || *end || word[0] == '-' || step->ns > GAP_MAX_NS)
		return -EINVAL;
	step->op = 0;
	word = strtok_r(NULL, " \t\r\n", &rest);
	if (!word)
		return 1;
	for (op = 0; op < TRACE_OPS; op++) {
		if ((word[0] | 0x20) == ops[op][0]) {
			step->op = op;
			return 1;
		}
	}
	return -EINVAL;
}

static int append(struct trace *t, struct trace_step step)
{
	struct trace_step *steps;
	size_t size = t->size ? 2 * t->size : 1024;

	if (t->nr_steps == t->size) {
		steps = realloc(t->steps, size * sizeof(*steps));
		if (!steps)
			return -ENOMEM;
		t->steps = steps;
		t->size = size;
	}
	t->steps[t->nr_steps++] = step;
	return 0;
}

int trace_load(const char *path, struct trace *out, unsigned *line)
{
	struct trace t = { .name = path, .kind = TRACE_FILE };
	struct trace_step step;
	size_t size = 0;
	char *text = NULL;
	FILE *file;
	int err = 0;

	*line = 0;
	file = fopen(path, "re");
	if (!file)
		return -errno;
	errno = 0;
	while (!err && getline(&text, &size, file) >= 0) {
		++*line;
		err = parse(text, &step);
		if (err > 0)
			err = append(&t, step);
	}
	if (!err && ferror(file))
		err = errno ? -errno : -EIO;
	if (!err && !t.nr_steps)
		err = -ENODATA;
	free(text);
	fclose(file);
	if (err) {
		trace_free(&t);
		return err;
	}
	t.size = t.nr_steps;
	*out = t;
	return 0;
}

void trace_print(const struct trace *t, FILE *file)
{
	size_t i;

	for (i = 0; i < t->nr_steps; i++)
		fprintf(file, "%.0f %s\n", t->steps[i].ns, ops[t->steps[i].op]);
}
