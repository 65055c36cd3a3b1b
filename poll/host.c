/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths and sockets become descriptors here, and nowhere else.  It does not
 * know what anything is for.
 */
#include "poll/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char *directory(const char *variable, const char *otherwise)
{
	const char *value = getenv(variable);

	return value && *value ? value : otherwise;
}

const char *host_run_dir(void)
{
	return directory("TAPDISK_RUN_DIR", "/run/blktap-control");
}

const char *host_shm_dir(void)
{
	return directory("TAPDISK_SHM_DIR", "/dev/shm");
}

const char *host_log_dir(void)
{
	return directory("TAPDISK_LOG_DIR", "/var/log/blktap");
}

int host_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int host_open_append(const char *path)
{
	struct stat st;
	int fd, err;

	/* O_NONBLOCK: do not wait for the reader of what is a FIFO */
	fd = open(path,
		  O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY |
			  O_CLOEXEC,
		  0600);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else
		err = S_ISREG(st.st_mode) ? 0 : -EINVAL;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int host_create(const char *path)
{
	int fd = open(path,
		      O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		      0600);

	return fd < 0 ? -errno : fd;
}

int host_open_shared(const char *path)
{
	/* O_NONBLOCK: a FIFO in its place is found out, not waited for */
	int fd = open(path,
		      O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
			      O_CLOEXEC,
		      0600);

	return fd < 0 ? -errno : fd;
}

ssize_t host_read_text(const char *path, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t got;
	int fd;

	fd = host_open(path, O_RDONLY);
	if (fd < 0)
		return fd;
	do {
		got = read(fd, buf + len, size - 1 - len);
		if (got > 0)
			len += (size_t)got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0)
		got = -errno;
	close(fd);
	buf[len] = '\0';
	return got < 0 ? got : (ssize_t)len;
}

int host_read_link(const char *path, char *buf, size_t size)
{
	ssize_t n = readlink(path, buf, size);

	if (n < 0)
		return -errno;
	if ((size_t)n >= size)
		return -ENAMETOOLONG;
	buf[n] = '\0';
	return 0;
}

int host_mkdir(const char *path, mode_t mode)
{
	struct stat st;
	int err;

	if (!mkdir(path, mode))
		return 0;
	err = -errno;
	if (err == -EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode))
		return 0;
	return err;
}

int host_mkdir_new(const char *path, mode_t mode)
{
	int err = host_remove_dir(path);

	if (err)
		return err;
	return mkdir(path, mode) ? -errno : 0;
}

static void remove_files(DIR *dir)
{
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			unlinkat(dirfd(dir), entry->d_name, 0);
}

int host_remove_dir(const char *path)
{
	/* never into what a link points to */
	int fd = host_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	DIR *dir;

	if (fd == -ENOTDIR || fd == -ELOOP)
		return host_unlink(path);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	remove_files(dir);
	closedir(dir);
	return rmdir(path) && errno != ENOENT ? -errno : 0;
}

int host_rename(const char *from, const char *to)
{
	return rename(from, to) ? -errno : 0;
}

int host_unlink(const char *path)
{
	return unlink(path) && errno != ENOENT ? -errno : 0;
}

int host_lock(const char *path)
{
	int fd, err;

	fd = host_open(path, O_RDONLY);
	if (fd < 0)
		return fd;
	/* a child that inherits nothing (O_CLOEXEC) cannot keep it locked */
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		err = errno == EWOULDBLOCK ? -EAGAIN : -errno;
		close(fd);
		return err;
	}
	return fd;
}

static int unix_address(const char *path, struct sockaddr_un *out)
{
	size_t len = strlen(path);

	if (!len)
		return -ENOENT; /* Linux would invent a name */
	if (len >= sizeof(out->sun_path))
		return -ENAMETOOLONG;
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(out->sun_path, path, len);
	return 0;
}

int host_listen(const char *path, int backlog)
{
	struct sockaddr_un addr;
	struct stat st;
	int fd, err;

	err = unix_address(path, &addr);
	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;

	/* a file that is no socket is not ours: bind says EADDRINUSE */
	if (!lstat(path, &st) && S_ISSOCK(st.st_mode)) {
		err = host_unlink(path);
		if (err)
			goto out;
	}
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		err = -errno;
		goto out;
	}
	if (listen(fd, backlog)) {
		err = -errno;
		host_unlink(path);
	}
out:
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int host_connect(const char *path, int type)
{
	struct sockaddr_un addr;
	int fd, err;

	err = unix_address(path, &addr);
	if (err)
		return err;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* an AF_UNIX connect that a signal cut short has not begun */
	while (connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		if (errno == EINTR)
			continue;
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}
