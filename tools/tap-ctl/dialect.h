/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The other way some storage managers speak: XCP-ng's, whose blktap is a kernel
 * module.  Chosen by TAP_CTL_DIALECT=xcp-ng in the environment, which reaches
 * us whatever the arguments are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "tools/tap-ctl/options.h"

bool dialect_is_xcp_ng(void);

/* What that dialect has besides; a NULL name ends it.  Take any arguments. */
extern const struct command dialect_commands[];

/* What allocate and create print there instead of the marker's path. */
void dialect_device(int minor, char *out, size_t size);
