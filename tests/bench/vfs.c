/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SQLite's files on a block device; see vfs.h.  Glue only: what a file is, is
 * region.c's.
 */
#include "tests/bench/vfs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct vfs_handle {
	struct sqlite3_file sqlite; /* first */
	struct vfs *vfs;
	struct region *region;
};

static const char *const names[NR_VFS_FILES] = {
	[VFS_MAIN] = VFS_DATABASE,
	[VFS_JOURNAL] = VFS_DATABASE "-journal",
	[VFS_WAL] = VFS_DATABASE "-wal",
};

static struct region *region_of(struct sqlite3_file *file)
{
	return ((struct vfs_handle *)file)->region;
}

static int to_sqlite(int err, int otherwise)
{
	if (err == 0)
		return SQLITE_OK;
	return err == -ENOSPC ? SQLITE_FULL : otherwise;
}

/* ---- files ---- */

static int file_close(struct sqlite3_file *file)
{
	return to_sqlite(region_write_out(region_of(file)), SQLITE_IOERR_CLOSE);
}

static int file_read(struct sqlite3_file *file, void *data, int len,
		     sqlite3_int64 offset)
{
	int64_t n = region_read(region_of(file), (uint64_t)offset, data,
				(size_t)len);

	if (n < 0)
		return SQLITE_IOERR_READ;
	if (n == len)
		return SQLITE_OK;
	memset((char *)data + n, 0, (size_t)(len - n));
	return SQLITE_IOERR_SHORT_READ;
}

static int file_write(struct sqlite3_file *file, const void *data, int len,
		      sqlite3_int64 offset)
{
	return to_sqlite(region_write(region_of(file), (uint64_t)offset, data,
				      (size_t)len),
			 SQLITE_IOERR_WRITE);
}

static int file_truncate(struct sqlite3_file *file, sqlite3_int64 length)
{
	return to_sqlite(region_truncate(region_of(file), (uint64_t)length),
			 SQLITE_IOERR_TRUNCATE);
}

static int file_sync(struct sqlite3_file *file, int flags)
{
	(void)flags; /* there is but one flush */
	return to_sqlite(region_sync(region_of(file)), SQLITE_IOERR_FSYNC);
}

static int file_size(struct sqlite3_file *file, sqlite3_int64 *size)
{
	*size = (sqlite3_int64)region_of(file)->length;
	return SQLITE_OK;
}

/* Nobody else has the disk. */
static int file_lock(struct sqlite3_file *file, int level)
{
	(void)file;
	(void)level;
	return SQLITE_OK;
}

static int file_is_reserved(struct sqlite3_file *file, int *result)
{
	(void)file;
	*result = 0;
	return SQLITE_OK;
}

static int file_control(struct sqlite3_file *file, int op, void *arg)
{
	(void)file;
	(void)op;
	(void)arg;
	return SQLITE_NOTFOUND;
}

static int file_sector_size(struct sqlite3_file *file)
{
	return (int)((struct vfs_handle *)file)->vfs->block->physical;
}

static int file_characteristics(struct sqlite3_file *file)
{
	(void)file;
	return 0;
}

/* Version 1: no shared memory, no mapping. */
static const struct sqlite3_io_methods file_methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_lock,
	.xCheckReservedLock = file_is_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector_size,
	.xDeviceCharacteristics = file_characteristics,
};

/* ---- names ---- */

static struct region *find_file(struct vfs *vfs, const char *name)
{
	unsigned i;

	for (i = 0; i < NR_VFS_FILES; i++)
		if (strcmp(name, names[i]) == 0)
			return &vfs->files[i];
	return NULL;
}

static int vfs_open(struct sqlite3_vfs *sqlite, const char *name,
		    struct sqlite3_file *file, int flags, int *out_flags)
{
	struct vfs_handle *handle = (struct vfs_handle *)file;
	struct vfs *vfs = (struct vfs *)sqlite;
	struct region *region = name ? find_file(vfs, name) : NULL;

	handle->sqlite.pMethods = NULL; /* nothing to close if this fails */
	if (!region)
		return SQLITE_CANTOPEN;
	if (!region->exists && !(flags & SQLITE_OPEN_CREATE))
		return SQLITE_CANTOPEN;
	if (region_create(region))
		return SQLITE_IOERR;
	handle->sqlite.pMethods = &file_methods;
	handle->vfs = vfs;
	handle->region = region;
	if (out_flags)
		*out_flags = flags;
	return SQLITE_OK;
}

static int vfs_delete(struct sqlite3_vfs *sqlite, const char *name, int sync)
{
	struct region *region = find_file((struct vfs *)sqlite, name);

	if (!region || !region->exists)
		return SQLITE_IOERR_DELETE_NOENT;
	return to_sqlite(region_remove(region, sync), SQLITE_IOERR_DELETE);
}

static int vfs_access(struct sqlite3_vfs *sqlite, const char *name, int flags,
		      int *result)
{
	struct region *region = find_file((struct vfs *)sqlite, name);

	(void)flags;
	*result = region && region->exists;
	return SQLITE_OK;
}

static int vfs_full_pathname(struct sqlite3_vfs *sqlite, const char *name,
			     int size, char *out)
{
	(void)sqlite;
	snprintf(out, (size_t)size, "%s", name);
	return SQLITE_OK;
}

/* ---- what has nothing to do with files ---- */

static struct sqlite3_vfs *host_of(struct sqlite3_vfs *sqlite)
{
	return ((struct vfs *)sqlite)->host;
}

static int vfs_randomness(struct sqlite3_vfs *sqlite, int len, char *out)
{
	return host_of(sqlite)->xRandomness(host_of(sqlite), len, out);
}

static int vfs_sleep(struct sqlite3_vfs *sqlite, int us)
{
	return host_of(sqlite)->xSleep(host_of(sqlite), us);
}

static int vfs_current_time(struct sqlite3_vfs *sqlite, double *now)
{
	return host_of(sqlite)->xCurrentTime(host_of(sqlite), now);
}

static int vfs_last_error(struct sqlite3_vfs *sqlite, int size, char *out)
{
	(void)sqlite;
	(void)size;
	(void)out;
	return 0;
}

/* ---- the whole ---- */

/* The database gets half of the disk, journal and WAL a quarter each. */
static int open_regions(struct vfs *vfs)
{
	uint64_t unit = vfs->block->bytes / 4 / 4096 * 4096;
	int err;

	err = region_open(&vfs->files[VFS_MAIN], vfs->block, 0, 2 * unit);
	if (!err)
		err = region_open(&vfs->files[VFS_JOURNAL], vfs->block,
				  2 * unit, unit);
	if (!err)
		err = region_open(&vfs->files[VFS_WAL], vfs->block, 3 * unit,
				  unit);
	return err;
}

int vfs_init(struct vfs *vfs, struct block *block)
{
	int err;

	if (block->bytes < VFS_DISK_MIN)
		return -ENOSPC;
	vfs->block = block;
	vfs->host = sqlite3_vfs_find(NULL);
	err = open_regions(vfs);
	if (err)
		return err;
	vfs->sqlite = (struct sqlite3_vfs){
		.iVersion = 1,
		.szOsFile = sizeof(struct vfs_handle),
		.mxPathname = 64,
		.zName = VFS_NAME,
		.xOpen = vfs_open,
		.xDelete = vfs_delete,
		.xAccess = vfs_access,
		.xFullPathname = vfs_full_pathname,
		.xRandomness = vfs_randomness,
		.xSleep = vfs_sleep,
		.xCurrentTime = vfs_current_time,
		.xGetLastError = vfs_last_error,
	};
	return sqlite3_vfs_register(&vfs->sqlite, 0) == SQLITE_OK ? 0 : -ENOMEM;
}

void vfs_fini(struct vfs *vfs)
{
	sqlite3_vfs_unregister(&vfs->sqlite);
}

int vfs_wipe(struct vfs *vfs)
{
	unsigned i;
	int err = 0;

	/* the database first: SQLite throws away a journal without one */
	for (i = 0; i < NR_VFS_FILES && !err; i++)
		err = region_remove(&vfs->files[i], true);
	return err;
}

bool vfs_has_database(const struct vfs *vfs)
{
	return vfs->files[VFS_MAIN].exists;
}
