/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sqlite-bench: SQLite transactions on a tapdisk's disk, through a VFS whose
 * reads, writes and syncs are blkif requests, or on a file anywhere.
 *
 * Options, the choice between the two, and the figures; the work is done by
 * trial.c.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/bench/options.h"
#include "tests/bench/report.h"
#include "tests/bench/ring_trial.h"
#include "tests/bench/session.h"
#include "tests/bench/trial.h"
#include "tests/bench/watchdog.h"

#define PROGRAM "sqlite-bench"
#define COPIES_MAX 64
#define EXIT_MISUSE 2

struct settings {
	struct session_options session;
	struct workload workload;
	const char *file;
	const char *journal;
	const char *acked;
	uint32_t copies;
	bool open_check;
	bool json;
};

/* ---- options ---- */

static int set_positive(void *field, const char *text, const char **why)
{
	uint32_t *number = field;

	if (option_number(number, text, why) || !*number) {
		*why = "not a number above 0";
		return -EINVAL;
	}
	return 0;
}

static int set_copies(void *field, const char *text, const char **why)
{
	uint32_t *number = field;

	if (option_number(number, text, why) || !*number ||
	    *number > COPIES_MAX) {
		*why = "not a number from 1 to 64";
		return -EINVAL;
	}
	return 0;
}

static int set_journal(void *field, const char *text, const char **why)
{
	const char **journal = field;

	*why = "not wal or delete";
	*journal = text;
	return strcmp(text, "wal") && strcmp(text, "delete") ? -EINVAL : 0;
}

static const struct option_row option_rows[] = {
	{ 'p', "pid", "PID", "the tapdisk", session_option_pid,
	  offsetof(struct settings, session) },
	{ 'm', "minor", "MINOR", "its disk, which is overwritten",
	  session_option_minor, offsetof(struct settings, session) },
	{ 0, "file", "PATH", "instead of these: a new file, removed at the end",
	  option_text, offsetof(struct settings, file) },
	{ 0, "copies", "N", "so many databases at once, PATH.0 and up (1)",
	  set_copies, offsetof(struct settings, copies) },
	{ 0, "transactions", "N", "transactions to commit (1000)", set_positive,
	  offsetof(struct settings, workload.transactions) },
	{ 0, "rows", "N", "rows to insert in each (1)", set_positive,
	  offsetof(struct settings, workload.rows) },
	{ 0, "think", "US", "microseconds between transactions, or 2ms (0)",
	  option_microseconds, offsetof(struct settings, workload.think_ns) },
	{ 0, "journal", "MODE", "delete (default) or wal", set_journal,
	  offsetof(struct settings, journal) },
	{ 0, "guest", "local|xen",
	  "a guest of its own (local), or domain 0 by grants and\n"
	  "event channels, when it runs there",
	  session_option_guest, offsetof(struct settings, session) },
	{ 0, "wait", "spin|sleep",
	  "how the guest waits for answers, and thinks (sleep)",
	  session_option_wait, offsetof(struct settings, session) },
	{ 0, "ring-order", "0..4", "ring pages, as a power of two (0)",
	  session_option_order, offsetof(struct settings, session) },
	{ 0, "polling", "MODE",
	  "event (default, but for what tap-ctl polling says),\n"
	  "fixed:US, adaptive or adaptive:US",
	  session_option_polling, offsetof(struct settings, session) },
	{ 0, "align", "on|off",
	  "round US up to the kernel's wakeup granularity (on)",
	  session_option_align, offsetof(struct settings, session) },
	{ 0, "idle-threshold", "PCT", "poll while the host is that idle (0)",
	  session_option_idle, offsetof(struct settings, session) },
	{ 0, "cap", "PCT",
	  "of a CPU that all tapdisks may spend spinning (0: no limit)",
	  session_option_cap, offsetof(struct settings, session) },
	{ 0, "sync", "auto|off|on",
	  "do lone requests at once where that is quicker, never,\n"
	  "always (auto)",
	  session_option_sync, offsetof(struct settings, session) },
	{ 0, "acked", "FILE",
	  "append the last row's id after each commit; with\n"
	  "--open-check: these rows must be there",
	  option_text, offsetof(struct settings, acked) },
	{ 0, "open-check", NULL,
	  "only open the database that is on the disk, recover\n"
	  "and check it, and count its rows",
	  option_flag, offsetof(struct settings, open_check) },
	{ 0, "json", NULL, "the result as JSON, in one line", option_flag,
	  offsetof(struct settings, json) },
};

static const struct option_table table = {
	.program = PROGRAM,
	.usage = "(-p PID -m MINOR | --file PATH) [OPTION]...",
	.about = "Time SQLite commits: durable ones (synchronous=FULL), by "
		 "default one-row\nINSERTs with a rollback journal.",
	.rows = option_rows,
	.nr_rows = sizeof(option_rows) / sizeof(option_rows[0]),
};

static int misuse(const char *object, const char *why)
{
	fprintf(stderr, PROGRAM ": %s: %s; try --help\n", object, why);
	return -EINVAL;
}

static int check_settings(const struct settings *s)
{
	if (s->file && (s->session.has_pid || s->session.has_minor))
		return misuse("--file", "does not go with -p and -m");
	if (!s->file && !(s->session.has_pid && s->session.has_minor))
		return misuse("-p and -m", "both or --file are needed");
	if (s->copies > 1 && !s->file)
		return misuse("--copies", "needs --file");
	if (s->copies > 1 && s->acked)
		return misuse("--copies", "does not go with --acked");
	if (s->file && s->open_check)
		return misuse("--open-check", "needs -p and -m");
	return 0;
}

/* ---- the figures ---- */

static double per_second(const struct workload_result *r)
{
	return r->elapsed_ns ? (double)r->commits * 1e9 / (double)r->elapsed_ns
			     : 0;
}

static void print_json(const struct trial *t, bool has_cpu, double cpu_us)
{
	struct json_object *json = json_object_new_object();

	report_add(json, "tps", per_second(&t->result));
	report_add_latency(json, "commit_us", &t->result.commit, false);
	if (has_cpu)
		report_add(json, "tapdisk_cpu_us_per_commit", cpu_us);
	else
		json_object_object_add(json, "tapdisk_cpu_us_per_commit", NULL);
	json_object_object_add(json, "integrity",
			       json_object_new_string(t->integrity));
	report_print(stdout, json);
	json_object_put(json);
}

static void print_text(const struct trial *t, bool has_cpu, double cpu_us)
{
	const struct histogram *h = &t->result.commit;

	printf("%.1f transactions a second, %llu commits\n",
	       per_second(&t->result), (unsigned long long)t->result.commits);
	printf("commit us: mean %.1f p50 %.1f p99 %.1f max %.1f\n",
	       histogram_mean(h) / 1e3,
	       (double)histogram_quantile(h, 0.5) / 1e3,
	       (double)histogram_quantile(h, 0.99) / 1e3, (double)h->max / 1e3);
	if (has_cpu)
		printf("tapdisk CPU us per commit: %.1f\n", cpu_us);
	printf("integrity: %s\n", t->integrity);
}

static int print_trial(const struct settings *s, const struct trial *t, int err,
		       double cpu_us)
{
	if (err && err != -EILSEQ) {
		fprintf(stderr, PROGRAM ": %s\n", t->why);
		return EXIT_FAILURE;
	}
	if (err)
		fprintf(stderr, PROGRAM ": integrity: %s\n", t->integrity);
	if (s->json)
		print_json(t, !s->file, cpu_us);
	else
		print_text(t, !s->file, cpu_us);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int print_check(const struct settings *s, uint64_t rows)
{
	struct json_object *json;

	if (!s->json) {
		printf("%llu rows, integrity ok\n", (unsigned long long)rows);
		return EXIT_SUCCESS;
	}
	json = json_object_new_object();
	json_object_object_add(json, "rows",
			       json_object_new_int64((int64_t)rows));
	json_object_object_add(json, "integrity", json_object_new_string("ok"));
	report_print(stdout, json);
	json_object_put(json);
	return EXIT_SUCCESS;
}

/* ---- the run ---- */

static int run_file(const struct settings *s, const struct trial *pattern)
{
	static const struct trial nothing;
	struct trial total = nothing;
	int err = trial_run_copies(pattern, s->file, s->copies, &total);

	return print_trial(s, &total, err, 0);
}

static int run_ring(const struct settings *s, struct trial *t)
{
	struct ring_trial ring;
	double cpu_us = 0;
	int status, err;

	if (ring_trial_open(&ring, &s->session))
		return EXIT_FAILURE;
	err = ring_trial_run(&ring, t, &cpu_us);
	status = print_trial(s, t, err, cpu_us);
	ring_trial_close(&ring);
	return status;
}

static int run_check(const struct settings *s, FILE *acked)
{
	struct ring_trial ring;
	char why[256];
	uint64_t rows;
	int status = EXIT_FAILURE;

	if (ring_trial_open(&ring, &s->session))
		return EXIT_FAILURE;
	if (ring_trial_check(&ring, acked, &rows, why, sizeof(why)))
		fprintf(stderr, PROGRAM ": %s\n", why);
	else
		status = print_check(s, rows);
	ring_trial_close(&ring);
	return status;
}

static int run(const struct settings *s)
{
	struct workload workload = s->workload;
	struct trial t = {
		.journal = s->journal,
		.workload = &workload,
	};
	int status;

	watchdog_init(&t.watchdog, (pid_t)s->session.pid);
	workload.spin = s->session.spin;
	if (s->acked) {
		workload.acked = fopen(s->acked, s->open_check ? "re" : "ae");
		if (!workload.acked) {
			fprintf(stderr, PROGRAM ": %s: %s\n", s->acked,
				strerror(errno));
			return EXIT_FAILURE;
		}
	}
	if (s->open_check)
		status = run_check(s, workload.acked);
	else
		status = s->file ? run_file(s, &t) : run_ring(s, &t);
	if (workload.acked)
		fclose(workload.acked);
	return status;
}

int main(int argc, char **argv)
{
	struct settings s = {
		.session = { .program = PROGRAM },
		.workload = { .transactions = 1000, .rows = 1 },
		.journal = "delete",
		.copies = 1,
	};
	int err;

	err = options_parse(&table, argc, argv, &s);
	if (err)
		return err > 0 ? EXIT_SUCCESS : EXIT_MISUSE;
	if (check_settings(&s))
		return EXIT_MISUSE;
	prctl(PR_SET_TIMERSLACK, 1);
	return run(&s);
}
