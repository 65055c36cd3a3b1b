/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store of everything that is a file or a block device: libaio.
 *
 * What one turn submits goes to the kernel in one io_submit; what the kernel
 * would do while the caller waits goes to a worker.  Knows bytes of a file and
 * nothing of blocks: what is not aligned as the file wants it fails.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "drivers/aio.h"
#include "drivers/drivers.h"
#include "drivers/file.h"
#include "drivers/inbox.h"
#include "drivers/worker.h"
#include "poll/host.h"
#include "poll/log.h"

struct aio {
	int fd;
	char *path;
	struct worker worker;
};

/* One io in flight. */
struct slot {
	struct work work; /* first: comes back as a letter */
	struct iocb iocb;
	struct io *io;
	uint64_t done; /* bytes */
	struct aio_port *port;
	struct slot *next; /* while it is free */
};

struct aio_port {
	struct aio *aio;
	struct inbox inbox; /* from the worker */
	bool synchronous; /* there is no context */
	bool no_fdsync; /* this kernel cannot flush asynchronously */
	struct aio_context context;
	/* oldest first */
	struct io *waiting, **waiting_tail; /* for a free slot */
	struct iocb **queue; /* for io_submit */
	unsigned queued;
	struct slot *free;
	struct slot slots[];
};

static int aio_open(const char *arg, struct node *below, unsigned flags,
		    struct driver_info *info, void **priv)
{
	struct aio *aio;
	int err = -ENOMEM;

	(void)below;
	aio = calloc(1, sizeof(*aio));
	if (!aio)
		return -ENOMEM;
	aio->fd = -1;
	aio->path = strdup(arg);
	if (!aio->path)
		goto out;
	aio->fd = file_open(arg, flags, info);
	if (aio->fd < 0) {
		err = aio->fd;
		goto out;
	}
	worker_init(&aio->worker, aio->fd);
	*priv = aio;
	aio = NULL;
	err = 0;
out:
	if (aio)
		free(aio->path);
	free(aio);
	return err;
}

static void aio_close(void *priv)
{
	struct aio *aio = priv;

	worker_fini(&aio->worker);
	close(aio->fd);
	free(aio->path);
	free(aio);
}

static void finish(struct slot *slot, int err)
{
	struct aio_port *p = slot->port;
	struct io *io = slot->io;

	slot->next = p->free;
	p->free = slot;
	io->done(io, err);
}

/*
 * How an fdatasync that was tried has ended.  It tells once of pages that were
 * lost, with whatever error writing them had met: where that is one of those
 * that elsewhere mean "not now, nothing happened", it must not pass for one.
 */
static int flush_ended(int err)
{
	return err == -EAGAIN || err == -EBUSY || err == -ENOMEM ? -EIO : err;
}

static void work_done(struct mail *mail)
{
	struct slot *slot = (struct slot *)mail;
	int err = slot->work.err;

	finish(slot, slot->io->op == IO_FLUSH ? flush_ended(err) : err);
}

static void give_to_worker(struct slot *slot)
{
	int err;

	slot->work.mail.fn = work_done;
	slot->work.io = slot->io;
	slot->work.reply = &slot->port->inbox.box;
	err = worker_submit(&slot->port->aio->worker, &slot->work);
	if (err)
		finish(slot, err);
}

/*
 * @res bytes more were transferred, or an error.  True: the io goes on with
 * what is left.  False: it has ended, with *err.
 */
static bool advance(struct slot *slot, int64_t res, int *err)
{
	*err = 0;
	if (res == -EINTR)
		return true;
	if (res < 0) {
		/* the rest of a transfer that was cut within a block */
		*err = res == -EINVAL && slot->done ? -EIO : (int)res;
		if (slot->io->op == IO_FLUSH)
			*err = flush_ended((int)res);
		return false;
	}
	if (slot->io->op == IO_FLUSH)
		return false;
	slot->done += (uint64_t)res;
	if (slot->done >= slot->io->len)
		return false;
	if (res)
		return true;
	*err = -EIO; /* the file ends inside of the image */
	return false;
}

static void do_synchronously(struct slot *slot)
{
	const struct io *io = slot->io;
	int fd = slot->port->aio->fd, err;
	int64_t res;

	if (io->op == IO_FLUSH) {
		if (io->at_once)
			finish(slot, fdatasync(fd) < 0 ? -errno : 0);
		else
			give_to_worker(slot);
		return;
	}
	do {
		char *buf = (char *)io->buf + slot->done;
		off_t offset = (off_t)(io->offset + slot->done);
		size_t len = io->len - slot->done;

		res = io->op == IO_READ ? pread(fd, buf, len, offset)
					: pwrite(fd, buf, len, offset);
		if (res < 0)
			res = -errno;
	} while (advance(slot, res, &err));
	finish(slot, err);
}

/* Put what is left of an io into the queue. */
static void enqueue(struct slot *slot)
{
	const struct io *io = slot->io;
	struct aio_port *p = slot->port;
	int fd = p->aio->fd;
	char *buf = (char *)io->buf + slot->done;
	size_t len = io->len - slot->done;
	long long offset = (long long)(io->offset + slot->done);

	if (io->op == IO_READ)
		io_prep_pread(&slot->iocb, fd, buf, len, offset);
	else if (io->op == IO_WRITE)
		io_prep_pwrite(&slot->iocb, fd, buf, len, offset);
	else
		io_prep_fdsync(&slot->iocb, fd);
	slot->iocb.data = slot;
	aio_context_add(&p->context, &slot->iocb);
	p->queue[p->queued++] = &slot->iocb;
}

static void start(struct slot *slot, struct io *io)
{
	struct aio_port *p = slot->port;

	slot->io = io;
	slot->done = 0;
	if (io->op == IO_DISCARD || io->op == IO_WRITE_ZEROES ||
	    (io->op == IO_FLUSH && p->no_fdsync))
		give_to_worker(slot);
	else if (p->synchronous || io->at_once)
		do_synchronously(slot);
	else
		enqueue(slot);
}

static struct slot *take_slot(struct aio_port *p)
{
	struct slot *slot = p->free;

	p->free = slot->next;
	return slot;
}

static void aio_submit(struct port *port, struct io *io)
{
	struct aio_port *p = port->priv;

	if (p->free && !p->waiting) {
		start(take_slot(p), io);
		return;
	}
	io->next = NULL;
	*p->waiting_tail = io;
	p->waiting_tail = &io->next;
}

static unsigned start_waiting(struct aio_port *p)
{
	struct io *io;
	unsigned n;

	for (n = 0; p->free && p->waiting; n++) {
		io = p->waiting;
		p->waiting = io->next;
		if (!p->waiting)
			p->waiting_tail = &p->waiting;
		start(take_slot(p), io);
	}
	return n;
}

static void dequeue(struct aio_port *p, unsigned n)
{
	p->queued -= n;
	memmove(p->queue, p->queue + n, p->queued * sizeof(*p->queue));
}

/* io_submit took none: the oldest is why. */
static void submit_failed(struct aio_port *p, int err)
{
	struct slot *slot = p->queue[0]->data;

	dequeue(p, 1);
	aio_context_drop(&p->context);
	if (err == -EAGAIN) {
		do_synchronously(slot);
	} else if (err == -EINVAL && slot->io->op == IO_FLUSH) {
		p->no_fdsync = true;
		give_to_worker(slot);
	} else {
		finish(slot, err);
	}
}

/* Hand the queue to the kernel.  Returns how many io moved. */
static unsigned submit_queue(struct aio_port *p)
{
	unsigned n = 0;
	int rc;

	while (p->queued) {
		rc = aio_context_submit(&p->context, p->queued, p->queue);
		if (rc > 0) {
			dequeue(p, (unsigned)rc);
			n += (unsigned)rc;
			continue;
		}
		/* what is in flight makes room when it ends */
		if (rc == -EAGAIN && p->context.in_kernel)
			break;
		submit_failed(p, rc);
		n++;
	}
	return n;
}

static unsigned reap(struct aio_port *p)
{
	struct io_event event;
	struct slot *slot;
	unsigned n;
	int err;

	aio_context_begin(&p->context);
	for (n = 0; aio_context_take(&p->context, &event); n++) {
		slot = event.data;
		if (advance(slot, (int64_t)event.res, &err))
			enqueue(slot);
		else
			finish(slot, err);
	}
	return n;
}

static unsigned aio_turn(struct port *port)
{
	struct aio_port *p = port->priv;
	unsigned n, moved;

	n = inbox_turn(&p->inbox);
	if (p->synchronous)
		return n + start_waiting(p);
	n += reap(p);
	do {
		moved = start_waiting(p) + submit_queue(p);
		n += moved;
		if (moved)
			n += reap(p); /* some have ended already */
	} while (moved && (p->queued || p->waiting));
	aio_context_rest(&p->context);
	return n;
}

/* Say why there is no context, in the words of who can change that. */
static void log_refused(const struct aio *aio, unsigned depth, int err)
{
	char limit[32];
	ssize_t n;

	if (err != -EAGAIN) {
		log_warn("aio: %s: io_setup(%u): %s; doing synchronous I/O",
			 aio->path, depth, strerror(-err));
		return;
	}
	n = host_read_text("/proc/sys/fs/aio-max-nr", limit, sizeof(limit));
	limit[n > 0 ? strcspn(limit, "\n") : 0] = '\0';
	log_warn("aio: %s: io_setup(%u): the host's AIO events are used up: "
		 "doing synchronous I/O until the disk is opened again; raise "
		 "fs.aio-max-nr, now %s (sysctl -w fs.aio-max-nr=1048576)",
		 aio->path, depth, limit);
}

static struct aio_port *allocate(struct aio *aio, unsigned depth)
{
	struct aio_port *p;

	p = calloc(1, sizeof(*p) + depth * sizeof(*p->slots));
	if (!p)
		return NULL;
	p->queue = calloc(depth, sizeof(*p->queue));
	if (!p->queue) {
		free(p);
		return NULL;
	}
	p->aio = aio;
	p->waiting_tail = &p->waiting;
	for (unsigned i = 0; i < depth; i++) {
		p->slots[i].port = p;
		p->slots[i].next = p->free;
		p->free = &p->slots[i];
	}
	return p;
}

static int aio_port_open(struct port *port)
{
	struct aio *aio = port->node->priv;
	struct aio_port *p;
	int err;

	p = allocate(aio, port->depth);
	if (!p)
		return -ENOMEM;
	err = inbox_open(&p->inbox, port->wait);
	if (err)
		goto out;
	err = aio_context_open(&p->context, port->wait, port->depth);
	if (err == -EAGAIN || err == -ENOSYS) {
		log_refused(aio, port->depth, err);
		p->synchronous = true;
		err = 0;
	}
	if (err) {
		inbox_close(&p->inbox);
		goto out;
	}
	port->priv = p;
	p = NULL;
out:
	if (p)
		free(p->queue);
	free(p);
	return err;
}

static void aio_port_close(struct port *port)
{
	struct aio_port *p = port->priv;

	if (!p->synchronous)
		aio_context_close(&p->context);
	worker_settle(&p->aio->worker, &p->inbox.box);
	inbox_close(&p->inbox);
	free(p->queue);
	free(p);
}

/* A device, or a file system that cannot tell, is one extent of data. */
static int aio_extents(struct port *port, uint64_t offset, uint64_t len,
		       struct extent *out, unsigned max)
{
	const struct aio *aio = port->node->priv;
	uint64_t end = offset + len;
	unsigned n = 0;
	off_t next;

	while (n < max && offset < end) {
		next = lseek(aio->fd, (off_t)offset, SEEK_DATA);
		if (next < 0 && errno != ENXIO) {
			out[n].kind = EXTENT_DATA;
			next = (off_t)end;
		} else if (next < 0 || next > (off_t)offset) {
			out[n].kind = EXTENT_ZERO;
			if (next < 0) /* a hole up to the end of the file */
				next = (off_t)end;
		} else {
			out[n].kind = EXTENT_DATA;
			next = lseek(aio->fd, (off_t)offset, SEEK_HOLE);
			if (next <= (off_t)offset)
				next = (off_t)end;
		}
		out[n].len = (uint64_t)next - offset;
		offset = (uint64_t)next;
		n++;
	}
	return (int)n;
}

const struct driver aio_store = {
	.name = "aio",
	.stats_type = 0,
	.below = DRIVER_ON_NOTHING,
	.open = aio_open,
	.close = aio_close,
	.port_open = aio_port_open,
	.port_close = aio_port_close,
	.submit = aio_submit,
	.turn = aio_turn,
	.extents = aio_extents,
};
