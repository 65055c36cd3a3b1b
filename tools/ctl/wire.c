/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words for the control wire's numbers, for logs and error lines.
 */
#include "tools/ctl/wire.h"

static const struct {
	uint16_t type;
	const char *name;
} names[] = {
	{ WIRE_ERROR, "error" },
	{ WIRE_RUNTIME_ERROR, "runtime error" },
	{ WIRE_PID, "pid" },
	{ WIRE_PID_RSP, "pid response" },
	{ WIRE_ATTACH, "attach" },
	{ WIRE_ATTACH_RSP, "attach response" },
	{ WIRE_OPEN, "open" },
	{ WIRE_OPEN_RSP, "open response" },
	{ WIRE_PAUSE, "pause" },
	{ WIRE_PAUSE_RSP, "pause response" },
	{ WIRE_RESUME, "resume" },
	{ WIRE_RESUME_RSP, "resume response" },
	{ WIRE_CLOSE, "close" },
	{ WIRE_CLOSE_RSP, "close response" },
	{ WIRE_DETACH, "detach" },
	{ WIRE_DETACH_RSP, "detach response" },
	{ WIRE_LIST_MINORS, "list minors" },
	{ WIRE_LIST_MINORS_RSP, "list minors response" },
	{ WIRE_LIST, "list" },
	{ WIRE_LIST_RSP, "list response" },
	{ WIRE_STATS, "stats" },
	{ WIRE_STATS_RSP, "stats response" },
	{ WIRE_FORCE_SHUTDOWN, "force shutdown" },
	{ WIRE_XENBLKIF_CONNECT, "xenblkif connect" },
	{ WIRE_XENBLKIF_CONNECT_RSP, "xenblkif connect response" },
	{ WIRE_XENBLKIF_DISCONNECT, "xenblkif disconnect" },
	{ WIRE_XENBLKIF_DISCONNECT_RSP, "xenblkif disconnect response" },
	{ WIRE_DISK_INFO, "disk info" },
	{ WIRE_DISK_INFO_RSP, "disk info response" },
	{ WIRE_EXIT, "exit" },
	{ WIRE_CONNECT, "connect" },
	{ WIRE_CONNECT + 1, "connect response" },
	{ WIRE_POLLING, "polling" },
	{ WIRE_POLLING + 1, "polling response" },
	{ WIRE_HELLO, "hello" },
	{ WIRE_HELLO + 1, "hello response" },
	{ WIRE_EVENTS, "events" },
	{ WIRE_EVENTS + 1, "events response" },
	{ WIRE_TRACE, "trace" },
	{ WIRE_TRACE + 1, "trace response" },
};

const char *wire_type_name(uint16_t type)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].type == type)
			return names[i].name;
	return "unknown";
}
