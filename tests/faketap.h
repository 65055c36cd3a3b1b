/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket of a tapdisk that does as a test says: ours or a stock
 * one, slow, silent, refusing, dead.  It serves nobody; it remembers what it
 * was asked.  In the test's own loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/loop.h"
#include "tools/ctl/wire.h"

#define FAKETAP_CLIENTS 64

struct faketap_client {
	struct faketap *tap;
	struct loop_watch watch; /* fd -1: free */
	bool listens; /* to events */
	unsigned have;
	unsigned char bytes[WIRE_SIZE + 4096];
};

struct faketap {
	/* how it is; change at will */
	bool stock;
	bool silent; /* reads, does nothing, never answers */
	uint16_t mute; /* of this type of message: does it, never answers */
	uint64_t sectors;
	uint32_t physical, info, granularity;
	bool read_only;
	int refuse[256]; /* by type of message: the errno to answer */
	uint16_t hold; /* messages of this type wait for faketap_release */
	unsigned held;
	/* what it was asked */
	bool served;
	unsigned connects, disconnects, polls, hellos, all;
	struct wire_blkif ring; /* also of message 128 */
	uint32_t refs[16];
	unsigned nr_refs;
	char guest[64];
	uint32_t duration_us, idle_threshold;
	/* its own */
	struct loop *loop;
	int pid;
	uint16_t minor;
	char path[128];
	struct loop_watch listener;
	struct faketap_client clients[FAKETAP_CLIENTS];
};

/* One that nothing is said about; -EADDRINUSE... asserts. */
void faketap_open(struct faketap *tap, struct loop *loop, int pid,
		  uint16_t minor);
/* As if killed: its connections hang up, its socket stays behind. */
void faketap_kill(struct faketap *tap);
void faketap_close(struct faketap *tap);

/* Do what was held, and hold no more. */
void faketap_release(struct faketap *tap);

/* Say it to all who listen. */
void faketap_tell(struct faketap *tap, const char *event);
unsigned faketap_listeners(const struct faketap *tap);
/* Hang up on them. */
void faketap_hang_up(struct faketap *tap);
