/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a frontend without Xen says to guest_local: the layout both sides
 * share.  The frontend listens on a SOCK_SEQPACKET unix socket; for each
 * connection it sends one hello with SCM_RIGHTS: first the memfd that is the
 * guest's memory, then one non-blocking eventfd per event-channel port, port 0
 * first.
 *
 * Grant reference n is page n of the memfd.  Page 0 is the doorbell page: word
 * n of it belongs to port n; the backend's notify adds 1 to it and wakes a
 * (shared) futex on it.  The memfd must be sealed against shrinking and growing
 * (F_SEAL_SHRINK, F_SEAL_GROW), else the connect is refused.  The frontend
 * rings by adding 1 to the port's eventfd.  When the socket hangs up the domain
 * is dead.
 */
#pragma once

#include <stdint.h>

#define GUEST_LOCAL_MAGIC 0x6c6f6361u /* "loca" */
#define GUEST_LOCAL_VERSION 1
#define GUEST_LOCAL_PORTS_MAX 64
#define GUEST_LOCAL_PAGES_MAX (1u << 20)

struct guest_local_hello {
	uint32_t magic;
	uint32_t version;
	uint32_t nr_pages;
	uint32_t nr_ports;
	uint32_t pid; /* whose CPU time is the guest's, not the host's */
	uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct guest_local_hello) == 24, "wire");
