/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guest says about its half of a device.  All of it is the guest's to
 * write, at any moment, so it is read in one transaction, each key once, and
 * judged before use.  Knows nothing of what is done with it.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "ring/vbd.h"
#include "tools/tapback/store.h"

#define FRONTEND_WHY_MAX 64

struct frontend_keys {
	enum abi abi;
	uint32_t port;
	unsigned nr_refs;
	uint32_t refs[VBD_RING_PAGES_MAX];
	bool cdrom;
	/* which key is wrong, after an error */
	char why[FRONTEND_WHY_MAX];
};

/*
 * The keys of the frontend at @dir, for a backend that takes rings of at most
 * 2^@order_max pages.  -ENOENT (a key is missing), -EINVAL, -ERANGE, -E2BIG,
 * -EPROTONOSUPPORT, -EOPNOTSUPP (device-type), -ENOTSUP (many queues), or
 * -errno of the store.
 */
int frontend_read(struct store *store, const char *dir, unsigned order_max,
		  struct frontend_keys *out);

/* Whether both describe the same ring. */
bool frontend_same_ring(const struct frontend_keys *a,
			const struct frontend_keys *b);

#define FRONTEND_ABSENT (-1)
#define FRONTEND_JUNK (-2)

/* A XenbusState or one of those above.  -errno of the store. */
int frontend_state(struct store *store, const char *dir, int *out);
