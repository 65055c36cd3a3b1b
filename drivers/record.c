/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record:to=FILE;SPEC, which writes down what changes the disk: see record.h
 * for the format.  For tests: it writes FILE while the data thread waits.  An
 * io that cannot be written down fails, so that a record is never incomplete
 * without somebody noticing.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "drivers/drivers.h"
#include "drivers/options.h"
#include "drivers/record.h"
#include "poll/host.h"
#include "poll/log.h"

struct record {
	char *to;
	int fd;
	uint64_t clock; /* atomic; see record.h */
	pthread_mutex_t mutex; /* entries, in the order of completed */
};

struct record_io {
	struct io io; /* first */
	struct io *parent;
	struct record *record;
	uint64_t submitted;
};

static int set_to(void *priv, const char *value)
{
	struct record *record = priv;

	free(record->to);
	record->to = strdup(value);
	return record->to && *value ? 0 : -EINVAL;
}

static const struct option options[] = {
	{ "to", set_to },
	{ NULL, NULL },
};

static int write_all(int fd, struct iovec *iov, int n)
{
	ssize_t rc;

	while (n) {
		rc = writev(fd, iov, n);
		if (rc < 0 && errno == EINTR)
			continue;
		if (rc <= 0)
			return rc < 0 ? -errno : -EIO;
		while (n && (size_t)rc >= iov->iov_len) {
			rc -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n) {
			iov->iov_base = (char *)iov->iov_base + rc;
			iov->iov_len -= (size_t)rc;
		}
	}
	return 0;
}

static int create(struct record *record, uint64_t bytes)
{
	struct record_header header = { .magic = RECORD_MAGIC, .bytes = bytes };
	struct iovec iov = { .iov_base = &header, .iov_len = sizeof(header) };
	int err;

	if (!record->to) {
		log_err("record: option \"to\": missing");
		return -EINVAL;
	}
	record->fd = host_create(record->to);
	err = record->fd < 0 ? record->fd : write_all(record->fd, &iov, 1);
	if (err)
		log_err("record: %s: %s", record->to, strerror(-err));
	return err;
}

static int record_open(const char *arg, struct node *below, unsigned flags,
		       struct driver_info *info, void **priv)
{
	struct record *record;
	int err;

	(void)below;
	(void)flags;
	record = calloc(1, sizeof(*record));
	if (!record)
		return -ENOMEM;
	record->fd = -1;
	err = options_parse("record", arg, options, record);
	if (!err)
		err = create(record, info->bytes);
	if (err)
		goto out;
	pthread_mutex_init(&record->mutex, NULL);
	*priv = record;
	record = NULL;
out:
	if (record) {
		if (record->fd >= 0)
			close(record->fd);
		free(record->to);
		free(record);
	}
	return err;
}

static void record_close(void *priv)
{
	struct record *record = priv;

	pthread_mutex_destroy(&record->mutex);
	close(record->fd);
	free(record->to);
	free(record);
}

static void record_done(struct io *io, int err)
{
	struct record_io *r = (struct record_io *)io;
	struct record *record = r->record;
	struct io *parent = r->parent;
	struct record_entry entry = {
		.submitted = r->submitted,
		.offset = parent->offset,
		.len = parent->len,
		.op = parent->op,
		.err = err,
	};
	struct iovec iov[2] = {
		{ .iov_base = &entry, .iov_len = sizeof(entry) },
		{ .iov_base = parent->buf, .iov_len = parent->len },
	};
	int rc;

	free(r);
	pthread_mutex_lock(&record->mutex);
	entry.completed =
		__atomic_add_fetch(&record->clock, 1, __ATOMIC_RELAXED);
	rc = write_all(record->fd, iov, parent->op == IO_WRITE ? 2 : 1);
	pthread_mutex_unlock(&record->mutex);
	parent->done(parent, err ? err : rc);
}

static void record_submit(struct port *port, struct io *io)
{
	struct record *record = port->node->priv;
	struct record_io *r;

	if (io->op == IO_READ) {
		port_submit(port->below, io);
		return;
	}
	r = malloc(sizeof(*r));
	if (!r) {
		io->done(io, -ENOMEM);
		return;
	}
	r->io = *io;
	r->io.done = record_done;
	r->parent = io;
	r->record = record;
	r->submitted = __atomic_add_fetch(&record->clock, 1, __ATOMIC_RELAXED);
	port_submit(port->below, &r->io);
}

const struct driver record_driver = {
	.name = "record",
	.stats_type = -1,
	.below = DRIVER_ON_SPEC,
	.open = record_open,
	.close = record_close,
	.submit = record_submit,
};
