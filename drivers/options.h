/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of a spec that are not paths: sizes, and a filter's "name=value"
 * options.  options_parse logs, the rest does not.
 */
#pragma once

#include <stdint.h>
#include "drivers/io.h"

/* Decimal digits and at most one of k, m, g (powers of 1024).  -EINVAL. */
int options_size(const char *text, uint64_t *out);

/* Decimal digits alone.  -EINVAL. */
int options_number(const char *text, uint64_t *out);

/*
 * "read", "write", "flush", "discard", "zeroes" or "any" as a set of
 * 1 << enum io_op.  -EINVAL.
 */
int options_ops(const char *text, unsigned *out);

struct option {
	const char *name;
	int (*set)(void *priv, const char *value); /* 0 or -EINVAL */
};

/*
 * Hand every "name=value" of the comma-separated @text to its entry in
 * @options (ended by a NULL name).  An empty @text is no option.  -EINVAL with
 * one line that names @who and the option; -ENOMEM.
 */
int options_parse(const char *who, const char *text,
		  const struct option *options, void *priv);
