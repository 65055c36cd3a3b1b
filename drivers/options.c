/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes and options of specs: see options.h.  Knows no filter's options, only
 * how they are written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "drivers/options.h"
#include "poll/log.h"

static const char *const op_names[NR_IO_OPS] = {
	[IO_READ] = "read",	      [IO_WRITE] = "write",
	[IO_FLUSH] = "flush",	      [IO_DISCARD] = "discard",
	[IO_WRITE_ZEROES] = "zeroes",
};

/* The digits at the start of @text; what follows them in @end. */
static int digits(const char *text, uint64_t *out, const char **end)
{
	uint64_t value = 0;

	*end = text;
	for (; **end >= '0' && **end <= '9'; ++*end)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, **end - '0', &value))
			return -EINVAL;
	*out = value;
	return *end == text ? -EINVAL : 0;
}

int options_number(const char *text, uint64_t *out)
{
	const char *end;
	int err;

	err = digits(text, out, &end);
	return err || *end ? -EINVAL : 0;
}

int options_size(const char *text, uint64_t *out)
{
	static const char units[] = "kmg";
	const char *end, *unit;
	uint64_t value;
	int err;

	err = digits(text, &value, &end);
	if (err)
		return err;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1] ||
		    __builtin_mul_overflow(
			    value, UINT64_C(1) << 10 * (unit - units + 1),
			    &value))
			return -EINVAL;
	}
	*out = value;
	return 0;
}

int options_ops(const char *text, unsigned *out)
{
	if (!strcmp(text, "any")) {
		*out = (1u << NR_IO_OPS) - 1;
		return 0;
	}
	for (unsigned op = 0; op < NR_IO_OPS; op++)
		if (!strcmp(text, op_names[op])) {
			*out = 1u << op;
			return 0;
		}
	return -EINVAL;
}

static int set_one(const char *who, char *word, const struct option *options,
		   void *priv)
{
	char *value = strchr(word, '=');

	if (!value) {
		log_err("%s: option \"%s\": no value", who, word);
		return -EINVAL;
	}
	*value++ = '\0';
	for (; options->name; options++) {
		if (strcmp(options->name, word))
			continue;
		if (!options->set(priv, value))
			return 0;
		log_err("%s: option \"%s\": bad value \"%s\"", who, word,
			value);
		return -EINVAL;
	}
	log_err("%s: unknown option \"%s\"", who, word);
	return -EINVAL;
}

int options_parse(const char *who, const char *text,
		  const struct option *options, void *priv)
{
	char *copy, *rest, *word;
	int err = 0;

	if (!*text)
		return 0;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	rest = copy;
	while (!err && (word = strsep(&rest, ",")))
		err = set_one(who, word, options, priv);
	free(copy);
	return err;
}
