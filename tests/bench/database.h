/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmark's database: one table, opened so that a commit is durable
 * (synchronous=FULL) and nobody else may use it (locking_mode=EXCLUSIVE).
 *
 * Errors are -errno, and what SQLite says about them is kept for whoever
 * complains.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sqlite3;
struct sqlite3_stmt;

struct database {
	struct sqlite3 *sqlite;
	struct sqlite3_stmt *insert;
	char why[256]; /* of the last error; of an integrity check too */
};

/*
 * Open @name; @vfs NULL is the system's files.  With @journal ("delete",
 * "wal") the table is created if it is not there, without it both must be.
 * 0 or -EIO; to be closed in both cases.
 */
int database_open(struct database *d, const char *name, const char *vfs,
		  const char *journal);
/* 0, or -EIO if what closing still had to write failed. */
int database_close(struct database *d);

int database_begin(struct database *d);
int database_commit(struct database *d);
/* Durable at once outside of begin and commit. */
int database_insert(struct database *d, uint64_t id);

/*
 * PRAGMA integrity_check, and the number of rows.  0; -EILSEQ if it finds
 * something, which @d->why then says; -EIO.
 */
int database_check(struct database *d, uint64_t *rows);

/*
 * Every id in @acked, a line each, must be a row: 0, else -EILSEQ and
 * @d->why says which is not; -EIO.  A last line without its end was not
 * finished and does not count.
 */
int database_check_acked(struct database *d, FILE *acked);
