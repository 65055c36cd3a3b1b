/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See worker.h.  Knows a descriptor and three operations, and nothing of AIO,
 * ports or how those who sent the work wait for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "drivers/worker.h"

enum {
	STACK = 65536, /* beside what the C library needs */
	ZEROS = 65536,
	ALIGNMENT = 4096, /* enough for O_DIRECT on any disk */
};

static int allocate(int fd, int mode, const struct io *io)
{
	int rc;

	do
		rc = fallocate(fd, mode | FALLOC_FL_KEEP_SIZE,
			       (off_t)io->offset, (off_t)io->len);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}

static int write_zeros(int fd, const struct io *io)
{
	uint64_t done = 0, n;
	void *zeros;
	ssize_t rc;
	int err;

	err = posix_memalign(&zeros, ALIGNMENT, ZEROS);
	if (err)
		return -err;
	memset(zeros, 0, ZEROS);
	while (done < io->len) {
		n = io->len - done < ZEROS ? io->len - done : ZEROS;
		rc = pwrite(fd, zeros, n, (off_t)(io->offset + done));
		if (rc < 0 && errno == EINTR)
			continue;
		if (rc <= 0) {
			err = rc < 0 ? -errno : -EIO;
			break;
		}
		done += (uint64_t)rc;
	}
	free(zeros);
	return err;
}

static int flush(int fd)
{
	int rc;

	do
		rc = fdatasync(fd);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}

static int execute(int fd, const struct io *io)
{
	int err;

	switch (io->op) {
	case IO_FLUSH:
		return flush(fd);
	case IO_DISCARD:
		err = allocate(fd, FALLOC_FL_PUNCH_HOLE, io);
		/* not in the device's units, which is no reason to fail */
		return err == -EINVAL ? 0 : err;
	case IO_WRITE_ZEROES:
		err = allocate(fd, FALLOC_FL_ZERO_RANGE, io);
		return err == -EOPNOTSUPP || err == -EINVAL
			       ? write_zeros(fd, io)
			       : err;
	default:
		return -EOPNOTSUPP;
	}
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct mailbox *reply;
	struct work *work;

	pthread_mutex_lock(&worker->mutex);
	for (;;) {
		while (!worker->head && !worker->stop)
			pthread_cond_wait(&worker->changed, &worker->mutex);
		work = worker->head;
		if (!work)
			break;
		worker->head = work->next;
		if (!worker->head)
			worker->tail = &worker->head;
		pthread_mutex_unlock(&worker->mutex);
		work->err = execute(worker->fd, work->io);
		pthread_mutex_lock(&worker->mutex);
		reply = work->reply;
		worker->posting_to = reply;
		pthread_mutex_unlock(&worker->mutex);
		mailbox_post(reply, &work->mail);
		/* @work is its owner's again */
		pthread_mutex_lock(&worker->mutex);
		worker->posting_to = NULL;
		pthread_cond_broadcast(&worker->changed);
	}
	pthread_mutex_unlock(&worker->mutex);
	return NULL;
}

void worker_init(struct worker *worker, int fd)
{
	*worker = (struct worker){ .fd = fd };
	worker->tail = &worker->head;
	pthread_mutex_init(&worker->mutex, NULL);
	pthread_cond_init(&worker->changed, NULL);
}

void worker_fini(struct worker *worker)
{
	if (worker->started) {
		pthread_mutex_lock(&worker->mutex);
		worker->stop = true;
		pthread_cond_broadcast(&worker->changed);
		pthread_mutex_unlock(&worker->mutex);
		pthread_join(worker->thread, NULL);
	}
	pthread_cond_destroy(&worker->changed);
	pthread_mutex_destroy(&worker->mutex);
}

/* Signals are for the main thread. */
static int start(struct worker *worker)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&worker->thread, &attr, worker_main, worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	worker->started = !err;
	return -err;
}

int worker_submit(struct worker *worker, struct work *work)
{
	int err = 0;

	pthread_mutex_lock(&worker->mutex);
	if (!worker->started)
		err = start(worker);
	if (!err) {
		work->next = NULL;
		*worker->tail = work;
		worker->tail = &work->next;
		pthread_cond_broadcast(&worker->changed);
	}
	pthread_mutex_unlock(&worker->mutex);
	return err;
}

void worker_settle(struct worker *worker, const struct mailbox *reply)
{
	pthread_mutex_lock(&worker->mutex);
	while (worker->posting_to == reply)
		pthread_cond_wait(&worker->changed, &worker->mutex);
	pthread_mutex_unlock(&worker->mutex);
}
