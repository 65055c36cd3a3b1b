/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of commands, and the functions behind it.  Each returns 0 or
 * -errno, which becomes the exit status, and has then said why.
 */
#pragma once

#include "tools/tap-ctl/options.h"

extern const struct command commands_table[]; /* ended by a NULL name */

int list_run(const struct options *options);
int allocate_run(const struct options *options);
int allocate_run_free(const struct options *options);
int create_run(const struct options *options);
int create_run_destroy(const struct options *options);
int spawn_run(const struct options *options);
int disk_run_open(const struct options *options);
int disk_run_close(const struct options *options);
int disk_run_pause(const struct options *options);
int disk_run_unpause(const struct options *options);
int stats_run(const struct options *options);
int connect_run(const struct options *options);
int connect_run_disconnect(const struct options *options);
int polling_run(const struct options *options);
