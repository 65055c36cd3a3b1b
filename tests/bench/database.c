/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmark's database; see database.h.
 */
#include "tests/bench/database.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* The shape of the rows that the Phoronix SQLite test inserts. */
static const char create_sql[] =
	"CREATE TABLE IF NOT EXISTS bench (id INTEGER PRIMARY KEY, "
	"made TIMESTAMP NOT NULL, small VARCHAR(4) NOT NULL, "
	"large VARCHAR(16) NOT NULL)";
static const char insert_sql[] =
	"INSERT INTO bench VALUES (?1, CURRENT_TIMESTAMP, "
	"printf('%04d', ?1 % 10000), printf('%016d', ?1 * 7919))";

static int failed(struct database *d)
{
	snprintf(d->why, sizeof(d->why), "%s",
		 d->sqlite ? sqlite3_errmsg(d->sqlite) : "out of memory");
	return -EIO;
}

static int exec(struct database *d, const char *sql)
{
	return sqlite3_exec(d->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : failed(d);
}

/* The first row's first column as text, if @sql returns one. */
static int query(struct database *d, const char *sql, char *out, size_t size)
{
	struct sqlite3_stmt *statement;
	const char *text;
	int rc;

	if (sqlite3_prepare_v2(d->sqlite, sql, -1, &statement, NULL))
		return failed(d);
	rc = sqlite3_step(statement);
	text = rc == SQLITE_ROW
		       ? (const char *)sqlite3_column_text(statement, 0)
		       : NULL;
	snprintf(out, size, "%s", text ? text : "");
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		failed(d);
	sqlite3_finalize(statement);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -EIO;
}

static int set_journal(struct database *d, const char *journal)
{
	char sql[64], got[32];
	int err;

	snprintf(sql, sizeof(sql), "PRAGMA journal_mode=%s", journal);
	err = query(d, sql, got, sizeof(got));
	if (!err && strcmp(got, journal) != 0) {
		snprintf(d->why, sizeof(d->why), "journal mode is %s", got);
		err = -EIO;
	}
	return err;
}

int database_open(struct database *d, const char *name, const char *vfs,
		  const char *journal)
{
	int flags = SQLITE_OPEN_READWRITE | (journal ? SQLITE_OPEN_CREATE : 0);
	int err;

	*d = (struct database){ 0 };
	if (sqlite3_open_v2(name, &d->sqlite, flags, vfs))
		return failed(d);
	/* before the first access: WAL then needs no shared memory */
	err = exec(d, "PRAGMA locking_mode=EXCLUSIVE;"
		      "PRAGMA synchronous=FULL;"
		      "PRAGMA temp_store=MEMORY");
	if (!err && journal)
		err = set_journal(d, journal);
	if (!err && journal)
		err = exec(d, create_sql);
	if (!err &&
	    sqlite3_prepare_v2(d->sqlite, insert_sql, -1, &d->insert, NULL))
		err = failed(d);
	return err;
}

int database_close(struct database *d)
{
	int rc;

	sqlite3_finalize(d->insert);
	d->insert = NULL;
	rc = sqlite3_close(d->sqlite);
	d->sqlite = NULL;
	return rc == SQLITE_OK ? 0 : -EIO;
}

int database_begin(struct database *d)
{
	return exec(d, "BEGIN IMMEDIATE");
}

int database_commit(struct database *d)
{
	return exec(d, "COMMIT");
}

int database_insert(struct database *d, uint64_t id)
{
	int rc;

	sqlite3_bind_int64(d->insert, 1, (sqlite3_int64)id);
	rc = sqlite3_step(d->insert);
	if (rc != SQLITE_DONE)
		failed(d);
	sqlite3_reset(d->insert);
	return rc == SQLITE_DONE ? 0 : -EIO;
}

int database_check(struct database *d, uint64_t *rows)
{
	char text[sizeof(d->why)];
	int err;

	err = query(d, "PRAGMA integrity_check(1)", text, sizeof(text));
	if (err)
		return err;
	if (strcmp(text, "ok") != 0) {
		snprintf(d->why, sizeof(d->why), "%s", text);
		return -EILSEQ;
	}
	err = query(d, "SELECT count(*) FROM bench", text, sizeof(text));
	if (!err)
		*rows = strtoull(text, NULL, 10);
	return err;
}

int database_check_acked(struct database *d, FILE *acked)
{
	char line[32], sql[80], found[32];
	int err = 0;

	while (!err && fgets(line, sizeof(line), acked)) {
		if (!strchr(line, '\n'))
			break;
		line[strcspn(line, "\n")] = 0;
		snprintf(sql, sizeof(sql), "SELECT id FROM bench WHERE id=%s",
			 line);
		err = query(d, sql, found, sizeof(found));
		if (!err && strcmp(found, line) != 0) {
			snprintf(d->why, sizeof(d->why),
				 "row %s was acknowledged and is lost", line);
			err = -EILSEQ;
		}
	}
	return err;
}
