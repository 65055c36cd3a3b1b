/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All devices: xenstore's watches, and whom each event concerns.
 *
 * An event only pokes a device; so a thousand events about one cost one look,
 * and each turn of the loop takes a bounded number of them.  Logs.
 */
#pragma once

#include <stdint.h>
#include "tools/tapback/device.h"

struct devices;

#define DEVICES_ALL UINT32_MAX

/*
 * Find all devices of env->name, those of domain @only if it is not
 * DEVICES_ALL, and serve them as long as the loop runs.  @left is called when
 * the domain @only has no device any more, after it had some; it may be NULL,
 * as may @lost, which is called when xenstore is.
 */
struct devices_owner {
	void (*left)(void *arg);
	void (*lost)(void *arg, int err);
	void *arg;
};

/* @env stays the caller's.  Logs.  -ENOMEM, -errno of the store or loop. */
int devices_open(const struct device_env *env, uint32_t only,
		 const struct devices_owner *owner, struct devices **out);

/* Leaves every ring to its tapdisk. */
void devices_close(struct devices *devices);

/* NULL if there is none. */
struct device *devices_find(struct devices *devices, uint32_t domid,
			    uint32_t devid);
