/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain behind a frontend: its memory and its event channel, on either
 * side of the wall that evtchn/guest.h is: an ordinary process for guest_local
 * (domain_local.c), or this domain itself, through Xen, for guest_xen
 * (domain_xen.c).  It knows nothing of block devices.  Page 0 belongs to the
 * domain.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct domain;

struct domain_ops {
	/* The domain dies: a local one's backends see a hang-up. */
	void (*close)(struct domain *d);
	bool (*ring)(struct domain *d);
	uint32_t (*heard)(struct domain *d);
	bool (*listen)(struct domain *d, uint32_t seen, uint64_t timeout_ns);
};

struct domain {
	const struct domain_ops *ops;
	uint8_t *memory;
	size_t bytes;
	const uint32_t *refs; /* the grant reference of each page */
	uint32_t port; /* what a backend binds */
	uint32_t no_ref, no_port; /* some that are not offered */
};

/*
 * A local domain with memory of @nr_pages, whose backends connect at @path.
 * 0, -ENAMETOOLONG, -EADDRINUSE...
 */
int domain_local_open(const char *path, uint32_t nr_pages, struct domain **out);
/*
 * This domain, with @nr_pages granted to domain 0, which may be itself.
 * 0; -ENODEV where there is no Xen; -errno.
 */
int domain_xen_open(uint32_t nr_pages, struct domain **out);

static inline void domain_close(struct domain *d)
{
	d->ops->close(d);
}

/* Send an event to the backend.  True if it was sent. */
static inline bool domain_ring(struct domain *d)
{
	return d->ops->ring(d);
}

/* A number that each event from the backend changes. */
static inline uint32_t domain_heard(struct domain *d)
{
	return d->ops->heard(d);
}

/*
 * Sleep until domain_heard is not @seen, or until @timeout_ns have passed.
 * May end early.  True if it slept and an event woke it.
 */
static inline bool domain_listen(struct domain *d, uint32_t seen,
				 uint64_t timeout_ns)
{
	return d->ops->listen(d, seen, timeout_ns);
}
