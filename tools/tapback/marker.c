/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * /proc/locks.  It costs no talk with any tapdisk, where asking each of them
 * for its minors would have to wait for all.
 */
#include "tools/tapback/marker.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "poll/host.h"

int marker_owner(uint16_t number)
{
	char path[512], line[256];
	unsigned long long inode;
	unsigned dev_major, dev_minor;
	struct stat st;
	FILE *locks;
	int pid, found = -ESRCH;

	snprintf(path, sizeof(path), "%s/tapdisk/tapdisk-%u", host_run_dir(),
		 number);
	if (stat(path, &st))
		return errno == ENOENT ? -ESRCH : -errno;
	locks = fopen("/proc/locks", "re");
	if (!locks)
		return -errno;
	/* "1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF" */
	while (found < 0 && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%llu ", &pid,
			   &dev_major, &dev_minor, &inode) == 4 &&
		    inode == st.st_ino && dev_major == major(st.st_dev) &&
		    dev_minor == minor(st.st_dev) && pid > 0)
			found = pid;
	fclose(locks);
	return found;
}
