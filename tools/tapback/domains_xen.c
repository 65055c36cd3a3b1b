/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libxenctrl, of which only the one call is used that has been the same in
 * every Xen we may meet.
 */
#include <errno.h>
#include <stdlib.h>
#include <xenctrl.h>
#include "tools/tapback/domains.h"

struct domains_xen {
	struct domains domains;
	xc_interface *xc;
};

static bool domains_xen_dead(struct domains *domains, uint32_t domid)
{
	struct domains_xen *xen = (struct domains_xen *)domains;
	xc_domaininfo_t info;
	int n;

	/* the first domain from @domid on */
	n = xc_domain_getinfolist(xen->xc, domid, 1, &info);
	if (n < 0)
		return false; /* we do not know, and being wrong costs I/O */
	return n == 0 || info.domain != domid ||
	       (info.flags & XEN_DOMINF_dying);
}

static void domains_xen_close(struct domains *domains)
{
	struct domains_xen *xen = (struct domains_xen *)domains;

	xc_interface_close(xen->xc);
	free(xen);
}

int domains_xen_open(struct domains **out)
{
	struct domains_xen *xen = calloc(1, sizeof(*xen));
	int err;

	if (!xen)
		return -ENOMEM;
	xen->xc = xc_interface_open(NULL, NULL, 0);
	if (!xen->xc) {
		err = errno ? -errno : -EIO;
		free(xen);
		return err;
	}
	xen->domains.dead = domains_xen_dead;
	xen->domains.close = domains_xen_close;
	*out = &xen->domains;
	return 0;
}
