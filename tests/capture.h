/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges with upstream's tapdisk, recorded byte for byte: tests/data/wire.
 * Any failure to read them ends the test.
 */
#pragma once

#include <stddef.h>

/* The bytes of tests/data/wire/@name (a hex dump); free them. */
unsigned char *capture_bytes(const char *name, size_t *size);

/* A line of index.tsv. */
struct capture {
	char name[64];
	unsigned request_type, request_cookie;
	size_t request_size;
	char reply[64]; /* "OPEN_RSP", "ERROR 22", "(closed without reply)" */
	int reply_error; /* 22, or 0 */
	size_t reply_size;
};

/* All of them, in the order of recording; free the array. */
struct capture *capture_index(size_t *nr);
