/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which commands there are and which options they take: the only place that
 * says so.  Dispatch, usage and help are made from these tables.  What an
 * option is, is def.c's.
 */
#include "tools/tap-ctl/commands.h"

#include "tools/tap-ctl/def.h"
#include "tools/tap-ctl/disk.h"
#include "tools/tap-ctl/options.h"

static const struct option_use no_options[] = { { 0 } };

static const struct option_use list_options[] = {
	{ &def_pid, false },
	{ &def_minor, false },
	{ &def_type, false },
	{ &def_file, false },
	{ 0 },
};

static const struct option_use free_options[] = { { &def_minor, true }, { 0 } };

static const struct option_use create_options[] = {
	{ &def_image, true },
	{ &def_name, false },
	{ &def_read_only, false },
	{ &def_parent_minor, false },
	{ &def_local_cache, false },
	{ &def_secondary, false },
	{ &def_standby, false },
	{ &def_request_timeout, false },
	{ &def_buffered, false },
	{ &def_open_log, false },
	{ 0 },
};

static const struct option_use disk_options[] = {
	{ &def_pid, true },
	{ &def_minor, true },
	{ 0 },
};

static const struct option_use wait_options[] = {
	{ &def_pid, true },
	{ &def_minor, true },
	{ &def_timeout, false },
	{ 0 },
};

static const struct option_use open_options[] = {
	{ &def_pid, true },
	{ &def_minor, true },
	{ &def_image, true },
	{ &def_read_only, false },
	{ &def_parent_minor, false },
	{ &def_local_cache, false },
	{ &def_secondary, false },
	{ &def_standby, false },
	{ &def_request_timeout, false },
	{ &def_buffered, false },
	{ &def_open_log, false },
	{ &def_encrypted, false },
	{ 0 },
};

static const struct option_use close_options[] = {
	{ &def_pid, true },
	{ &def_minor, true },
	{ &def_force, false },
	{ &def_timeout, false },
	{ 0 },
};

static const struct option_use unpause_options[] = {
	{ &def_pid, true },	     { &def_minor, true },
	{ &def_image, false },	     { &def_secondary, false },
	{ &def_unpause_log, false }, { 0 },
};

static const struct option_use connect_options[] = {
	{ &def_pid, true },
	{ &def_minor, true },
	{ &def_domid, true },
	{ &def_devid, true },
	{ &def_ring_refs, true },
	{ &def_port, true },
	{ &def_protocol, false },
	{ &def_polling_duration, false },
	{ &def_idle_threshold, false },
	{ &def_guest, false },
	{ 0 },
};

static const struct option_use disconnect_options[] = {
	{ &def_pid, true },
	{ &def_minor, true },
	{ &def_domid, true },
	{ &def_devid, true },
	{ 0 },
};

static const struct option_use polling_options[] = {
	{ &def_pid, true },
	{ &def_minor, true },
	{ &def_mode, false },
	{ &def_duration, false },
	{ &def_idle_threshold, false },
	{ &def_align, false },
	{ &def_cap, false },
	{ &def_sync_way, false },
	{ &def_watch, false },
	{ &def_advise, false },
	{ &def_plot, false },
	{ &def_trace, false },
	{ &def_kind, false },
	{ &def_seconds, false },
	{ &def_json, false },
	{ 0 },
};

const struct command commands_table[] = {
	{
		.name = "list",
		.summary = "list tapdisks, their disks and unused minors",
		.options = list_options,
		.run = list_run,
	},
	{
		.name = "allocate",
		.summary = "reserve a minor and print its marker's path",
		.options = no_options,
		.run = allocate_run,
	},
	{
		.name = "free",
		.summary = "give a minor back",
		.options = free_options,
		.run = allocate_run_free,
	},
	{
		.name = "create",
		.summary = "allocate, spawn, attach and open in one",
		.options = create_options,
		.run = create_run,
	},
	{
		.name = "destroy",
		.summary = "close, detach and free in one",
		.options = wait_options,
		.run = create_run_destroy,
	},
	{
		.name = "spawn",
		.summary = "start a tapdisk and print its process id",
		.options = no_options,
		.run = spawn_run,
	},
	{
		.name = "attach",
		.summary = "give a tapdisk a minor to serve",
		.options = disk_options,
		.run = disk_attach,
	},
	{
		.name = "detach",
		.summary = "take a closed disk away; the last one ends the "
			   "tapdisk",
		.options = disk_options,
		.run = disk_detach,
	},
	{
		.name = "open",
		.summary = "open an image for an attached minor",
		.options = open_options,
		.run = disk_run_open,
	},
	{
		.name = "close",
		.summary = "disconnect the guests and close the image",
		.options = close_options,
		.run = disk_run_close,
	},
	{
		.name = "pause",
		.summary = "finish what is in flight, take no more, close the "
			   "image",
		.options = wait_options,
		.run = disk_run_pause,
	},
	{
		.name = "unpause",
		.summary = "open the image again, or another, and go on",
		.options = unpause_options,
		.run = disk_run_unpause,
	},
	{
		.name = "stats",
		.summary = "print a disk's counters as JSON, the leaf's first",
		.options = disk_options,
		.run = stats_run,
	},
	{
		.name = "connect",
		.summary = "serve a guest's ring",
		.options = connect_options,
		.ours = true,
		.run = connect_run,
	},
	{
		.name = "disconnect",
		.summary = "stop serving a guest's ring",
		.options = disconnect_options,
		.ours = true,
		.run = connect_run_disconnect,
	},
	{
		.name = "polling",
		.summary = "show or change how a disk waits for its guest",
		.options = polling_options,
		.ours = true,
		.run = polling_run,
	},
	{ .name = NULL },
};
