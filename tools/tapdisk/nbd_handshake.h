/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an NBD connection begins, from the server's side: fixed newstyle, or the
 * old style, which is a greeting and nothing else.
 *
 * Bytes in, bytes out; no I/O and no allocation, and not a byte more is taken
 * than belongs to the handshake.  However long an option says it is, the room
 * it takes is that of this structure.  Every export has the same name: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NBD_OPTION_KEPT 1024 /* bytes of an option that are looked at */
#define NBD_OPTION_MAX (64u << 20) /* bytes it may have */
#define NBD_OPTIONS_MAX 64 /* of a connection */

struct nbd_export {
	uint64_t bytes;
	uint16_t flags; /* enum nbd_export_flags */
	uint32_t block_min, block_preferred, block_max;
};

enum nbd_style {
	NBD_NEW_STYLE,
	NBD_OLD_STYLE,
};

enum nbd_handshake_state {
	NBD_CLIENT_FLAGS, /* four bytes are due */
	NBD_OPTION_HEADER, /* sixteen */
	NBD_OPTION_DATA,
	NBD_OPTION_SKIPPED, /* too long, or of no interest */
	NBD_TRANSMISSION, /* when .out is sent */
	NBD_HANG_UP, /* likewise */
};

struct nbd_handshake {
	struct nbd_export export; /* taken down when the connection began */
	enum nbd_handshake_state state;
	bool fixed, no_zeroes; /* the client's flags */
	bool structured; /* replies */
	bool allocation; /* the context base:allocation was chosen */
	unsigned options; /* how many there were */
	uint32_t option, option_len;
	uint32_t left; /* of what is skipped */
	uint8_t in[NBD_OPTION_KEPT];
	size_t got, due;
	uint8_t out[512]; /* to be sent before any more is read */
	size_t out_len;
};

/* The greeting is in .out. */
void nbd_handshake_init(struct nbd_handshake *handshake, enum nbd_style style,
			const struct nbd_export *export);

/*
 * Where the next bytes go and how many may come, at least one.  Only in the
 * first four states, and with .out sent and .out_len 0.
 */
size_t nbd_handshake_space(struct nbd_handshake *handshake, void **to);

/* @n of them came.  .state and .out tell what follows. */
void nbd_handshake_received(struct nbd_handshake *handshake, size_t n);
