/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which commands there are and what they take: the only place that says so.
 * Dispatch, usage and help are made from these tables.
 */
#include "tools/tap-ctl/commands.h"

#include <limits.h>
#include "poll/granularity.h"
#include "ring/vbd.h"
#include "tools/tap-ctl/disk.h"
#include "tools/tap-ctl/options.h"

static const char *const mode_words[] = { "event", "fixed", "adaptive",
					  "default", NULL };
static const char *const align_words[] = { "on", "off", NULL };
static const char *const sync_words[] = { "auto", "off", "on", NULL };
static const char *const kind_words[] = { "guest", "device", "both", NULL };
static const char *const protocol_words[] = { "native",	    "x86_32-abi",
					      "x86_64-abi", "x86_32",
					      "x86_64",	    NULL };

static const struct option_def pid = {
	.letter = 'p',
	.name = "pid",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, pid),
	.argument = "PID",
	.help = "process id of the tapdisk",
	.min = 1,
	.max = INT_MAX,
};

static const struct option_def minor = {
	.letter = 'm',
	.name = "minor",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, minor),
	.argument = "MINOR",
	.help = "number of the disk, from allocate",
	.max = UINT16_MAX - 1,
};

static const struct option_def image = {
	.letter = 'a',
	.name = "image",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, image),
	.argument = "TYPE:PATH",
	.help = "the image",
};

static const struct option_def secondary = {
	.letter = '2',
	.name = "secondary",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, secondary),
	.argument = "TYPE:PATH",
	.help = "mirror writes to this image",
};

static const struct option_def timeout = {
	.letter = 't',
	.name = "timeout",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, timeout_s),
	.argument = "SECONDS",
	.help = "give up waiting after this time (exit 110)",
	.max = OPTIONS_TIMEOUT_MAX_S,
};

static const struct option_def request_timeout = {
	.letter = 't',
	.name = "request-timeout",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, request_timeout_s),
	.argument = "SECONDS",
	.help = "how long failing requests are tried again",
	.max = UINT16_MAX,
};

static const struct option_def read_only = {
	.letter = 'R',
	.name = "read-only",
	.at = offsetof(struct options, read_only),
	.help = "never write to the image",
};

static const struct option_def parent_minor = {
	.letter = 'e',
	.name = "parent-minor",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, parent_minor),
	.argument = "MINOR",
	.help = "read parents through the tapdisk that serves MINOR",
	.max = UINT16_MAX - 1,
};

static const struct option_def local_cache = {
	.letter = 'r',
	.name = "local-cache",
	.at = offsetof(struct options, local_cache),
	.help = "keep what is read from parents in the leaf",
};

static const struct option_def standby = {
	.letter = 's',
	.name = "standby",
	.at = offsetof(struct options, standby),
	.help = "use the secondary only when the image is out of space",
};

static const struct option_def buffered = {
	.letter = 'D',
	.name = "buffered",
	.at = offsetof(struct options, buffered),
	.help = "go through the page cache: no O_DIRECT",
};

static const struct option_def open_log = {
	.letter = 'C',
	.name = "log",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, log),
	.argument = "FILE",
	.help = "track changed blocks in FILE",
};

static const struct option_def unpause_log = {
	.letter = 'c',
	.name = "log",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, log),
	.argument = "FILE",
	.help = "track changed blocks in FILE; without it, no longer",
};

static const struct option_def encrypted = {
	.letter = 'E',
	.name = "encrypted",
	.at = offsetof(struct options, encrypted),
	.help = "read the key, 32 or 64 bytes, from stdin",
};

static const struct option_def name = {
	.letter = 'd',
	.name = "name",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, name),
	.argument = "NAME",
	.help = "ignored, as it always was",
};

static const struct option_def force = {
	.letter = 'f',
	.name = "force",
	.at = offsetof(struct options, force),
	.help = "do not wait for I/O in flight",
};

static const struct option_def type = {
	.letter = 't',
	.name = "type",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, type),
	.argument = "TYPE",
	.help = "only images of this type",
};

static const struct option_def file = {
	.letter = 'f',
	.name = "file",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, file),
	.argument = "PATH",
	.help = "only the image with this path",
};

static const struct option_def domid = {
	.letter = 'd',
	.name = "domid",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, domid),
	.argument = "DOMID",
	.help = "the guest's domain id",
	.max = UINT32_MAX,
};

static const struct option_def devid = {
	.letter = 'v',
	.name = "devid",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, devid),
	.argument = "DEVID",
	.help = "the device's number in the guest, 51712 for xvda",
	.max = UINT32_MAX,
};

static const struct option_def ring_refs = {
	.name = "ring-ref",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, ring_refs),
	.argument = "R[,R...]",
	.help = "grant references of the ring: 1, 2, 4, 8 or 16",
};

static const struct option_def port = {
	.name = "port",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, port),
	.argument = "N",
	.help = "the guest's event channel",
	.max = UINT32_MAX,
};

static const struct option_def protocol = {
	.name = "protocol",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, protocol),
	.argument = "native|x86_32-abi|x86_64-abi",
	.help = "layout of the ring's slots; -abi may be left out (native)",
	.words = protocol_words,
};

static const struct option_def polling_duration = {
	.name = "polling-duration",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, duration_us),
	.argument = "US",
	.help = "poll so long after the last activity; 0: never (0)",
	.max = GRANULARITY_WINDOW_MAX_US,
};

static const struct option_def duration = {
	.name = "duration",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, duration_us),
	.argument = "US",
	.help = "poll so long after the last activity; 0: the mode's default",
	.max = GRANULARITY_WINDOW_MAX_US,
};

static const struct option_def idle_threshold = {
	.name = "idle-threshold",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, idle_threshold),
	.argument = "PCT",
	.help = "poll only while more than PCT of the host's CPU is idle",
	.max = 100,
};

static const struct option_def guest = {
	.name = "guest",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, guest),
	.argument = "xen|local:PATH",
	.help = "where the guest is (xen)",
};

static const struct option_def mode = {
	.name = "mode",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, mode),
	.argument = "event|fixed|adaptive|default",
	.help = "how to wait; default: as connect or xenstore say",
	.words = mode_words,
};

static const struct option_def align = {
	.name = "align",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, align),
	.argument = "on|off",
	.help = "round the duration up to the kernel's wakeup granularity",
	.words = align_words,
};

static const struct option_def cap = {
	.name = "cap",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, cap),
	.argument = "PCT",
	.help = "of a CPU, that all tapdisks may spend spinning; 0: no limit",
	.max = VBD_CAP_MAX,
};

static const struct option_def sync_way = {
	.name = "sync",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, sync),
	.argument = "auto|off|on",
	.help = "do a lone request at once: where that is quicker, never,\n"
		"always",
	.words = sync_words,
};

static const struct option_def watch = {
	.name = "watch",
	.at = offsetof(struct options, watch),
	.help = "show what happens, a line a second",
};

static const struct option_def advise = {
	.name = "advise",
	.at = offsetof(struct options, advise),
	.help = "what other modes and durations would have cost",
};

static const struct option_def plot = {
	.name = "plot",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, plot),
	.argument = "FILE.svg",
	.help = "with --advise: draw it",
};

static const struct option_def trace = {
	.name = "trace",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, trace),
	.argument = "FILE",
	.help = "record how long waits take, for polling-sim",
};

static const struct option_def kind = {
	.name = "kind",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, kind),
	.argument = "guest|device|both",
	.help = "with --trace: waits for whom (guest)",
	.words = kind_words,
};

static const struct option_def seconds = {
	.name = "seconds",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, seconds),
	.argument = "N",
	.help = "watch, trace (10) or look at the waits for so long",
	.min = 1,
	.max = OPTIONS_TIMEOUT_MAX_S,
};

static const struct option_def json = {
	.name = "json",
	.at = offsetof(struct options, json),
	.help = "one JSON object on one line",
};

static const struct option_use no_options[] = { { 0 } };

static const struct option_use list_options[] = {
	{ &pid, false }, { &minor, false }, { &type, false }, { &file, false },
	{ 0 },
};

static const struct option_use free_options[] = { { &minor, true }, { 0 } };

static const struct option_use create_options[] = {
	{ &image, true },
	{ &name, false },
	{ &read_only, false },
	{ &parent_minor, false },
	{ &local_cache, false },
	{ &secondary, false },
	{ &standby, false },
	{ &request_timeout, false },
	{ &buffered, false },
	{ &open_log, false },
	{ 0 },
};

static const struct option_use disk_options[] = {
	{ &pid, true },
	{ &minor, true },
	{ 0 },
};

static const struct option_use wait_options[] = {
	{ &pid, true },
	{ &minor, true },
	{ &timeout, false },
	{ 0 },
};

static const struct option_use open_options[] = {
	{ &pid, true },
	{ &minor, true },
	{ &image, true },
	{ &read_only, false },
	{ &parent_minor, false },
	{ &local_cache, false },
	{ &secondary, false },
	{ &standby, false },
	{ &request_timeout, false },
	{ &buffered, false },
	{ &open_log, false },
	{ &encrypted, false },
	{ 0 },
};

static const struct option_use close_options[] = {
	{ &pid, true },
	{ &minor, true },
	{ &force, false },
	{ &timeout, false },
	{ 0 },
};

static const struct option_use unpause_options[] = {
	{ &pid, true },	       { &minor, true },	{ &image, false },
	{ &secondary, false }, { &unpause_log, false }, { 0 },
};

static const struct option_use connect_options[] = {
	{ &pid, true },
	{ &minor, true },
	{ &domid, true },
	{ &devid, true },
	{ &ring_refs, true },
	{ &port, true },
	{ &protocol, false },
	{ &polling_duration, false },
	{ &idle_threshold, false },
	{ &guest, false },
	{ 0 },
};

static const struct option_use disconnect_options[] = {
	{ &pid, true }, { &minor, true }, { &domid, true }, { &devid, true },
	{ 0 },
};

static const struct option_use polling_options[] = {
	{ &pid, true },
	{ &minor, true },
	{ &mode, false },
	{ &duration, false },
	{ &idle_threshold, false },
	{ &align, false },
	{ &cap, false },
	{ &sync_way, false },
	{ &watch, false },
	{ &advise, false },
	{ &plot, false },
	{ &trace, false },
	{ &kind, false },
	{ &seconds, false },
	{ &json, false },
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
