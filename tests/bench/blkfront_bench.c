/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blkfront-bench: play the guest of a running tapdisk and load its disk.
 *
 * Puts together what the rest of this folder can do; the figures are those of
 * the measured run alone, without --verify's filling and reading back.
 */
#include <errno.h>
#include <json-c/json.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "poll/clock.h"
#include "tests/bench/load.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"
#include "tests/bench/session.h"
#include "tests/bench/watchdog.h"
#include "tests/frontend.h"

#define PROGRAM "blkfront-bench"
#define DEPTH_MAX 4096
#define EXIT_MISUSE 2

struct settings {
	struct session_options session;
	struct load_options load;
	bool has_cpu;
	uint32_t cpu;
	uint64_t linger_ns;
	bool json;
};

static const char *const mode_names[NR_LOAD_MODES] = {
	[LOAD_RANDREAD] = "randread", [LOAD_RANDWRITE] = "randwrite",
	[LOAD_READ] = "read",	      [LOAD_WRITE] = "write",
	[LOAD_RANDRW] = "randrw",     [LOAD_DISCARD] = "discard",
};

/* ---- options ---- */

static int set_mode(void *field, const char *text, const char **why)
{
	struct load_options *o = field;
	unsigned i;

	for (i = 0; i < NR_LOAD_MODES; i++) {
		if (strcmp(text, mode_names[i]) == 0) {
			o->mode = (enum load_mode)i;
			return 0;
		}
	}
	*why = "not one of randread, randwrite, read, write, randrw, discard";
	return -EINVAL;
}

static int set_block(void *field, const char *text, const char **why)
{
	struct load_options *o = field;

	*why = "not a multiple of 512, from 512 to 2m";
	if (option_parse_bytes(text, &o->block_bytes) || !o->block_bytes ||
	    o->block_bytes % 512 || o->block_bytes > LOAD_BLOCK_MAX)
		return -EINVAL;
	return 0;
}

static int set_think(void *field, const char *text, const char **why)
{
	struct load_options *o = field;
	char time[32];
	size_t len = strcspn(text, ":");

	*why = "not a time such as 100us or 2ms, or 100us:exp";
	o->think_exp = strcmp(text + len, ":exp") == 0;
	if ((text[len] && !o->think_exp) || len >= sizeof(time))
		return -EINVAL;
	memcpy(time, text, len);
	time[len] = 0;
	return option_parse_time(time, 1000, &o->think_ns) ? -EINVAL : 0;
}

static int set_depth(void *field, const char *text, const char **why)
{
	uint32_t *depth = field;

	if (option_number(depth, text, why) || !*depth || *depth > DEPTH_MAX) {
		*why = "not a number from 1 to 4096";
		return -EINVAL;
	}
	return 0;
}

static int set_positive(void *field, const char *text, const char **why)
{
	uint32_t *number = field;

	if (option_number(number, text, why) || !*number) {
		*why = "not a number above 0";
		return -EINVAL;
	}
	return 0;
}

static int set_cpu(void *field, const char *text, const char **why)
{
	struct settings *s = field;

	if (option_number(&s->cpu, text, why) || s->cpu >= CPU_SETSIZE) {
		*why = "not a CPU's number";
		return -EINVAL;
	}
	s->has_cpu = true;
	return 0;
}

static const struct option_row option_rows[] = {
	{ 'p', "pid", "PID", "the tapdisk", session_option_pid,
	  offsetof(struct settings, session) },
	{ 'm', "minor", "MINOR", "its disk", session_option_minor,
	  offsetof(struct settings, session) },
	{ 0, "rw", "MODE",
	  "randread (default), randwrite, read, write, randrw\n"
	  "(half and half) or discard",
	  set_mode, offsetof(struct settings, load) },
	{ 0, "bs", "SIZE", "bytes of an I/O, 512 to 2m (4k)", set_block,
	  offsetof(struct settings, load) },
	{ 0, "qd", "N",
	  "I/Os in flight (1; with --rate as many as the ring\nhas slots)",
	  set_depth, offsetof(struct settings, load.depth) },
	{ 0, "think", "TIME[:exp]",
	  "between an I/O's answer and the next, 100us or 2ms;\n"
	  "exp: exponentially distributed around it",
	  set_think, offsetof(struct settings, load) },
	{ 0, "burst", "N",
	  "send N I/Os at once, wait for all, then think once\n"
	  "(instead of --qd); with --rate they are due together",
	  set_depth, offsetof(struct settings, load.burst) },
	{ 0, "burst-every", "N",
	  "of N batches one is a burst, the others a lone I/O", set_positive,
	  offsetof(struct settings, load.burst_every) },
	{ 0, "rate", "R",
	  "send R I/Os a second whatever the answers; latency\n"
	  "counts from when an I/O was due",
	  set_positive, offsetof(struct settings, load.rate) },
	{ 0, "flush-every", "N",
	  "let N I/Os end, then flush (not counted as an I/O)", set_positive,
	  offsetof(struct settings, load.flush_every) },
	{ 0, "guest", "local|xen",
	  "a guest of its own (local), or domain 0 by grants and\n"
	  "event channels, when it runs there",
	  session_option_guest, offsetof(struct settings, session) },
	{ 0, "wait", "spin|sleep",
	  "how the guest waits for answers, and thinks (sleep)",
	  session_option_wait, offsetof(struct settings, session) },
	{ 0, "runtime", "TIME", "seconds to measure, or 500ms (2)",
	  option_seconds, offsetof(struct settings, load.runtime_ns) },
	{ 0, "size", "SIZE", "stay below SIZE (256m, at most the disk)",
	  option_bytes, offsetof(struct settings, load.size) },
	{ 0, "verify", NULL,
	  "fill the region first, check all that is read, read it\n"
	  "all back at the end",
	  option_flag, offsetof(struct settings, load.verify) },
	{ 0, "ring-order", "0..4", "ring pages, as a power of two (0)",
	  session_option_order, offsetof(struct settings, session) },
	{ 0, "abi", "ABI", "native (default), x86_32 or x86_64",
	  session_option_abi, offsetof(struct settings, session) },
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
	{ 0, "domid", "N", "the guest's domain number (one of its own)",
	  set_positive, offsetof(struct settings, session.domid) },
	{ 0, "devid", "N", "the device's number in the guest (51712, xvda)",
	  set_positive, offsetof(struct settings, session.devid) },
	{ 0, "cpu", "N", "run the guest on CPU N only", set_cpu, 0 },
	{ 0, "linger", "TIME", "stay connected and idle for so long at the end",
	  option_seconds, offsetof(struct settings, linger_ns) },
	{ 0, "json", NULL, "the result as JSON, in one line", option_flag,
	  offsetof(struct settings, json) },
};

static const struct option_table table = {
	.program = PROGRAM,
	.usage = "-p PID -m MINOR [OPTION]...",
	.about = "Be the guest of a tapdisk's disk and load it.  What writes "
		 "destroys what is on it.",
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
	if (!s->session.has_pid)
		return misuse("-p", "is needed");
	if (!s->session.has_minor)
		return misuse("-m", "is needed");
	if (s->load.rate && s->load.think_ns)
		return misuse("--rate", "does not go with --think");
	if (s->load.burst_every && (!s->load.burst || s->load.rate))
		return misuse("--burst-every", "needs --burst, without --rate");
	if (!s->load.runtime_ns)
		return misuse("--runtime", "must be above 0");
	return 0;
}

/* ---- the figures ---- */

struct figures {
	double iops, bytes_per_s, think_us;
	double cpu_us, kicks, wakeups, arms; /* per I/O */
};

static void reckon(const struct settings *s, const struct load_result *r,
		   const struct session_counters *before,
		   const struct session_counters *after, struct figures *out)
{
	double seconds = (double)r->elapsed_ns / 1e9;
	double ios = r->ios ? (double)r->ios : 1;

	out->iops = seconds > 0 ? (double)r->ios / seconds : 0;
	out->bytes_per_s = out->iops * (double)s->load.block_bytes;
	out->think_us =
		r->thoughts ? (double)r->think_ns / 1e3 / (double)r->thoughts
			    : 0;
	out->cpu_us = (double)(after->cpu_ns - before->cpu_ns) / 1e3 / ios;
	out->kicks = (double)(after->kicks - before->kicks) / ios;
	out->wakeups = (double)(after->sleeps - before->sleeps) / ios;
	out->arms = (double)(after->arms - before->arms) / ios;
}

static void print_json(const struct load_result *r, const struct figures *f)
{
	struct json_object *json = json_object_new_object();

	report_add(json, "iops", f->iops);
	report_add(json, "bytes_per_s", f->bytes_per_s);
	report_add_latency(json, "lat_us", &r->latency, true);
	report_add(json, "think_us", f->think_us);
	report_add(json, "tapdisk_cpu_us_per_io", f->cpu_us);
	report_add(json, "kicks_per_io", f->kicks);
	report_add(json, "wakeups_per_io", f->wakeups);
	report_add(json, "arms_per_io", f->arms);
	json_object_object_add(json, "io_errors",
			       json_object_new_int64((int64_t)r->io_errors));
	json_object_object_add(
		json, "verify_errors",
		json_object_new_int64((int64_t)r->verify_errors));
	report_print(stdout, json);
	json_object_put(json);
}

static double quantile_us(const struct load_result *r, double fraction)
{
	return (double)histogram_quantile(&r->latency, fraction) / 1e3;
}

static void print_text(const struct load_result *r, const struct figures *f)
{
	printf("%.0f I/Os a second, %.1f MiB/s, %llu I/Os, %llu flushes\n",
	       f->iops, f->bytes_per_s / 1048576, (unsigned long long)r->ios,
	       (unsigned long long)r->flushes);
	printf("latency us: mean %.1f p50 %.1f p99 %.1f p99.9 %.1f max %.1f\n",
	       histogram_mean(&r->latency) / 1e3, quantile_us(r, 0.5),
	       quantile_us(r, 0.99), quantile_us(r, 0.999),
	       (double)r->latency.max / 1e3);
	printf("think us: %.1f\n", f->think_us);
	printf("per I/O: tapdisk CPU us %.2f kicks %.3f wakeups %.3f arms "
	       "%.3f\n",
	       f->cpu_us, f->kicks, f->wakeups, f->arms);
	printf("errors: I/O %llu verify %llu\n",
	       (unsigned long long)r->io_errors,
	       (unsigned long long)r->verify_errors);
}

/* ---- the run ---- */

static void complain(int err)
{
	fprintf(stderr, PROGRAM ": %s\n", watchdog_reason(err));
}

static int run_load(const struct settings *s, const struct session *session,
		    struct load *l)
{
	struct session_counters before = { 0 }, after = { 0 };
	const struct load_result *r = load_result(l);
	struct figures figures;
	int err = 0;

	if (s->load.verify)
		err = load_fill(l);
	if (!err && session_counters_read(session, &before))
		return -EIO;
	if (!err)
		err = load_run(l);
	if (!err && session_counters_read(session, &after))
		return -EIO;
	if (!err && s->load.verify)
		err = load_read_back(l);
	if (err) {
		complain(err);
		return err;
	}
	reckon(s, r, &before, &after, &figures);
	if (s->json)
		print_json(r, &figures);
	else
		print_text(r, &figures);
	if (r->late)
		fprintf(stderr, PROGRAM ": %llu I/Os were due and not sent\n",
			(unsigned long long)r->late);
	return r->io_errors || r->verify_errors ? -EIO : 0;
}

/* What only the disk and the ring can tell. */
static int fit_to_disk(struct settings *s, const struct session *session)
{
	if (s->load.size > session->disk_bytes)
		s->load.size = session->disk_bytes;
	if (s->load.size < s->load.block_bytes)
		return misuse("--bs", "larger than --size or the disk");
	if (!s->load.depth && s->load.rate)
		s->load.depth = frontend_slots(session->frontend);
	else if (!s->load.depth)
		s->load.depth = 1;
	return 0;
}

/* A guest that has nothing to do and goes away with us. */
static void linger(uint64_t ns, struct watchdog *watchdog)
{
	uint64_t now = clock_ns(), end = now + ns;

	for (; now < end && !watchdog_look(watchdog, now); now = clock_ns())
		usleep(WATCHDOG_SLICE_NS / 1000);
}

static int run(struct settings *s)
{
	struct watchdog watchdog;
	struct session session;
	struct load *l;
	int err;

	watchdog_init(&watchdog, (pid_t)s->session.pid);
	if (session_open(&s->session, &session))
		return EXIT_FAILURE;
	err = fit_to_disk(s, &session);
	if (err) {
		session_close(&session);
		return EXIT_MISUSE;
	}
	err = load_open(&s->load, session.frontend, &watchdog, &l);
	if (err) {
		complain(err);
	} else {
		err = run_load(s, &session, l);
		load_close(l);
		linger(s->linger_ns, &watchdog);
	}
	session_close(&session);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int pin(uint32_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) == 0)
		return 0;
	fprintf(stderr, PROGRAM ": --cpu: %u: %s\n", cpu, strerror(errno));
	return -EINVAL;
}

int main(int argc, char **argv)
{
	struct settings s = {
		.session = { .program = PROGRAM },
		.load = { .mode = LOAD_RANDREAD,
			  .block_bytes = 4096,
			  .size = 256 << 20,
			  .runtime_ns = 2000000000 },
	};
	int err;

	err = options_parse(&table, argc, argv, &s);
	if (err)
		return err > 0 ? EXIT_SUCCESS : EXIT_MISUSE;
	s.load.spin = s.session.spin;
	if (check_settings(&s) || (s.has_cpu && pin(s.cpu)))
		return EXIT_MISUSE;
	/* sleeping guests wake up when they meant to */
	prctl(PR_SET_TIMERSLACK, 1);
	return run(&s);
}
