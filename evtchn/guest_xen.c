/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A real guest: grants and event channels through Xen's own libraries.
 *
 * The only file that knows them, and where their -1 and errno end.  Each guest
 * has handles of its own, so that no ring sees another's events and closing
 * them gives everything back whatever went wrong before.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <xenevtchn.h>
#include <xengnttab.h>
#include <xentoollog.h>
#include "evtchn/guest.h"
#include "poll/wait.h"

struct xen {
	struct guest guest;
	uint16_t domid;
	struct xentoollog_logger silence;
	xengnttab_handle *gnttab;
	xenevtchn_handle *evtchn;
	void *ring;
	uint32_t ring_pages;
	/* what one copy hands to the kernel; grows to the largest seen */
	xengnttab_grant_copy_segment_t *segments;
	unsigned nr_segments;
	evtchn_port_t port; /* ours, not the frontend's */
	struct wait *wait; /* NULL: not bound */
};

static struct xen *xen_of(struct guest *guest)
{
	return (struct xen *)guest;
}

/* Without a logger the libraries would print to stderr. */
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

/* For calls that promise an errno: 0 there would look like success. */
static int failure(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* No device, or one that the kernel has no hypervisor for. */
static int open_failure(void)
{
	int err = failure();

	return err == -ENOENT || err == -ENXIO ? -ENODEV : err;
}

static void xen_unbind(struct guest *guest)
{
	struct xen *g = xen_of(guest);

	if (!g->wait)
		return;
	wait_remove_fd(g->wait, xenevtchn_fd(g->evtchn));
	/* if this fails, closing the handle does it */
	xenevtchn_unbind(g->evtchn, g->port);
	g->wait = NULL;
}

static void xen_unmap(struct guest *guest)
{
	struct xen *g = xen_of(guest);

	if (g->ring)
		xengnttab_unmap(g->gnttab, g->ring, g->ring_pages);
	g->ring = NULL;
}

static void xen_close(struct guest *guest)
{
	struct xen *g = xen_of(guest);

	xen_unbind(guest);
	xen_unmap(guest);
	if (g->evtchn)
		xenevtchn_close(g->evtchn);
	if (g->gnttab)
		xengnttab_close(g->gnttab);
	free(g->segments);
	free(g);
}

static int open_evtchn(struct xen *g)
{
	int fd, flags;

	g->evtchn = xenevtchn_open(&g->silence, 0);
	if (!g->evtchn)
		return open_failure();
	/* take looks whether there is an event, and must not wait for one */
	fd = xenevtchn_fd(g->evtchn);
	flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return failure();
	return 0;
}

static int xen_open(const char *where, uint32_t domid, struct guest **out)
{
	struct xen *g;
	int err;

	(void)where; /* there is one hypervisor */
	if (domid >= DOMID_FIRST_RESERVED)
		return -EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->guest.ops = &guest_xen;
	g->domid = (uint16_t)domid;
	g->silence.vmessage = say_nothing;
	g->silence.destroy = keep;

	g->gnttab = xengnttab_open(&g->silence, 0);
	err = g->gnttab ? open_evtchn(g) : open_failure();
	if (err) {
		xen_close(&g->guest);
		return err;
	}
	*out = &g->guest;
	return 0;
}

static int xen_map(struct guest *guest, const uint32_t *grefs, unsigned n,
		   void **out)
{
	struct xen *g = xen_of(guest);
	void *ring;

	assert(!g->ring);
	if (n == 0)
		return -EINVAL;
	/* the library only reads the references, its prototype is older */
	ring = xengnttab_map_domain_grant_refs(g->gnttab, n, g->domid,
					       (uint32_t *)grefs,
					       PROT_READ | PROT_WRITE);
	if (!ring)
		return failure();
	g->ring = ring;
	g->ring_pages = n;
	*out = ring;
	return 0;
}

static int reserve_segments(struct xen *g, unsigned n)
{
	xengnttab_grant_copy_segment_t *more;

	if (n <= g->nr_segments)
		return 0;
	more = realloc(g->segments, n * sizeof(*more));
	if (!more)
		return -ENOMEM;
	g->segments = more;
	g->nr_segments = n;
	return 0;
}

static void fill_segment(const struct xen *g, enum guest_direction direction,
			 const struct guest_copy *c,
			 xengnttab_grant_copy_segment_t *segment)
{
	union xengnttab_copy_ptr theirs = { .foreign = { .ref = c->gref,
							 .offset = c->offset,
							 .domid = g->domid } };
	union xengnttab_copy_ptr ours = { .virt = c->local };
	bool to_us = direction == GUEST_TO_US;

	segment->source = to_us ? theirs : ours;
	segment->dest = to_us ? ours : theirs;
	segment->len = c->len;
	segment->flags = to_us ? GNTCOPY_source_gref : GNTCOPY_dest_gref;
	segment->status = GNTST_general_error;
}

static int status_err(int16_t status)
{
	if (status == GNTST_okay)
		return 0;
	return status == GNTST_eagain ? -EAGAIN : -EIO;
}

static int xen_copy(struct guest *guest, enum guest_direction direction,
		    struct guest_copy *copies, unsigned n)
{
	struct xen *g = xen_of(guest);
	bool done = reserve_segments(g, n) == 0;
	unsigned i, sent = 0;
	int err = 0;

	/* one piece over the end of its page would fail the whole call */
	for (i = 0; i < n; i++) {
		copies[i].err = -EIO;
		if (!done || copies[i].offset + copies[i].len > GUEST_PAGE_SIZE)
			continue;
		fill_segment(g, direction, &copies[i], &g->segments[sent++]);
		copies[i].err = 0;
	}
	/* if the call fails nobody knows which of them were copied */
	if (sent)
		done = xengnttab_grant_copy(g->gnttab, sent, g->segments) == 0;
	for (i = 0, sent = 0; i < n; i++) {
		if (!copies[i].err)
			copies[i].err =
				done ? status_err(g->segments[sent++].status)
				     : -EIO;
		if (copies[i].err)
			err = -EIO;
	}
	return err;
}

static int xen_bind(struct guest *guest, uint32_t port, struct wait *wait,
		    struct wait_source *source)
{
	struct xen *g = xen_of(guest);
	int bound, err;

	assert(!g->wait);
	bound = xenevtchn_bind_interdomain(g->evtchn, g->domid, port);
	if (bound < 0)
		return failure();
	/* level-triggered: take's read is what makes it quiet again */
	err = wait_add_fd(wait, source, xenevtchn_fd(g->evtchn), EPOLLIN);
	if (err) {
		xenevtchn_unbind(g->evtchn, (evtchn_port_t)bound);
		return err;
	}
	g->port = (evtchn_port_t)bound;
	g->wait = wait;
	return 0;
}

static int xen_take(struct guest *guest)
{
	struct xen *g = xen_of(guest);
	int port;

	assert(g->wait);
	port = xenevtchn_pending(g->evtchn);
	if (port < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : failure();
	return (evtchn_port_t)port == g->port;
}

static int xen_rearm(struct guest *guest)
{
	struct xen *g = xen_of(guest);

	assert(g->wait);
	return xenevtchn_unmask(g->evtchn, g->port) < 0 ? failure() : 0;
}

static int xen_notify(struct guest *guest)
{
	struct xen *g = xen_of(guest);

	assert(g->wait);
	return xenevtchn_notify(g->evtchn, g->port) < 0 ? failure() : 0;
}

static int xen_death_fd(struct guest *guest)
{
	(void)guest;
	return -1; /* xenstore says so, to tapback */
}

static int xen_pid(struct guest *guest)
{
	(void)guest;
	return 0;
}

const struct guest_ops guest_xen = {
	.name = "xen",
	.open = xen_open,
	.close = xen_close,
	.map = xen_map,
	.unmap = xen_unmap,
	.copy = xen_copy,
	.bind = xen_bind,
	.unbind = xen_unbind,
	.take = xen_take,
	.rearm = xen_rearm,
	.notify = xen_notify,
	.death_fd = xen_death_fd,
	.pid = xen_pid,
};
