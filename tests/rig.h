/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread's way to a disk, for tests of drivers: a wait, a port on it, and
 * io done one at a time.  Header only, for tests only.
 */
#pragma once

#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "drivers/driver.h"
#include "poll/log.h"
#include "poll/wait.h"
#include "tests/scratch.h"

struct rig {
	struct wait wait;
	struct node *node; /* closed with the rig, if it is its own */
	struct port *port;
};

static inline void rig_port(struct rig *rig, struct node *node, unsigned depth)
{
	rig->node = NULL;
	ck_assert_int_eq(wait_init(&rig->wait, false), 0);
	ck_assert_int_eq(port_open(node, &rig->wait, depth, &rig->port), 0);
}

static inline void rig_open(struct rig *rig, const char *spec, unsigned flags)
{
	struct node *node;

	ck_assert_int_eq(driver_open(spec, flags, &node), 0);
	rig_port(rig, node, 16);
	rig->node = node;
}

static inline void rig_close(struct rig *rig)
{
	port_close(rig->port);
	wait_fini(&rig->wait);
	driver_close(rig->node);
}

/* One turn, and a wait if it found nothing to do. */
static inline void rig_turn(struct rig *rig)
{
	if (!port_turn(rig->port))
		wait_for(&rig->wait, false, false);
}

struct rig_io {
	struct io io; /* first */
	unsigned dones;
	int err;
};

static inline void rig_done(struct io *io, int err)
{
	struct rig_io *r = (struct rig_io *)io;

	r->dones++;
	r->err = err;
}

static inline void rig_submit(struct rig *rig, struct rig_io *r, enum io_op op,
			      uint64_t offset, uint64_t len, void *buf)
{
	*r = (struct rig_io){
		.io = { .op = op,
			.offset = offset,
			.len = len,
			.buf = buf,
			.done = rig_done },
	};
	port_submit(rig->port, &r->io);
}

static inline int rig_finish(struct rig *rig, struct rig_io *r)
{
	while (!r->dones)
		rig_turn(rig);
	ck_assert_uint_eq(r->dones, 1);
	return r->err;
}

/* One io from start to end. */
static inline int rig_do(struct rig *rig, enum io_op op, uint64_t offset,
			 uint64_t len, void *buf)
{
	struct rig_io r;

	rig_submit(rig, &r, op, offset, len, buf);
	return rig_finish(rig, &r);
}

/* Aligned for any disk. */
static inline void *rig_buffer(size_t size)
{
	void *buf;

	ck_assert_int_eq(posix_memalign(&buf, 4096, size), 0);
	memset(buf, 0, size);
	return buf;
}

/* A new file of @size zero bytes in the scratch directory. */
static inline void rig_file(char *path, size_t size, const char *name,
			    off_t bytes)
{
	int fd;

	scratch_path(path, size, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, bytes), 0);
	close(fd);
}

static inline void rig_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n;

	ck_assert_int_ge(fd, 0);
	n = read(fd, buf, size - 1);
	ck_assert_int_ge(n, 0);
	buf[n] = '\0';
	close(fd);
}

/* What is logged from here on goes to a file, which rig_logged reads. */
static inline void rig_log(void)
{
	char path[256];
	int fd;

	scratch_path(path, sizeof(path), "log");
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(log_open("test", -1, fd, false), 0);
}

/* The lines since rig_log. */
static inline unsigned rig_logged(char *buf, size_t size)
{
	char path[256];
	unsigned lines = 0;

	log_drain();
	scratch_path(path, sizeof(path), "log");
	rig_text(path, buf, size);
	for (const char *p = buf; (p = strchr(p, '\n')); p++)
		lines++;
	return lines;
}

/* Threads of this process. */
static inline unsigned rig_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline int rig_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	scratch_open();
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
