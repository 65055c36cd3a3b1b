/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only code of tapdisk that names a path or makes a socket.  Main thread
 * only.  Today plain calls; when the process gives its rights away these
 * become messages to an opener process, so results are a descriptor or -errno
 * and nothing else.  Never logs.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Default directories, and the environment variables that move them. */
const char *host_run_dir(void); /* TAPDISK_RUN_DIR, /run/blktap-control */
const char *host_shm_dir(void); /* TAPDISK_SHM_DIR, /dev/shm */
const char *host_log_dir(void); /* TAPDISK_LOG_DIR, /var/log/blktap */

/* open(2) with O_CLOEXEC; @flags without O_CREAT.  -errno. */
int host_open(const char *path, int flags);

/* A regular file created if missing (0600), appended to.  -errno. */
int host_open_append(const char *path);

/*
 * A regular file created if missing (0600), emptied if not; no link is
 * followed.  -errno.
 */
int host_create(const char *path);

/*
 * A file shared with other processes, created if missing (0600), as it is
 * otherwise; never through a symbolic link.  -ELOOP, -errno.
 */
int host_open_shared(const char *path);

/* The first @size - 1 bytes of a small file as a string; bytes read, -errno. */
ssize_t host_read_text(const char *path, char *buf, size_t size);

/* Where a symbolic link leads.  0; -EINVAL: it is none; -ENAMETOOLONG. */
int host_read_link(const char *path, char *buf, size_t size);

/* An existing directory is fine.  0 or -errno. */
int host_mkdir(const char *path, mode_t mode);

/*
 * The same, but a fresh one: a stale one there is removed as host_remove_dir
 * does.  0 or -errno.
 */
int host_mkdir_new(const char *path, mode_t mode);

/*
 * Remove a directory and the files in it; what is no directory (a symbolic
 * link, too) is removed itself.  A missing one is fine.  0 or -errno.
 */
int host_remove_dir(const char *path);

/* A missing file is fine.  0 or -errno. */
int host_unlink(const char *path);

/* @to is replaced in one step.  0 or -errno. */
int host_rename(const char *from, const char *to);

/*
 * Open the marker file @path and lock it (flock, exclusive) for the life of
 * the returned descriptor.  -EAGAIN if somebody else holds it, -errno of open.
 */
int host_lock(const char *path);

/*
 * A listening AF_UNIX stream socket at @path, non-blocking; a stale one there
 * is replaced.  -ENAMETOOLONG, -errno.
 */
int host_listen(const char *path, int backlog);

/* Connect to the AF_UNIX socket at @path; @type is SOCK_STREAM... -errno. */
int host_connect(const char *path, int type);
