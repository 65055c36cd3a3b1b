/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl allocate, tap-ctl free.
 *
 * Many may run at once on a host that has just booted: directories that appear
 * under our feet are fine, and a lock on the directory of the markers makes
 * one of us at a time look for a free number.
 */
#include "tools/tap-ctl/allocate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/host.h"
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/dialect.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"

#define RETRY_MS 10

static int directory_path(char *out, size_t size)
{
	int n = snprintf(out, size, "%s/tapdisk", host_run_dir());

	return n < (int)size ? 0 : -ENAMETOOLONG;
}

int allocate_path(int minor, char *out, size_t size)
{
	int n = snprintf(out, size, "%s/tapdisk/tapdisk-%d", host_run_dir(),
			 minor);

	return n < (int)size ? 0 : -ENAMETOOLONG;
}

int allocate_shown(int minor, char *out, size_t size)
{
	if (!dialect_is_xcp_ng())
		return allocate_path(minor, out, size);
	dialect_device(minor, out, size);
	return 0;
}

/* The directory of the markers, locked until it is closed.  fd or -errno. */
static int lock_directory(const char *path)
{
	int fd, err;

	fd = host_open(path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	while (flock(fd, LOCK_EX)) {
		if (errno == EINTR)
			continue;
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/* The lowest free number, with its marker made, or -errno. */
static int take_lowest(void)
{
	char path[PATH_MAX];
	int fd, err;

	for (int minor = 0; minor < ALLOCATE_MINORS; minor++) {
		err = allocate_path(minor, path, sizeof(path));
		if (err < 0)
			return err;
		fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0) {
			close(fd);
			return minor;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -ENOSPC;
}

int allocate_minor(const struct options *options)
{
	char path[PATH_MAX];
	int fd, err, minor;

	err = directory_path(path, sizeof(path));
	if (err == 0)
		err = host_mkdir(host_run_dir(), 0700);
	if (err == 0)
		err = host_mkdir(path, 0700);
	if (err < 0)
		return say_error(options, err, "make %s", path);
	fd = lock_directory(path);
	if (fd < 0)
		return say_error(options, fd, "lock %s", path);
	minor = take_lowest();
	close(fd);
	if (minor == -ENOSPC)
		return say_error(options, minor, "%s: no free minor of %d",
				 path, ALLOCATE_MINORS);
	if (minor < 0)
		return say_error(options, minor, "make a marker in %s", path);
	return minor;
}

/* With the directory locked, so that no allocate takes it half way. */
static int free_marker(const char *directory, const char *marker)
{
	int dir_fd, fd, err;

	dir_fd = lock_directory(directory);
	if (dir_fd < 0)
		return dir_fd;
	fd = host_lock(marker);
	err = fd < 0 ? fd : host_unlink(marker);
	if (fd >= 0)
		close(fd);
	close(dir_fd);
	return err;
}

int allocate_free(int minor, int timeout_ms)
{
	uint64_t deadline = clock_ns() + (uint64_t)timeout_ms * 1000000;
	char directory[PATH_MAX], marker[PATH_MAX];
	int err;

	err = directory_path(directory, sizeof(directory));
	if (err == 0)
		err = allocate_path(minor, marker, sizeof(marker));
	if (err < 0)
		return err;
	for (;;) {
		err = free_marker(directory, marker);
		if (err != -EAGAIN || clock_ns() >= deadline)
			return err;
		poll(NULL, 0, RETRY_MS);
	}
}

int allocate_say_free(const struct options *options, int minor, int err)
{
	const char *why = "free";

	if (err == 0)
		return 0;
	if (err == -EAGAIN)
		why = "attached; \"tap-ctl detach\" it first";
	if (err == -ENOENT)
		why = "not allocated";
	return say_error(options, err, "minor %d: %s", minor, why);
}

int allocate_run(const struct options *options)
{
	char path[PATH_MAX];
	int minor, err;

	minor = allocate_minor(options);
	if (minor < 0)
		return minor;
	err = allocate_shown(minor, path, sizeof(path));
	if (err < 0)
		return say_error(options, err, "minor %d", minor);
	printf("%s\n", path);
	return 0;
}

int allocate_run_free(const struct options *options)
{
	int minor = (int)options->minor;

	return allocate_say_free(options, minor, allocate_free(minor, 0));
}
