/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl list: every tapdisk, its disks, and the minors that nobody serves.
 *
 * Monitoring runs this every few seconds and the storage manager on every
 * call, so it must neither fail nor wait because of one tapdisk.  All are asked
 * first and only then listened to, against one deadline: one that does not
 * answer is shown by its process id alone; one that is dead, not at all.  A
 * busy one has ten seconds, because a row that is missing looks like a disk
 * that nobody serves; one that was stopped by a signal has not.
 *
 * The lines are parsed by others: order of fields, single spaces, and the path
 * last because it may contain anything.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/host.h"
#include "tools/ctl/client.h"
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"
#include "tools/tap-ctl/talk.h"

#define BATCH 256 /* connections at a time: 1024 descriptors are usual */
/* One that was stopped does not answer; but it may be waking up right now. */
#define STOPPED_MS 300
#define DISKS_MAX 65536 /* there are no more minors */

struct row {
	int pid, minor; /* OPTIONS_UNSET */
	int32_t state;
	char path[WIRE_PATH_MAX]; /* "type:path", empty if none */
};

struct rows {
	struct row *rows;
	size_t nr, size;
};

struct numbers {
	int *numbers;
	size_t nr, size;
};

/* Room for one more, or -ENOMEM. */
static int grow(void **array, size_t nr, size_t *size, size_t element)
{
	size_t bigger = *size ? *size * 2 : 64;
	void *moved;

	if (nr < *size)
		return 0;
	moved = realloc(*array, bigger * element);
	if (!moved)
		return -ENOMEM;
	*array = moved;
	*size = bigger;
	return 0;
}

static int add_row(struct rows *rows, const struct row *row)
{
	int err =
		grow((void **)&rows->rows, rows->nr, &rows->size, sizeof(*row));

	if (err == 0)
		rows->rows[rows->nr++] = *row;
	return err;
}

/* "ctl42" with prefix "ctl" is 42; anything else -1. */
static int number_behind(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);
	char *end;
	long n;

	if (strncmp(name, prefix, len) || name[len] < '0' || name[len] > '9')
		return -1;
	n = strtol(name + len, &end, 10);
	return *end || n > INT_MAX ? -1 : (int)n;
}

/* The order of a sorted directory: as text, "10" before "9". */
static int compare(const void *a, const void *b)
{
	char left[16], right[16];

	snprintf(left, sizeof(left), "%d", *(const int *)a);
	snprintf(right, sizeof(right), "%d", *(const int *)b);
	return strcmp(left, right);
}

/* The numbers in the names of @directory; none if there is no such thing. */
static int read_numbers(const char *directory, const char *prefix,
			struct numbers *out)
{
	struct dirent *entry;
	int n, err = 0;
	DIR *dir;

	dir = opendir(directory);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (err == 0 && (entry = readdir(dir))) {
		n = number_behind(entry->d_name, prefix);
		if (n < 0)
			continue;
		err = grow((void **)&out->numbers, out->nr, &out->size,
			   sizeof(n));
		if (err == 0)
			out->numbers[out->nr++] = n;
	}
	closedir(dir);
	if (out->nr)
		qsort(out->numbers, out->nr, sizeof(*out->numbers), compare);
	return err;
}

/* The replies of one tapdisk, in the order it sent them. */
static int receive_disks(struct client *client, int pid, struct rows *out)
{
	struct wire_message reply;
	struct row row = { .pid = pid };
	int err;

	for (int i = 0; i < DISKS_MAX; i++) {
		err = client_receive(client, &reply, sizeof(reply));
		if (err == 0)
			err = client_result(WIRE_LIST, &reply);
		if (err < 0 || reply.u.list.count <= 0)
			return err;
		row.minor = reply.u.list.minor;
		row.state = reply.u.list.state;
		memcpy(row.path, reply.u.list.path, sizeof(row.path));
		row.path[sizeof(row.path) - 1] = '\0';
		err = add_row(out, &row);
		if (err < 0)
			return err;
	}
	return -EPROTO;
}

/* Newest first, as it always was; all or nothing of what one tapdisk said. */
static int take_disks(struct client *client, int pid, struct rows *out)
{
	const struct row bare = { .pid = pid, .minor = OPTIONS_UNSET };
	size_t first = out->nr;
	struct row swapped;

	if (receive_disks(client, pid, out) < 0)
		out->nr = first;
	if (out->nr == first)
		return add_row(out, &bare);
	for (size_t i = first, j = out->nr - 1; i < j; i++, j--) {
		swapped = out->rows[i];
		out->rows[i] = out->rows[j];
		out->rows[j] = swapped;
	}
	return 0;
}

static bool is_dead(int err)
{
	return err == -ECONNREFUSED || err == -ENOENT;
}

static bool is_stopped(int pid)
{
	char path[64], text[512];
	const char *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (host_read_text(path, text, sizeof(text)) < 0)
		return false;
	end = strrchr(text, ')'); /* of the name, which may hold anything */
	return end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

static int64_t patience_ms(int pid)
{
	if (!is_stopped(pid))
		return TALK_TIMEOUT_MS;
	fprintf(stderr, "tap-ctl: list: pid %d: stopped by a signal\n", pid);
	return STOPPED_MS;
}

/* Ask up to BATCH tapdisks at once, then listen to one after the other. */
static int ask(const int *pids, size_t nr, struct rows *out)
{
	struct client clients[BATCH];
	struct client_request request;
	int errs[BATCH], err = 0;

	client_request_init(&request, WIRE_LIST, WIRE_COOKIE_ALL);
	for (size_t i = 0; i < nr; i++) {
		/* a full backlog is no reason to keep the others waiting */
		errs[i] = client_open(pids[i], 0, &clients[i]);
		if (errs[i] == 0)
			errs[i] = client_send(&clients[i], &request);
		clients[i].deadline_ns =
			clock_ns() +
			(uint64_t)patience_ms(pids[i]) * UINT64_C(1000000);
	}
	for (size_t i = 0; i < nr; i++) {
		if (err == 0 && !is_dead(errs[i]))
			err = take_disks(&clients[i], pids[i], out);
		client_close(&clients[i]);
	}
	return err;
}

static int ask_all(const struct numbers *pids, struct rows *out)
{
	size_t n;
	int err = 0;

	for (size_t i = 0; i < pids->nr && err == 0; i += n) {
		n = pids->nr - i < BATCH ? pids->nr - i : BATCH;
		err = ask(pids->numbers + i, n, out);
	}
	return err;
}

static bool is_served(const struct rows *rows, int minor)
{
	for (size_t i = 0; i < rows->nr; i++)
		if (rows->rows[i].minor == minor)
			return true;
	return false;
}

static int add_orphans(const struct numbers *minors, struct rows *out)
{
	struct row row = { .pid = OPTIONS_UNSET };
	struct rows served = *out;
	int err = 0;

	for (size_t i = 0; i < minors->nr && err == 0; i++) {
		served.rows = out->rows; /* add_row moves it */
		row.minor = minors->numbers[i];
		if (!is_served(&served, row.minor))
			err = add_row(out, &row);
	}
	return err;
}

/* "aio:/srv/a" into "aio" (its length) and "/srv/a". */
static const char *split(const struct row *row, int *type_len)
{
	const char *colon = strchr(row->path, ':');

	*type_len = colon ? (int)(colon - row->path) : 0;
	return colon ? colon + 1 : row->path;
}

static bool matches(const struct row *row, const struct options *options)
{
	const char *file;
	int len;

	if (options->pid != OPTIONS_UNSET && row->pid != options->pid)
		return false;
	if (options->minor != OPTIONS_UNSET && row->minor != options->minor)
		return false;
	if (!options->type && !options->file)
		return true;
	if (!row->path[0])
		return false;
	file = split(row, &len);
	if (options->type && (strncmp(options->type, row->path, (size_t)len) ||
			      options->type[len]))
		return false;
	return !options->file || !strcmp(options->file, file);
}

static void print_plain(const struct row *row)
{
	const char *space = "";

	if (row->pid != OPTIONS_UNSET) {
		printf("pid=%d", row->pid);
		space = " ";
	}
	if (row->minor != OPTIONS_UNSET)
		printf("%sminor=%d", space, row->minor);
	if (row->pid != OPTIONS_UNSET && row->minor != OPTIONS_UNSET)
		printf(" state=%#x", (unsigned)row->state);
	if (row->path[0])
		printf(" args=%s", row->path);
	printf("\n");
}

static void print_column(const struct row *row)
{
	bool open = row->path[0] != '\0';
	bool served = row->pid != OPTIONS_UNSET && row->minor != OPTIONS_UNSET;
	char pid[16] = "-", minor[16] = "-", state[16] = "-", type[32] = "-";
	const char *file = "-";
	int len;

	if (row->pid != OPTIONS_UNSET)
		snprintf(pid, sizeof(pid), "%d", row->pid);
	if (row->minor != OPTIONS_UNSET)
		snprintf(minor, sizeof(minor), "%d", row->minor);
	if (served)
		snprintf(state, sizeof(state), "%#x", (unsigned)row->state);
	if (open) {
		file = split(row, &len);
		snprintf(type, sizeof(type), "%.*s", len, row->path);
	}
	printf("%8s %4s %4s %10s %s\n", pid, minor, state, type, file);
}

static void print_rows(struct rows *rows, const struct options *options)
{
	bool terminal = isatty(STDOUT_FILENO);

	if (terminal)
		printf("%8s %4s %4s %10s %s\n", "PID", "MINOR", "STATE", "TYPE",
		       "FILE");
	for (size_t i = 0; i < rows->nr; i++) {
		struct row *row = &rows->rows[i];

		if (!matches(row, options))
			continue;
		/* a line is an entry, whatever a file is called */
		for (char *c = row->path; *c; c++)
			if (*c == '\n' || *c == '\r')
				*c = '?';
		if (terminal)
			print_column(row);
		else
			print_plain(row);
	}
}

/* The tapdisks to ask: the one that was named, or all that have a socket. */
static int find_tapdisks(const struct options *options, struct numbers *out)
{
	int err;

	if (options->pid == OPTIONS_UNSET)
		return read_numbers(host_run_dir(), "ctl", out);
	err = grow((void **)&out->numbers, 0, &out->size, sizeof(int));
	if (err == 0)
		out->numbers[out->nr++] = (int)options->pid;
	return err;
}

int list_run(const struct options *options)
{
	struct numbers pids = { 0 }, minors = { 0 };
	struct rows rows = { 0 };
	char markers[PATH_MAX];
	int n, err = 0;

	n = snprintf(markers, sizeof(markers), "%s/tapdisk", host_run_dir());
	if (n >= (int)sizeof(markers))
		err = -ENAMETOOLONG;
	/* minors first: one that is attached meanwhile is not an orphan */
	if (err == 0)
		err = read_numbers(markers, "tapdisk-", &minors);
	if (err == 0)
		err = find_tapdisks(options, &pids);
	if (err == 0)
		err = ask_all(&pids, &rows);
	if (err == 0)
		err = add_orphans(&minors, &rows);
	if (err < 0)
		say_error(options, err, "%s", host_run_dir());
	else
		print_rows(&rows, options);
	free(pids.numbers);
	free(minors.numbers);
	free(rows.rows);
	return err;
}
