/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See file.h.  Creates nothing and changes nothing; how bytes are then read
 * and written is not its business.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "drivers/file.h"
#include "poll/host.h"
#include "poll/log.h"

enum {
	SECTOR = 512,
	BLOCK = 4096, /* what file systems and newer disks work in */
};

static int refuse(const char *path, int err, const char *why)
{
	log_err("aio: %s: %s", path, why);
	return err;
}

/*
 * Look at what @path is before opening it: opening a FIFO would wait for its
 * other end, and opening a tape moves it.
 */
static int check_kind(const char *path)
{
	struct stat st;
	int fd, err;

	fd = host_open(path, O_PATH);
	if (fd < 0)
		return refuse(path, fd, strerror(-fd));
	err = fstat(fd, &st) < 0 ? -errno : 0;
	close(fd);
	if (err)
		return refuse(path, err, strerror(-err));
	if (S_ISDIR(st.st_mode))
		return refuse(path, -EISDIR, strerror(EISDIR));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return refuse(path, -EINVAL, "neither file nor block device");
	return 0;
}

/*
 * The smallest transfer that the file system lets past the page cache; 0 if
 * there is none.  A disk with a bad first block must still open, so other
 * errors count as "works".
 */
static uint32_t probe_direct(int fd)
{
	uint32_t size;
	ssize_t rc;
	void *buf;

	if (posix_memalign(&buf, BLOCK, BLOCK))
		return 0;
	for (size = SECTOR; size <= BLOCK; size *= 2) {
		rc = pread(fd, buf, size, 0);
		if (rc >= 0 || errno != EINVAL)
			break;
	}
	free(buf);
	return size <= BLOCK ? size : 0;
}

static int describe_device(const char *path, int fd, struct driver_info *info)
{
	unsigned physical = 0;
	int logical = 0, readonly = 0, err;

	if (ioctl(fd, BLKGETSIZE64, &info->bytes) < 0 ||
	    ioctl(fd, BLKSSZGET, &logical) < 0) {
		err = -errno;
		return refuse(path, err, strerror(-err));
	}
	if (!info->bytes)
		return refuse(path, -ENOMEDIUM, strerror(ENOMEDIUM));
	/* most drivers let anyone open, and then fail the writes */
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY &&
	    !ioctl(fd, BLKROGET, &readonly) && readonly)
		return refuse(path, -EROFS, "is read-only");
	info->logical_block = (uint32_t)logical;
	info->physical_block = info->logical_block;
	if (!ioctl(fd, BLKPBSZGET, &physical) &&
	    physical > info->physical_block)
		info->physical_block = physical;
	info->discard_granularity = info->logical_block;
	return 0;
}

/* Through the page cache any sector can be had, whatever is below. */
static void describe_buffered(struct driver_info *info)
{
	info->logical_block = SECTOR;
	if (info->physical_block < BLOCK)
		info->physical_block = BLOCK;
}

/*
 * The same with O_DIRECT.  False: it cannot be used, because the file system
 * will not have it or because the last block of the file is not whole.
 */
static bool describe_direct(int fd, bool device, struct driver_info *info)
{
	if (!device) {
		if (info->bytes % SECTOR || !info->bytes)
			return true; /* an image refuses these; say it there */
		info->logical_block = probe_direct(fd);
		info->physical_block = BLOCK;
	}
	return info->logical_block && info->bytes % info->logical_block == 0;
}

static int describe(const char *path, int fd, bool *device,
		    struct driver_info *info)
{
	struct stat st;
	int err;

	*info = (struct driver_info){ 0 };
	if (fstat(fd, &st) < 0) {
		err = -errno;
		return refuse(path, err, strerror(-err));
	}
	*device = S_ISBLK(st.st_mode);
	if (*device)
		return describe_device(path, fd, info);
	info->bytes = (uint64_t)st.st_size;
	info->logical_block = SECTOR;
	info->physical_block = BLOCK;
	info->discard_granularity = BLOCK;
	return 0;
}

/* Open with O_DIRECT.  -EINVAL, unlogged: not possible here. */
static int open_direct(const char *path, int mode, struct driver_info *info)
{
	bool device = false;
	int fd, err;

	fd = host_open(path, mode | O_DIRECT);
	if (fd == -EINVAL)
		return fd;
	if (fd < 0)
		return refuse(path, fd, strerror(-fd));
	err = describe(path, fd, &device, info);
	if (!err && !describe_direct(fd, device, info))
		err = -EINVAL;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int open_buffered(const char *path, int mode, struct driver_info *info)
{
	bool device;
	int fd, err;

	fd = host_open(path, mode);
	if (fd < 0)
		return refuse(path, fd, strerror(-fd));
	err = describe(path, fd, &device, info);
	if (!err) {
		describe_buffered(info);
		return fd;
	}
	close(fd);
	return err;
}

int file_open(const char *path, unsigned flags, struct driver_info *info)
{
	int mode = flags & DRIVER_RDONLY ? O_RDONLY : O_RDWR;
	int fd;

	fd = check_kind(path);
	if (fd < 0)
		return fd;
	if (flags & DRIVER_BUFFERED) {
		fd = open_buffered(path, mode, info);
	} else {
		fd = open_direct(path, mode, info);
		if (fd == -EINVAL) {
			log_warn("aio: %s: no direct I/O here, going through "
				 "the page cache",
				 path);
			fd = open_buffered(path, mode, info);
		}
	}
	if (fd >= 0 && flags & DRIVER_RDONLY)
		info->discard_granularity = 0;
	return fd;
}
