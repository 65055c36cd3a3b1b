/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of NBD's transmission phase, as a server sees them.
 *
 * Requests come off the wire into structures, replies go on it.  Pure: no I/O,
 * no allocation, no state.  Does not know what an export is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NBD_REQUEST_SIZE 28
#define NBD_EXTENTS_MAX 64 /* told in one reply */
#define NBD_HEADER_MAX (20 + 4 + 8 * NBD_EXTENTS_MAX)

enum nbd_export_flags {
	NBD_HAS_FLAGS = 1 << 0,
	NBD_READ_ONLY = 1 << 1,
	NBD_CAN_FLUSH = 1 << 2,
	NBD_CAN_FUA = 1 << 3,
	NBD_CAN_TRIM = 1 << 5,
	NBD_CAN_WRITE_ZEROES = 1 << 6,
	NBD_CAN_MULTI_CONN = 1 << 8,
};

enum nbd_command {
	NBD_READ = 0,
	NBD_WRITE = 1,
	NBD_DISCONNECT = 2,
	NBD_FLUSH = 3,
	NBD_TRIM = 4,
	NBD_WRITE_ZEROES = 6,
	NBD_BLOCK_STATUS = 7,
};

enum nbd_command_flags {
	NBD_FUA = 1 << 0,
	NBD_NO_HOLE = 1 << 1,
	NBD_ONE_EXTENT = 1 << 3,
};

enum nbd_extent_flags {
	NBD_HOLE = 1 << 0,
	NBD_ZERO = 1 << 1,
};

struct nbd_request {
	uint16_t type, flags;
	uint64_t cookie;
	uint64_t offset;
	uint32_t len;
};

/* 0, or -EPROTO if these NBD_REQUEST_SIZE bytes are no request. */
int nbd_wire_request(const uint8_t *bytes, struct nbd_request *out);

/*
 * All of these write a reply's bytes up to its data, at most NBD_HEADER_MAX,
 * and return how many.  @structured says what was negotiated.
 */

/* The end of anything without data; @err is 0 or -errno. */
size_t nbd_wire_done(bool structured, uint64_t cookie, int err, uint8_t *out);

/*
 * @len bytes read from @offset follow.  A simple reply says so once, for all
 * the bytes of the request; a structured one for each piece, and of the last
 * that it is.
 */
size_t nbd_wire_simple_data(uint64_t cookie, uint8_t *out);
size_t nbd_wire_data(uint64_t cookie, uint64_t offset, uint32_t len, bool last,
		     uint8_t *out);

struct nbd_extent {
	uint32_t len;
	uint32_t flags;
};

/* Of the only context there is; structured, and the last of its request. */
size_t nbd_wire_extents(uint64_t cookie, const struct nbd_extent *extents,
			unsigned n, uint8_t *out);
