/* SPDX-License-Identifier: BSD-3-Clause */
/* See def.h. */
#include "tools/tap-ctl/def.h"

#include <limits.h>
#include "poll/granularity.h"
#include "ring/vbd.h"

static const char *const mode_words[] = { "event", "fixed", "adaptive",
					  "default", NULL };
static const char *const align_words[] = { "on", "off", NULL };
static const char *const sync_words[] = { "auto", "off", "on", NULL };
static const char *const kind_words[] = { "guest", "device", "both", NULL };
static const char *const protocol_words[] = { "native",	    "x86_32-abi",
					      "x86_64-abi", "x86_32",
					      "x86_64",	    NULL };

const struct option_def def_pid = {
	.letter = 'p',
	.name = "pid",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, pid),
	.argument = "PID",
	.help = "process id of the tapdisk",
	.min = 1,
	.max = INT_MAX,
};

const struct option_def def_minor = {
	.letter = 'm',
	.name = "minor",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, minor),
	.argument = "MINOR",
	.help = "number of the disk, from allocate",
	.max = UINT16_MAX - 1,
};

const struct option_def def_image = {
	.letter = 'a',
	.name = "image",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, image),
	.argument = "TYPE:PATH",
	.help = "the image",
};

const struct option_def def_secondary = {
	.letter = '2',
	.name = "secondary",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, secondary),
	.argument = "TYPE:PATH",
	.help = "mirror writes to this image",
};

const struct option_def def_timeout = {
	.letter = 't',
	.name = "timeout",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, timeout_s),
	.argument = "SECONDS",
	.help = "give up waiting after this time (exit 110)",
	.max = OPTIONS_TIMEOUT_MAX_S,
};

const struct option_def def_request_timeout = {
	.letter = 't',
	.name = "request-timeout",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, request_timeout_s),
	.argument = "SECONDS",
	.help = "how long failing requests are tried again",
	.max = UINT16_MAX,
};

const struct option_def def_read_only = {
	.letter = 'R',
	.name = "read-only",
	.at = offsetof(struct options, read_only),
	.help = "never write to the image",
};

const struct option_def def_parent_minor = {
	.letter = 'e',
	.name = "parent-minor",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, parent_minor),
	.argument = "MINOR",
	.help = "read parents through the tapdisk that serves MINOR",
	.max = UINT16_MAX - 1,
};

const struct option_def def_local_cache = {
	.letter = 'r',
	.name = "local-cache",
	.at = offsetof(struct options, local_cache),
	.help = "keep what is read from parents in the leaf",
};

const struct option_def def_standby = {
	.letter = 's',
	.name = "standby",
	.at = offsetof(struct options, standby),
	.help = "use the secondary only when the image is out of space",
};

const struct option_def def_buffered = {
	.letter = 'D',
	.name = "buffered",
	.at = offsetof(struct options, buffered),
	.help = "go through the page cache: no O_DIRECT",
};

const struct option_def def_open_log = {
	.letter = 'C',
	.name = "log",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, log),
	.argument = "FILE",
	.help = "track changed blocks in FILE",
};

const struct option_def def_unpause_log = {
	.letter = 'c',
	.name = "log",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, log),
	.argument = "FILE",
	.help = "track changed blocks in FILE; without it, no longer",
};

const struct option_def def_encrypted = {
	.letter = 'E',
	.name = "encrypted",
	.at = offsetof(struct options, encrypted),
	.help = "read the key, 32 or 64 bytes, from stdin",
};

const struct option_def def_name = {
	.letter = 'd',
	.name = "name",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, name),
	.argument = "NAME",
	.help = "ignored, as it always was",
};

const struct option_def def_force = {
	.letter = 'f',
	.name = "force",
	.at = offsetof(struct options, force),
	.help = "do not wait for I/O in flight",
};

const struct option_def def_type = {
	.letter = 't',
	.name = "type",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, type),
	.argument = "TYPE",
	.help = "only images of this type",
};

const struct option_def def_file = {
	.letter = 'f',
	.name = "file",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, file),
	.argument = "PATH",
	.help = "only the image with this path",
};

const struct option_def def_domid = {
	.letter = 'd',
	.name = "domid",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, domid),
	.argument = "DOMID",
	.help = "the guest's domain id",
	.max = UINT32_MAX,
};

const struct option_def def_devid = {
	.letter = 'v',
	.name = "devid",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, devid),
	.argument = "DEVID",
	.help = "the device's number in the guest, 51712 for xvda",
	.max = UINT32_MAX,
};

const struct option_def def_ring_refs = {
	.name = "ring-ref",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, ring_refs),
	.argument = "R[,R...]",
	.help = "grant references of the ring: 1, 2, 4, 8 or 16",
};

const struct option_def def_port = {
	.name = "port",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, port),
	.argument = "N",
	.help = "the guest's event channel",
	.max = UINT32_MAX,
};

const struct option_def def_protocol = {
	.name = "protocol",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, protocol),
	.argument = "native|x86_32-abi|x86_64-abi",
	.help = "layout of the ring's slots; -abi may be left out (native)",
	.words = protocol_words,
};

const struct option_def def_polling_duration = {
	.name = "polling-duration",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, duration_us),
	.argument = "US",
	.help = "poll so long after the last activity; 0: never (0)",
	.max = GRANULARITY_WINDOW_MAX_US,
};

const struct option_def def_duration = {
	.name = "duration",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, duration_us),
	.argument = "US",
	.help = "poll so long after the last activity; 0: the mode's default",
	.max = GRANULARITY_WINDOW_MAX_US,
};

const struct option_def def_idle_threshold = {
	.name = "idle-threshold",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, idle_threshold),
	.argument = "PCT",
	.help = "poll only while more than PCT of the host's CPU is idle",
	.max = 100,
};

const struct option_def def_guest = {
	.name = "guest",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, guest),
	.argument = "xen|local:PATH",
	.help = "where the guest is (xen)",
};

const struct option_def def_mode = {
	.name = "mode",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, mode),
	.argument = "event|fixed|adaptive|default",
	.help = "how to wait; default: as connect or xenstore say",
	.words = mode_words,
};

const struct option_def def_align = {
	.name = "align",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, align),
	.argument = "on|off",
	.help = "round the duration up to the kernel's wakeup granularity",
	.words = align_words,
};

const struct option_def def_cap = {
	.name = "cap",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, cap),
	.argument = "PCT",
	.help = "of a CPU, that all tapdisks may spend spinning; 0: no limit",
	.max = VBD_CAP_MAX,
};

const struct option_def def_sync_way = {
	.name = "sync",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, sync),
	.argument = "auto|off|on",
	.help = "lone requests at once: where quicker, never, always",
	.words = sync_words,
};

const struct option_def def_watch = {
	.name = "watch",
	.at = offsetof(struct options, watch),
	.help = "show what happens, a line a second",
};

const struct option_def def_advise = {
	.name = "advise",
	.at = offsetof(struct options, advise),
	.help = "what other modes and durations would have cost",
};

const struct option_def def_plot = {
	.name = "plot",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, plot),
	.argument = "FILE.svg",
	.help = "with --advise: draw it",
};

const struct option_def def_trace = {
	.name = "trace",
	.kind = OPTION_TEXT,
	.at = offsetof(struct options, trace),
	.argument = "FILE",
	.help = "record how long waits take, for polling-sim",
};

const struct option_def def_kind = {
	.name = "kind",
	.kind = OPTION_WORD,
	.at = offsetof(struct options, kind),
	.argument = "guest|device|both",
	.help = "with --trace: waits for whom (guest)",
	.words = kind_words,
};

const struct option_def def_seconds = {
	.name = "seconds",
	.kind = OPTION_NUMBER,
	.at = offsetof(struct options, seconds),
	.argument = "N",
	.help = "watch, trace (10) or look at the waits for so long",
	.min = 1,
	.max = OPTIONS_TIMEOUT_MAX_S,
};

const struct option_def def_json = {
	.name = "json",
	.at = offsetof(struct options, json),
	.help = "one JSON object on one line",
};
