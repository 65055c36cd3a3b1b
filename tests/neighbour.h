/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other tapdisks of a host, for tests of the page they share: processes that
 * open it, do something with it, and stay until told to go.  Functions fail the
 * running test when a step that should work does not.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include "poll/host_page.h"

#define NEIGHBOUR_PAGE_BYTES                             \
	69632 /* 64 records of 64 bytes, then 1024 slots \
	       */
#define NEIGHBOUR_SLOTS_AT 4096
#define NEIGHBOUR_RATE 5000000

struct neighbour {
	pid_t pid;
	int go, said;
};

/* Another process opens the page @path and runs @fn; it has, on return. */
struct neighbour neighbour_start(const char *path,
				 void (*fn)(struct host_page *page));
/* It closes the page and ends; it is killed. */
void neighbour_finish(struct neighbour *other);
void neighbour_die(struct neighbour *other);

/* For neighbour_start: it spins, and says so. */
void neighbour_is_busy(struct host_page *page);

/* What one says that spins just now; valid until the next call. */
const struct host_page_slot *neighbour_slot(void);

/* This process opens the page; the file is there; who it sees in it. */
struct host_page *neighbour_page(const char *path);
bool neighbour_page_exists(const char *path);
size_t neighbour_count(struct host_page *page);
