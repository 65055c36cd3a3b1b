/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain behind a local guest: its memory, its event channels and the
 * thread that hands both to whoever connects, see evtchn/guest_local.h.  It
 * knows nothing of block devices.  Page 0 of the memory is the doorbells.
 */
#pragma once

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#define DOMAIN_PORTS 2
#define DOMAIN_BACKENDS_MAX 32 /* connected at one time */
#define DOMAIN_POLLED (2 + DOMAIN_BACKENDS_MAX)

struct domain {
	uint8_t *memory;
	size_t bytes;
	int memory_fd;
	int events[DOMAIN_PORTS];
	/* domain's own */
	struct sockaddr_un address;
	pthread_t thread;
	bool running; /* the thread */
	bool bound; /* the path is ours to remove */
	int listen_fd;
	int stop_fd;
	/* the thread's: stop, listen, then the connected backends */
	struct pollfd polled[DOMAIN_POLLED];
};

/* Memory of @nr_pages; listen at @path.  0, -ENAMETOOLONG, -EADDRINUSE... */
int domain_init(struct domain *d, const char *path, uint32_t nr_pages);
/* The domain dies: backends see a hang-up. */
void domain_fini(struct domain *d);

/* The futex word that the backend's notify adds to. */
uint32_t *domain_bell(struct domain *d, unsigned port);

/* Send an event to the backend.  True if it was sent. */
bool domain_ring(struct domain *d, unsigned port);
