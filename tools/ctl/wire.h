/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control wire: fixed 544-byte messages in host byte order over an AF_UNIX
 * stream socket, one request a connection.  Types 1 to 30 are upstream's
 * (include/tapdisk-message.h of xapi's blktap); from 128 up they are ours and a
 * JSON text of u.info.length bytes follows the header.
 *
 * Layout only; both halves of the programs include it, so they cannot drift.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_SIZE 544
#define WIRE_PATH_MAX 256
#define WIRE_LOG_PATH_SIZE 256 /* follows a request with WIRE_ADD_LOG */
#define WIRE_JSON_MAX 65536
#define WIRE_COOKIE_ALL 0xffff /* STATS of every vbd */
#define WIRE_GREFS_MAX 8 /* order 3: all that XENBLKIF_CONNECT has room for */

enum wire_type {
	WIRE_ERROR = 1,
	WIRE_RUNTIME_ERROR,
	WIRE_PID,
	WIRE_PID_RSP,
	WIRE_ATTACH,
	WIRE_ATTACH_RSP,
	WIRE_OPEN,
	WIRE_OPEN_RSP,
	WIRE_PAUSE,
	WIRE_PAUSE_RSP,
	WIRE_RESUME,
	WIRE_RESUME_RSP,
	WIRE_CLOSE,
	WIRE_CLOSE_RSP,
	WIRE_DETACH,
	WIRE_DETACH_RSP,
	WIRE_LIST_MINORS, /* no handler */
	WIRE_LIST_MINORS_RSP,
	WIRE_LIST,
	WIRE_LIST_RSP,
	WIRE_STATS,
	WIRE_STATS_RSP,
	WIRE_FORCE_SHUTDOWN, /* answered by CLOSE_RSP */
	WIRE_XENBLKIF_CONNECT,
	WIRE_XENBLKIF_CONNECT_RSP,
	WIRE_XENBLKIF_DISCONNECT,
	WIRE_XENBLKIF_DISCONNECT_RSP,
	WIRE_DISK_INFO,
	WIRE_DISK_INFO_RSP,
	WIRE_EXIT, /* no handler */
	/* ours: header with u.info.length, then JSON; the reply is type + 1 */
	WIRE_CONNECT = 128,
	WIRE_POLLING = 130,
	WIRE_HELLO = 132,
	WIRE_EVENTS = 134,
	WIRE_TRACE = 136, /* asked again and again: each reply goes on where
			   * the last one ended */
};

enum wire_flags {
	WIRE_SHARED = 0x001,
	WIRE_RDONLY = 0x002,
	WIRE_ADD_CACHE = 0x004,
	WIRE_VHD_INDEX = 0x008,
	WIRE_ADD_LOG = 0x010,
	WIRE_ADD_LCACHE = 0x020,
	WIRE_REUSE_PRT = 0x040,
	WIRE_SECONDARY = 0x080,
	WIRE_STANDBY = 0x100,
	WIRE_NO_O_DIRECT = 0x200,
	WIRE_OPEN_ENCRYPTED = 0x400,
};

enum wire_proto { WIRE_NATIVE = 1, WIRE_X86_32, WIRE_X86_64 };

struct wire_params { /* OPEN, RESUME */
	uint32_t flags;
	uint32_t devnum;
	uint32_t domid;
	char path[WIRE_PATH_MAX];
	uint32_t prt_devnum; /* UINT32_MAX: none */
	uint16_t req_timeout; /* seconds; 0: the default */
	char secondary[WIRE_PATH_MAX];
};

struct wire_image { /* OPEN_RSP, DISK_INFO_RSP */
	uint64_t sectors;
	uint32_t sector_size;
	uint32_t info;
};

struct wire_response { /* ERROR and every plain _RSP */
	int32_t error; /* positive errno */
	char message[256];
};

struct wire_list { /* LIST_RSP, one a vbd, then one with count 0 */
	int32_t count; /* entries that follow, this one included */
	int32_t minor;
	int32_t state;
	char path[WIRE_PATH_MAX]; /* "type:path", empty if none */
};

struct wire_info { /* STATS_RSP, and ours: so many bytes follow */
	uint16_t type;
	uint16_t cookie;
	uint64_t length;
};

struct wire_blkif { /* XENBLKIF_CONNECT, XENBLKIF_DISCONNECT */
	uint32_t domid;
	uint32_t devid;
	uint32_t gref[WIRE_GREFS_MAX];
	uint32_t order;
	uint32_t proto; /* enum wire_proto */
	char pool[256]; /* "local:PATH" is a local guest */
	uint32_t port;
	uint32_t poll_duration; /* us */
	uint32_t poll_idle_threshold; /* per cent */
};

struct wire_message {
	uint16_t type;
	uint16_t cookie; /* the minor */
	union {
		int32_t pid; /* PID_RSP */
		struct wire_params params;
		struct wire_image image;
		struct wire_response response;
		struct wire_list list;
		struct wire_info info;
		struct wire_blkif blkif;
		uint64_t whole[67];
	} u;
};

static_assert(sizeof(struct wire_message) == WIRE_SIZE, "wire");
static_assert(offsetof(struct wire_message, u) == 8, "wire");
static_assert(offsetof(struct wire_message, u.params.devnum) == 12, "wire");
static_assert(offsetof(struct wire_message, u.params.domid) == 16, "wire");
static_assert(offsetof(struct wire_message, u.params.path) == 20, "wire");
static_assert(offsetof(struct wire_message, u.params.prt_devnum) == 276,
	      "wire");
static_assert(offsetof(struct wire_message, u.params.req_timeout) == 280,
	      "wire");
static_assert(offsetof(struct wire_message, u.params.secondary) == 282, "wire");
static_assert(offsetof(struct wire_message, u.image.sector_size) == 16, "wire");
static_assert(offsetof(struct wire_message, u.image.info) == 20, "wire");
static_assert(offsetof(struct wire_message, u.response.message) == 12, "wire");
static_assert(offsetof(struct wire_message, u.list.minor) == 12, "wire");
static_assert(offsetof(struct wire_message, u.list.state) == 16, "wire");
static_assert(offsetof(struct wire_message, u.list.path) == 20, "wire");
static_assert(offsetof(struct wire_message, u.info.cookie) == 10, "wire");
static_assert(offsetof(struct wire_message, u.info.length) == 16, "wire");
static_assert(offsetof(struct wire_message, u.blkif.devid) == 12, "wire");
static_assert(offsetof(struct wire_message, u.blkif.gref) == 16, "wire");
static_assert(offsetof(struct wire_message, u.blkif.order) == 48, "wire");
static_assert(offsetof(struct wire_message, u.blkif.proto) == 52, "wire");
static_assert(offsetof(struct wire_message, u.blkif.pool) == 56, "wire");
static_assert(offsetof(struct wire_message, u.blkif.port) == 312, "wire");
static_assert(offsetof(struct wire_message, u.blkif.poll_duration) == 316,
	      "wire");
static_assert(offsetof(struct wire_message, u.blkif.poll_idle_threshold) == 320,
	      "wire");

/* "connect", "polling" ...; "unknown" for anything else.  For messages. */
const char *wire_type_name(uint16_t type);
