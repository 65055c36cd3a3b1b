/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small, correct blkfront: memory, a ring, an event channel, on the local
 * guest or on Xen (tests/domain.h).  It knows blkif from the guest's side and
 * nothing of tapdisk.  One thread; never logs.
 *
 * Life: frontend_open makes the guest's memory and listens at a path; someone
 * (tap-ctl connect, or a test calling vbd_connect) connects tapdisk to
 * "local:PATH" with frontend's refs and port; the listener thread hands over
 * memory and eventfds.  On Xen nobody listens, and domain and guest are "this
 * one" and "xen".  Several rings may be open in one guest (one frontend
 * each).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ring/abi.h"

#define FRONTEND_SEGMENTS_MAX 11
#define FRONTEND_PAGE 4096u

struct frontend;

struct frontend_options {
	const char *socket; /* path to listen at; NULL: on Xen, this domain */
	enum abi abi;
	unsigned ring_order; /* 0 to 4 */
	bool sleep; /* wait for an event; else spin on rsp_prod */
};

/* Data pages: one set of 11 for every slot of the ring. */
int frontend_open(const struct frontend_options *options,
		  struct frontend **out); /* 0, -errno */
void frontend_close(struct frontend *f); /* hangs up: the domain is dead */

unsigned frontend_slots(const struct frontend *f);
unsigned frontend_nr_refs(const struct frontend *f);
const uint32_t *frontend_refs(const struct frontend *f);
uint32_t frontend_port(const struct frontend *f);

/*
 * A fresh ring on the same memory, as after a reconnect: indices zeroed, what
 * was in flight forgotten.
 */
void frontend_reset(struct frontend *f);

/* One request.  Data lies in the pages of the tag it got. */
struct frontend_request {
	uint8_t op; /* BLKIF_OP_* */
	uint64_t sector; /* 512 bytes */
	unsigned nr_segments; /* 0 to 11 */
	struct {
		uint8_t first, last; /* sectors in the page, 0 to 7 */
	} segments[FRONTEND_SEGMENTS_MAX];
	uint64_t nr_sectors; /* discard */
	uint64_t user; /* comes back with the response */
};

/* Segments for @len bytes (a multiple of 512, at most 44 KiB) from @sector. */
void frontend_fill(struct frontend_request *r, uint8_t op, uint64_t sector,
		   size_t len);

/* The tag the next frontend_queue will use, -EAGAIN if the ring is full. */
int frontend_next_tag(struct frontend *f);
/* The 44 KiB of data pages of @tag. */
void *frontend_data(struct frontend *f, unsigned tag);
uint32_t frontend_data_ref(struct frontend *f, unsigned tag, unsigned page);

/* Put a request on the ring (not yet published).  Its tag, or -EAGAIN. */
int frontend_queue(struct frontend *f, const struct frontend_request *r);

/* Publish, and send an event only if req_event asks for one.  True if sent. */
bool frontend_push(struct frontend *f);
/* Send an event whatever req_event says. */
void frontend_kick(struct frontend *f);

struct frontend_response {
	unsigned tag;
	uint64_t user;
	uint8_t op;
	int16_t status;
};

/*
 * Take one response if there is one: 1; 0 if not; -EPROTO if the backend broke
 * a rule (unknown or finished id, wrong operation, too many).  The tag's data
 * stays valid until the tag is used again.
 */
int frontend_take(struct frontend *f, struct frontend_response *out);

/*
 * The same, waiting up to @timeout_ns as options.sleep says, strictly obeying
 * the event protocol: 1, -ETIMEDOUT, -EPROTO.
 */
int frontend_wait(struct frontend *f, uint64_t timeout_ns,
		  struct frontend_response *out);

/* One request, start to end: the response's status, or -ETIMEDOUT, -EPROTO...
 */
int frontend_do(struct frontend *f, const struct frontend_request *r,
		uint64_t timeout_ns, unsigned *tag);

unsigned frontend_in_flight(const struct frontend *f);

struct frontend_counters {
	uint64_t requests;
	uint64_t responses;
	uint64_t kicks; /* events we sent */
	uint64_t wakeups; /* times we slept and were woken */
};
const struct frontend_counters *frontend_counters(const struct frontend *f);

/*
 * For hostile tests: the ring's shared page (struct blkif_sring layout) and
 * the whole memory.
 */
void *frontend_sring(struct frontend *f);
void *frontend_memory(struct frontend *f, size_t *bytes);
