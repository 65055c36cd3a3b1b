/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tap-ctl says when something went wrong.  Only ever on stderr: callers
 * parse stdout.
 */
#pragma once

#include <stdint.h>
#include "tools/ctl/wire.h"

struct options;

/*
 * "tap-ctl: COMMAND: what: why", where why is strerror of -@err and ends the
 * line, as the storage manager expects.  Returns @err.
 */
int say_error(const struct options *options, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Of an exchange with the tapdisk options->pid about options->minor.  @reply
 * tells whether the tapdisk refused (its own words are added) or was not
 * reached.  Returns @err.
 */
int say_reply(const struct options *options, int err,
	      const struct wire_message *reply);
