/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that a record: filter writes, from which a power cut at any moment
 * can be replayed.
 *
 * A struct record_header, then for each write, flush, discard and write-zeroes
 * that ended, in the order in which they ended, a struct record_entry; after
 * that of a write its len bytes.  Numbers are in the byte order of the host.
 *
 * One counter dates both ends of every entry: what was submitted after another
 * had completed has submitted > the other's completed.  So a flush with err 0
 * covers exactly the writes whose completed is smaller than its submitted; all
 * others may or may not be on the disk when the power goes.
 */
#pragma once

#include <assert.h>
#include <stdint.h>
#include "drivers/io.h"

#define RECORD_MAGIC UINT64_C(0x3144524f43455254) /* "TRECORD1" */

struct record_header {
	uint64_t magic; /* RECORD_MAGIC */
	uint64_t bytes; /* size of the disk */
};

struct record_entry {
	uint64_t submitted, completed; /* from 1; no two are the same */
	uint64_t offset, len; /* bytes; 0 for a flush */
	uint32_t op; /* enum io_op */
	int32_t err; /* 0 or -errno */
};

static_assert(sizeof(struct record_header) == 16, "no padding");
static_assert(sizeof(struct record_entry) == 40, "no padding");
