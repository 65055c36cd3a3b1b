/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * /proc/locks.  It costs no talk with any tapdisk, where asking each of them
 * for its minors would have to wait for all.
 */
#include "tools/tapback/marker.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "poll/host.h"
#include "tools/tapback/keys.h"

/*
 * The pid of "1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF", if that is
 * about @file; else -ESRCH.
 */
static int owner_in(char *line, const char *file)
{
	const char *fields[6];
	uint32_t pid;
	char *rest;

	for (int i = 0; i < 6; i++) {
		fields[i] = strtok_r(i ? NULL : line, " ", &rest);
		if (!fields[i])
			return -ESRCH;
	}
	if (strcmp(fields[1], "FLOCK") || strcmp(fields[3], "WRITE") ||
	    strcmp(fields[5], file) ||
	    keys_u32(fields[4], 1, INT_MAX, &pid) < 0)
		return -ESRCH;
	return (int)pid;
}

int marker_owner(uint16_t number)
{
	char path[512], line[256], file[64];
	struct stat st;
	FILE *locks;
	int found = -ESRCH;

	snprintf(path, sizeof(path), "%s/tapdisk/tapdisk-%u", host_run_dir(),
		 number);
	if (stat(path, &st))
		return errno == ENOENT ? -ESRCH : -errno;
	snprintf(file, sizeof(file), "%02x:%02x:%ju", major(st.st_dev),
		 minor(st.st_dev), (uintmax_t)st.st_ino);
	locks = fopen("/proc/locks", "re");
	if (!locks)
		return -errno;
	while (found < 0 && fgets(line, sizeof(line), locks))
		found = owner_in(line, file);
	fclose(locks);
	return found;
}
