/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that the tapdisks of a host share: who spins how much, and what a
 * sleep costs here.
 *
 * It is read and written, never mapped: nobody who truncates it can end a
 * tapdisk.  A slot belongs to the process that holds a lock on it, and the
 * kernel gives locks back at death: no slot of a dead process counts, and none
 * can be held in somebody else's name.  Everything else in the file is a claim:
 * checked, and bounded by whoever uses it.  The last one out removes the file.
 * Main thread only.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "poll/calibrate.h"
#include "poll/cpu_price.h"

#define HOST_PAGE_SLOTS 1024
/* A slot that was not written for this long is not active. */
#define HOST_PAGE_FRESH_NS UINT64_C(5000000000)

struct host_page;

/* What a process says of itself. */
struct host_page_slot {
	uint64_t written_ns; /* CLOCK_MONOTONIC */
	uint64_t spin_ns; /* spent since its start */
	uint32_t rate; /* ns of CPU a second */
	bool active;
	bool hungry;
};

/*
 * Join the page @path; it is made if missing.  Returns 0, or an error after
 * which the process does without: -EPERM if others can write the file or own
 * it, -EINVAL if it is no file or not ours, -EBUSY if somebody sits on its
 * lock, -ENOSPC if all slots are taken, -ENOMEM, -errno of open.
 */
int host_page_open(const char *path, struct host_page **out);

/* NULL is fine. */
void host_page_close(struct host_page *page);

/* Write our slot.  0 or -errno; -ESTALE if the file is no longer the page. */
int host_page_publish(struct host_page *page,
		      const struct host_page_slot *slot);

/*
 * The other active processes, at most HOST_PAGE_SLOTS, into @out, which stays
 * valid until the next call.  Returns how many.
 */
size_t host_page_peers(struct host_page *page, uint64_t now_ns,
		       const struct cpu_price_peer **out);

/*
 * Figures that a tapdisk with the same CPUs has measured since boot, not before
 * @oldest_ns; @when_ns is when.  0 or -ENOENT.
 */
int host_page_calibration(struct host_page *page, uint64_t oldest_ns,
			  uint64_t now_ns, struct calibration *out,
			  uint64_t *when_ns);

/* Before measuring: -EAGAIN if another process does it now. */
int host_page_calibrating(struct host_page *page);
/* Afterwards; @figures NULL if it failed.  0 or -errno of write. */
int host_page_calibrated(struct host_page *page, uint64_t now_ns,
			 const struct calibration *figures);
