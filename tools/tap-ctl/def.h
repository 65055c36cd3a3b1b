/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options there are: each with its letter, its name, what it takes and
 * where that goes.  Which command takes which is commands.c's; two options may
 * share a letter, as -t does, because no command takes both.
 */
#pragma once

#include "tools/tap-ctl/options.h"

extern const struct option_def def_pid;
extern const struct option_def def_minor;
extern const struct option_def def_image;
extern const struct option_def def_secondary;
extern const struct option_def def_timeout;
extern const struct option_def def_request_timeout;
extern const struct option_def def_read_only;
extern const struct option_def def_parent_minor;
extern const struct option_def def_local_cache;
extern const struct option_def def_standby;
extern const struct option_def def_buffered;
extern const struct option_def def_open_log;
extern const struct option_def def_unpause_log;
extern const struct option_def def_encrypted;
extern const struct option_def def_name;
extern const struct option_def def_force;
extern const struct option_def def_type;
extern const struct option_def def_file;
extern const struct option_def def_domid;
extern const struct option_def def_devid;
extern const struct option_def def_ring_refs;
extern const struct option_def def_port;
extern const struct option_def def_protocol;
extern const struct option_def def_polling_duration;
extern const struct option_def def_duration;
extern const struct option_def def_idle_threshold;
extern const struct option_def def_guest;
extern const struct option_def def_mode;
extern const struct option_def def_align;
extern const struct option_def def_cap;
extern const struct option_def def_sync_way;
extern const struct option_def def_watch;
extern const struct option_def def_advise;
extern const struct option_def def_plot;
extern const struct option_def def_trace;
extern const struct option_def def_kind;
extern const struct option_def def_seconds;
extern const struct option_def def_json;
