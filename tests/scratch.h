/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A private directory for a test program, which is gone when the program is,
 * however it ended: another process waits for that.  Header only, for tests
 * only.
 */
#pragma once

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define SCRATCH_ENV "TEST_SCRATCH" /* how it reaches the tests' processes */

static inline int scratch_remove(const char *path, const struct stat *st,
				 int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/*
 * Remove @path when the last writer of the pipe is gone.  In a session of its
 * own, where an interrupt of the terminal does not reach it.
 */
static inline void scratch_guard(const char *path, int pipe_fd)
{
	char c;

	setsid();
	while (read(pipe_fd, &c, 1) < 0 && errno == EINTR)
		;
	nftw(path, scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
	_exit(0);
}

/* In main(), before the tests. */
static inline void scratch_open(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[80];
	int p[2];
	pid_t pid;

	/* sockets live here, and their names have room for 107 bytes */
	snprintf(path, sizeof(path), "%s/test-XXXXXX",
		 tmp && strlen(tmp) < 60 ? tmp : "/tmp");
	if (!mkdtemp(path) || setenv(SCRATCH_ENV, path, 1) ||
	    pipe2(p, O_CLOEXEC) || (pid = fork()) < 0) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	if (pid == 0) {
		/* hold up nobody who waits for the end of our output */
		close(p[1]);
		close(0);
		close(1);
		close(2);
		scratch_guard(path, p[0]);
	}
	close(p[0]); /* p[1] stays open until we and the tests have ended */
}

/* At the end of main().  The guard would do it too, a moment later. */
static inline void scratch_close(void)
{
	const char *path = getenv(SCRATCH_ENV);

	if (path)
		nftw(path, scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* A name that no other test process uses at the same time. */
static inline void scratch_path(char *out, size_t size, const char *name)
{
	snprintf(out, size, "%s/%s-%d", getenv(SCRATCH_ENV), name,
		 (int)getpid());
}

/* Descriptors this process has open. */
static inline unsigned scratch_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}
