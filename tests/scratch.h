/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A private directory for a test program: made and removed by its main(), so
 * that nothing stays behind when a test's own process dies.  Header only, for
 * tests only.
 */
#pragma once

#include <check.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRATCH_ENV "TEST_SCRATCH" /* how it reaches the tests' processes */

static inline void scratch_open(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[80];

	/* sockets live here, and their names have room for 107 bytes */
	snprintf(path, sizeof(path), "%s/test-XXXXXX",
		 tmp && strlen(tmp) < 60 ? tmp : "/tmp");
	if (!mkdtemp(path) || setenv(SCRATCH_ENV, path, 1)) {
		perror(path);
		exit(EXIT_FAILURE);
	}
}

static inline int scratch_remove(const char *path, const struct stat *st,
				 int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

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
