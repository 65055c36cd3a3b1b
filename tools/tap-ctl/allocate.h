/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Minors: numbers that exist as marker files, <run dir>/tapdisk/tapdisk-N.  The
 * tapdisk that has one attached holds a lock on its marker.
 */
#pragma once

#include <stddef.h>

#define ALLOCATE_MINORS 16384

struct options;

/* The marker's path.  -ENAMETOOLONG. */
int allocate_path(int minor, char *out, size_t size);

/* What callers are told: the marker's path, or as their dialect has it. */
int allocate_shown(int minor, char *out, size_t size);

/* Take the lowest free minor and return it, or -errno (-ENOSPC), said. */
int allocate_minor(const struct options *options);

/*
 * Give @minor back.  Waits up to @timeout_ms for a tapdisk to let go of it.
 * -ENOENT, -EAGAIN (attached), -errno; not said.
 */
int allocate_free(int minor, int timeout_ms);

/* Say what went wrong with giving back @minor; returns @err, which may be 0. */
int allocate_say_free(const struct options *options, int minor, int err);
