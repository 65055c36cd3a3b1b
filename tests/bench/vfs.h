/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A SQLite VFS for one database on a block device: its three files (database,
 * rollback journal, WAL) in three fixed regions, nothing else.  One connection
 * at a time, no shared memory: WAL needs locking_mode=EXCLUSIVE before the
 * first access.  Temporary files are refused: temp_store=MEMORY.
 *
 * Says nothing about power-safe overwrites or atomic writes, so SQLite takes
 * care of both.
 */
#pragma once

#include <sqlite3.h>
#include "tests/bench/region.h"

#define VFS_NAME "blkif"
#define VFS_DATABASE "bench.db" /* the one name there is */
#define VFS_DISK_MIN (UINT64_C(1) << 20)

enum vfs_file { VFS_MAIN, VFS_JOURNAL, VFS_WAL, NR_VFS_FILES };

struct vfs {
	struct sqlite3_vfs sqlite; /* first: SQLite hands back its address */
	struct sqlite3_vfs *host; /* the default one, for clock and chance */
	struct block *block;
	struct region files[NR_VFS_FILES];
};

/*
 * Read what is on the device and make the VFS known to SQLite as VFS_NAME.
 * @vfs must stay until vfs_fini.  0, -ENOSPC (the disk is too small), -errno.
 */
int vfs_init(struct vfs *vfs, struct block *block);
void vfs_fini(struct vfs *vfs);

/* No database, no journal, no WAL any more, durably.  0 or -errno. */
int vfs_wipe(struct vfs *vfs);

/* Is there a database? */
bool vfs_has_database(const struct vfs *vfs);
