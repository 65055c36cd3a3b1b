/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of guests and the way in.  What a guest is, only the
 * implementations know.
 */
#include <string.h>
#include "evtchn/guest.h"

const struct guest_ops *const guest_table[] = { &guest_xen, &guest_local,
						NULL };

int guest_open(const char *name, uint32_t domid, struct guest **out)
{
	const struct guest_ops *ops;
	unsigned i;
	size_t len;

	for (i = 0; (ops = guest_table[i]); i++) {
		len = strlen(ops->name);
		if (!strncmp(name, ops->name, len) && name[len] == ':')
			return ops->open(name + len + 1, domid, out);
	}
	/* "", "xen" and upstream's pool names, which mean nothing to us */
	return guest_xen.open("", domid, out);
}
