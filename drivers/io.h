/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The currency between ring and driver: one operation on a range of bytes.
 *
 * A struct io belongs to whoever was handed it, until that one calls done,
 * exactly once, on the thread that submitted it.  done may be called from
 * within submit.  There are no short results: done says 0 only if all of the
 * range was done; after an error any part of it may have been.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

struct image_port;

enum io_op {
	IO_READ,
	IO_WRITE,
	IO_FLUSH, /* covers every write whose done was called before submit */
	IO_DISCARD, /* the range reads as zeros or as before */
	IO_WRITE_ZEROES, /* the range reads as zeros */
	NR_IO_OPS
};

struct io {
	enum io_op op;
	uint64_t offset; /* bytes; 0 for a flush */
	uint64_t len; /* bytes; 0 for a flush */
	void *buf; /* len bytes for read and write, else NULL */
	void (*done)(struct io *io, int err); /* err: 0 or -errno */
	bool at_once; /* nothing else waits: it may be done before submit
			 returns */
	/* whoever holds it may use these */
	struct io *next;
	uint64_t held; /* a date, a count: the holder's business */
	/* image's own, from image_submit until done: no allocation per io */
	struct image_port *image;
	void (*answer)(struct io *io, int err); /* the submitter's done */
};

/* It was refused before anything happened: it may be tried again, later. */
static inline bool io_refused(int err)
{
	return err == -EAGAIN || err == -EBUSY || err == -EINTR ||
	       err == -ENOMEM;
}
