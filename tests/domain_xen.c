/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This domain as a guest of domain 0's, see domain.h: pages granted through
 * gntalloc and an unbound event channel.  In dom0 both ends are the same
 * domain, which Xen does not mind.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <xenevtchn.h>
#include <xengnttab.h>
#include <xentoollog.h>
#include "evtchn/guest.h"
#include "tests/domain.h"

enum { BACKEND = 0 };

struct xen {
	struct domain domain; /* first */
	struct xentoollog_logger silence;
	xengntshr_handle *gntshr;
	xenevtchn_handle *evtchn;
	uint32_t *refs;
	uint32_t heard;
};

static struct xen *xen_of(struct domain *d)
{
	return (struct xen *)d;
}

static void say_nothing(struct xentoollog_logger *logger,
			xentoollog_level level, int errnoval,
			const char *context, const char *format, va_list args)
{
	(void)logger;
	(void)level;
	(void)errnoval;
	(void)context;
	(void)format;
	(void)args;
}

static void keep(struct xentoollog_logger *logger)
{
	(void)logger; /* it lives in struct xen */
}

static int failure(void)
{
	if (errno == ENOENT || errno == ENXIO)
		return -ENODEV;
	return errno > 0 ? -errno : -EIO;
}

static void xen_close(struct domain *d)
{
	struct xen *x = xen_of(d);

	if (x->evtchn)
		xenevtchn_close(x->evtchn); /* and with it the port */
	if (d->memory)
		xengntshr_unshare(x->gntshr, d->memory,
				  (uint32_t)(d->bytes / GUEST_PAGE_SIZE));
	if (x->gntshr)
		xengntshr_close(x->gntshr);
	free(x->refs);
	free(x);
}

static bool xen_ring(struct domain *d)
{
	return xenevtchn_notify(xen_of(d)->evtchn, d->port) == 0;
}

static uint32_t xen_heard(struct domain *d)
{
	struct xen *x = xen_of(d);
	xenevtchn_port_or_error_t port;

	while ((port = xenevtchn_pending(x->evtchn)) >= 0) {
		x->heard++;
		xenevtchn_unmask(x->evtchn, (evtchn_port_t)port);
	}
	return x->heard;
}

static bool xen_listen(struct domain *d, uint32_t seen, uint64_t timeout_ns)
{
	struct timespec left = {
		.tv_sec = (time_t)(timeout_ns / 1000000000),
		.tv_nsec = (long)(timeout_ns % 1000000000),
	};
	struct pollfd p = { .fd = xenevtchn_fd(xen_of(d)->evtchn),
			    .events = POLLIN };

	return xen_heard(d) == seen && ppoll(&p, 1, &left, NULL) == 1;
}

static const struct domain_ops xen_ops = {
	.close = xen_close,
	.ring = xen_ring,
	.heard = xen_heard,
	.listen = xen_listen,
};

static int make_port(struct xen *x)
{
	xenevtchn_port_or_error_t port;
	int fd, flags;

	x->evtchn = xenevtchn_open(&x->silence, 0);
	if (!x->evtchn)
		return failure();
	fd = xenevtchn_fd(x->evtchn);
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return failure();
	port = xenevtchn_bind_unbound_port(x->evtchn, BACKEND);
	if (port < 0)
		return failure();
	x->domain.port = (uint32_t)port;
	/* far from what a small host gives out, and within what there is */
	x->domain.no_port = 1000;
	return 0;
}

static int make_memory(struct xen *x, uint32_t nr_pages)
{
	x->gntshr = xengntshr_open(&x->silence, 0);
	if (!x->gntshr)
		return failure();
	x->refs = calloc(nr_pages, sizeof(*x->refs));
	if (!x->refs)
		return -ENOMEM;
	x->domain.memory =
		xengntshr_share_pages(x->gntshr, BACKEND, nr_pages, x->refs, 1);
	if (!x->domain.memory)
		return failure();
	x->domain.bytes = (size_t)nr_pages * GUEST_PAGE_SIZE;
	x->domain.refs = x->refs;
	/* Linux keeps the first few for consoles and gives them to nobody */
	x->domain.no_ref = 7;
	return 0;
}

int domain_xen_open(uint32_t nr_pages, struct domain **out)
{
	struct xen *x = calloc(1, sizeof(*x));
	int err;

	if (!x)
		return -ENOMEM;
	x->domain.ops = &xen_ops;
	x->silence.vmessage = say_nothing;
	x->silence.destroy = keep;
	err = make_memory(x, nr_pages);
	if (!err)
		err = make_port(x);
	if (err) {
		xen_close(&x->domain);
		return err;
	}
	*out = &x->domain;
	return 0;
}
