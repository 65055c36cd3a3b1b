/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a domain is dead: being destroyed, or gone.  A domain that is shut
 * down, suspended or crashed is not; it may go on, or be looked at.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct domains {
	bool (*dead)(struct domains *domains, uint32_t domid);
	void (*close)(struct domains *domains);
};

/* The hypervisor's word, through libxenctrl.  -errno of xc_interface_open. */
int domains_xen_open(struct domains **out);
