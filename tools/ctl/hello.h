/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a tapdisk says about itself, read: the reply to HELLO (132) and the
 * lines of EVENTS (134).  messages.h writes both.  Strict; unknown keys,
 * operations and events are a newer tapdisk's and ignored.  Pure: no I/O, no
 * log.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ring/vbd.h"

struct hello {
	uint32_t ring_order_max;
	bool flush, barrier, discard;
	uint32_t info; /* VDISK_CDROM... */
	uint64_t sectors; /* of 512 bytes */
	uint32_t physical_sector_size;
	uint32_t discard_granularity;
};

/* -EINVAL, -ENOMEM. */
int hello_read(const char *text, size_t len, struct hello *out);

/* One line without its end.  -ENOENT for an event we do not know, -EINVAL. */
int hello_read_event(const char *text, size_t len, enum vbd_event *out);
