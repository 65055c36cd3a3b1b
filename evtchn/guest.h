/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guest: its memory and its doorbell.  Everything ever asked of a
 * hypervisor is one of these calls; implementations are found by name.
 *
 * One struct guest serves one ring, and one thread at a time: main opens, maps
 * and binds it, the ring's data thread uses it from then on, main closes it.
 * Units: grant references as the frontend published them; offsets and lengths
 * are bytes within one 4096-byte page.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUEST_PAGE_SIZE 4096

struct wait;
struct wait_source;
struct guest;

/* One piece of one guest page.  May not cross the page's end. */
struct guest_copy {
	uint32_t gref;
	uint16_t offset;
	uint16_t len;
	void *local;
	int err; /* result: 0, or -EIO (bad or revoked grant), -EAGAIN */
};

enum guest_direction { GUEST_TO_US, US_TO_GUEST };

struct guest_ops {
	const char *name; /* what a spec starts with: "xen", "local" */
	/*
	 * @where is what follows the name's colon (local: a socket's path).
	 * -ENODEV if this host has no such guests, else -errno.
	 */
	int (*open)(const char *where, uint32_t domid, struct guest **out);
	/* Unmaps and unbinds what still is. */
	void (*close)(struct guest *guest);
	/*
	 * Map @n ring pages, in order, read-write at *out.  -EINVAL if a
	 * reference is not offered, else -errno.  At most once per guest.
	 */
	int (*map)(struct guest *guest, const uint32_t *grefs, unsigned n,
		   void **out);
	void (*unmap)(struct guest *guest);
	/*
	 * Copy @n pieces, all in one direction, in one system call.  Every
	 * copies[i].err is set.  Returns 0 if all are 0, else -EIO.
	 */
	int (*copy)(struct guest *guest, enum guest_direction direction,
		    struct guest_copy *copies, unsigned n);
	/*
	 * Bind the frontend's event-channel port; from then on an event ends a
	 * sleep of @wait and @source is told.  -EINVAL if it is not offered,
	 * else -errno.  At most once per guest.
	 */
	int (*bind)(struct guest *guest, uint32_t port, struct wait *wait,
		    struct wait_source *source);
	void (*unbind)(struct guest *guest);
	/*
	 * Take the pending event: 1, and the port stays masked until rearm; 0
	 * if there is none; -errno.  Never blocks.
	 */
	int (*take)(struct guest *guest);
	/* Unmask.  An event that came while masked wakes at once.  0, -errno.
	 */
	int (*rearm)(struct guest *guest);
	/* Ring the frontend's bell.  Never blocks.  0 or -errno. */
	int (*notify)(struct guest *guest);
	/*
	 * A descriptor that hangs up (EPOLLHUP) when the guest is gone, for the
	 * main loop; -1 if this kind of guest has none.
	 */
	int (*death_fd)(struct guest *guest);
	/*
	 * The process of this host that is the guest, whose CPU time is not
	 * the host's; 0 if it is none.
	 */
	int (*pid)(struct guest *guest);
};

struct guest {
	const struct guest_ops *ops;
};

extern const struct guest_ops guest_xen;
extern const struct guest_ops guest_local;

/* All implementations, ended by NULL. */
extern const struct guest_ops *const guest_table[];

/*
 * Open by the name a connect message carries: "local:PATH" is a local guest,
 * anything else (empty, "xen", upstream's pool names) is Xen.
 *
 * Returns 0; -ENAMETOOLONG, -ENOMEM, or what the implementation's open does.
 */
int guest_open(const char *name, uint32_t domid, struct guest **out);
