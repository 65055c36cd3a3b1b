/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault, delay and record: which io they touch, how, and that the others pass.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include "drivers/record.h"
#include "poll/clock.h"
#include "tests/rig.h"

enum {
	BYTES = 65536,
	TRIES = 8,
};

/* Eight io of one kind, at sectors 0, 2, 4...: which of them fail? */
static const struct pattern {
	const char *options;
	enum io_op op;
	int want[TRIES];
} patterns[] = {
	{ "", IO_READ, { -EIO, -EIO, -EIO, -EIO, -EIO, -EIO, -EIO, -EIO } },
	{ "op=any,nth=1", IO_FLUSH, { -EIO } },
	{ "nth=3", IO_WRITE, { 0, 0, -EIO } },
	{ "every=3", IO_READ, { 0, 0, -EIO, 0, 0, -EIO } },
	{ "every=3,nth=1", IO_READ, { -EIO, 0, -EIO, 0, 0, -EIO } },
	{ "op=write", IO_READ, { 0 } },
	{ "op=read,nth=2", IO_READ, { 0, -EIO } },
	{ "op=write,nth=2", IO_WRITE, { 0, -EIO } },
	{ "op=flush,nth=2", IO_FLUSH, { 0, -EIO } },
	{ "op=discard,nth=2", IO_DISCARD, { 0, -EIO } },
	{ "op=zeroes,nth=2", IO_WRITE_ZEROES, { 0, -EIO } },
	{ "err=ENOSPC,nth=1", IO_WRITE, { -ENOSPC } },
	{ "err=EAGAIN,nth=1", IO_WRITE, { -EAGAIN } },
	{ "err=EBUSY,nth=1", IO_WRITE, { -EBUSY } },
	{ "err=ETIMEDOUT,nth=1", IO_WRITE, { -ETIMEDOUT } },
	{ "from=4k,to=5k", IO_WRITE, { 0, 0, 0, 0, -EIO } },
	{ "from=4607,to=4608", IO_WRITE, { 0, 0, 0, 0, -EIO } },
	{ "from=4608,to=5120", IO_WRITE, { 0 } },
	{ "to=1", IO_WRITE, { -EIO } },
	{ "from=6k", IO_WRITE, { 0, 0, 0, 0, 0, 0, -EIO, -EIO } },
	{ "from=2k,nth=2", IO_WRITE, { 0, 0, 0, -EIO } },
	{ "from=0", IO_FLUSH, { 0 } },
};

START_TEST(fault_strikes_what_it_says)
{
	const struct pattern *p = &patterns[_i];
	char spec[200], *buf = rig_buffer(512);
	struct rig rig;
	int err;

	snprintf(spec, sizeof(spec), "fault:%s;ram:64k", p->options);
	rig_open(&rig, spec, 0);
	for (unsigned i = 0; i < TRIES; i++) {
		bool flush = p->op == IO_FLUSH;

		err = rig_do(&rig, p->op, flush ? 0 : i * 1024, flush ? 0 : 512,
			     buf);
		ck_assert_msg(err == p->want[i], "%s: io %u: %s", spec, i + 1,
			      strerror(-err));
	}
	rig_close(&rig);
	free(buf);
}
END_TEST

static const struct cut {
	const char *options;
	unsigned done; /* bytes */
	int err;
} cuts[] = {
	{ "op=write,nth=1,short=1k", 1024, -EIO },
	{ "op=write,nth=1,short=512,err=ENOSPC", 512, -ENOSPC },
	{ "op=write,nth=1,short=0", 0, -EIO },
	{ "op=write,nth=1,short=1m", 4096, -EIO },
	{ "op=write,nth=1", 0, -EIO },
};

START_TEST(fault_cuts_short)
{
	const struct cut *cut = &cuts[_i];
	char spec[200], *buf = rig_buffer(4096), *back = rig_buffer(4096);
	struct rig rig;

	snprintf(spec, sizeof(spec), "fault:%s;ram:64k", cut->options);
	rig_open(&rig, spec, 0);
	memset(buf, 0x77, 4096);
	ck_assert_int_eq(rig_do(&rig, IO_WRITE, 0, 4096, buf), cut->err);
	ck_assert_int_eq(rig_do(&rig, IO_READ, 0, 4096, back), 0);
	for (unsigned i = 0; i < 4096; i++)
		ck_assert_int_eq(back[i], i < cut->done ? 0x77 : 0);
	rig_close(&rig);
	free(buf);
	free(back);
}
END_TEST

START_TEST(fault_counts_all_ports_together)
{
	char *buf = rig_buffer(512);
	struct node *node;
	struct rig a, b;

	ck_assert_int_eq(driver_open("fault:nth=3;ram:64k", 0, &node), 0);
	rig_port(&a, node, 4);
	rig_port(&b, node, 4);
	ck_assert_int_eq(rig_do(&a, IO_READ, 0, 512, buf), 0);
	ck_assert_int_eq(rig_do(&b, IO_READ, 0, 512, buf), 0);
	ck_assert_int_eq(rig_do(&a, IO_READ, 0, 512, buf), -EIO);
	rig_close(&a);
	rig_close(&b);
	driver_close(node);
	free(buf);
}
END_TEST

START_TEST(delay_starts_late_and_in_order)
{
	uint64_t from = clock_ns();
	char *buf = rig_buffer(4 * 512);
	struct rig_io r[4], now;
	struct rig rig;

	rig_open(&rig, "delay:us=20000,op=write;fault:op=write,nth=2;ram:64k",
		 0);
	for (unsigned i = 0; i < 4; i++) /* all to the same sector */
		rig_submit(&rig, &r[i], IO_WRITE, 0, 512,
			   memset(buf + i * 512, (int)i + 1, 512));
	rig_submit(&rig, &now, IO_READ, 512, 512, buf);
	ck_assert_uint_eq(now.dones, 1); /* it passes those that wait */
	port_turn(rig.port);
	for (unsigned i = 0; i < 4; i++) {
		if (clock_ns() - from < 20000000)
			ck_assert_uint_eq(r[i].dones, 0);
	}
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(rig_finish(&rig, &r[i]), i == 1 ? -EIO : 0);
	ck_assert_uint_ge(clock_ns() - from, 20000000);
	ck_assert_int_eq(rig_do(&rig, IO_READ, 0, 512, buf), 0);
	ck_assert_int_eq(buf[0], 4);
	/* slept, not span: some sleeps, and no date is left */
	ck_assert_uint_lt(rig.wait.counters.sleeps, 100);
	rig_close(&rig);
	free(buf);
}
END_TEST

/* ---- record ---- */

struct log {
	char *text;
	size_t size;
	char path[256];
};

static void read_log(struct log *log)
{
	int fd = open(log->path, O_RDONLY);

	ck_assert_int_ge(fd, 0);
	log->size = (size_t)lseek(fd, 0, SEEK_END);
	log->text = malloc(log->size);
	ck_assert_int_eq(pread(fd, log->text, log->size, 0),
			 (ssize_t)log->size);
	close(fd);
}

/* Do again what was recorded; how many entries.  Checks what record.h says. */
static unsigned replay(const struct log *log, char *disk)
{
	const struct record_header *header = (const void *)log->text;
	const char *p = log->text + sizeof(*header);
	uint64_t last = 0;
	unsigned n;

	ck_assert_uint_eq(header->magic, RECORD_MAGIC);
	ck_assert_uint_eq(header->bytes, BYTES);
	for (n = 0; p < log->text + log->size; n++) {
		struct record_entry e;

		memcpy(&e, p, sizeof(e));
		p += sizeof(e);
		ck_assert_uint_gt(e.completed, last);
		ck_assert_uint_gt(e.completed, e.submitted);
		last = e.completed;
		if (e.op == IO_WRITE) {
			if (!e.err)
				memcpy(disk + e.offset, p, e.len);
			p += e.len;
		} else if (e.op != IO_FLUSH && !e.err) {
			memset(disk + e.offset, 0, e.len);
		}
	}
	ck_assert_ptr_eq(p, log->text + log->size);
	return n;
}

START_TEST(record_replays_to_the_same_disk)
{
	char spec[600], *disk = rig_buffer(BYTES), *back = rig_buffer(BYTES);
	static const enum io_op ops[] = { IO_WRITE,	  IO_WRITE, IO_WRITE,
					  IO_READ,	  IO_FLUSH, IO_DISCARD,
					  IO_WRITE_ZEROES };
	unsigned seed = 3, changes = 0;
	struct log log;
	struct rig rig;

	scratch_path(log.path, sizeof(log.path), "record");
	snprintf(spec, sizeof(spec),
		 "record:to=%s;delay:us=10,op=write;fault:op=write,every=7;"
		 "ram:64k",
		 log.path);
	rig_open(&rig, spec, 0);
	for (unsigned i = 0; i < 500; i++) {
		enum io_op op = ops[rand_r(&seed) % 7];
		uint64_t len = (1 + (uint64_t)rand_r(&seed) % 8) * 512;
		uint64_t offset =
			(uint64_t)rand_r(&seed) % (BYTES / 512 - 8) * 512;

		memset(back, rand_r(&seed), len);
		if (op == IO_FLUSH)
			len = offset = 0;
		rig_do(&rig, op, offset, len, back);
		changes += op != IO_READ;
	}
	ck_assert_int_eq(rig_do(&rig, IO_READ, 0, BYTES, back), 0);
	rig_close(&rig);
	read_log(&log);
	ck_assert_uint_eq(replay(&log, disk), changes);
	ck_assert_mem_eq(disk, back, BYTES);
	free(log.text);
	free(disk);
	free(back);
}
END_TEST

/* A flush covers what had completed, and not what was only submitted. */
START_TEST(record_dates_tell_what_a_flush_covers)
{
	char spec[600], *buf = rig_buffer(1024);
	struct record_entry *e[3];
	struct rig_io early, late;
	struct log log;
	struct rig rig;

	scratch_path(log.path, sizeof(log.path), "record");
	snprintf(spec, sizeof(spec),
		 "record:to=%s;delay:us=1000,op=write;ram:%d", log.path, BYTES);
	rig_open(&rig, spec, 0);
	rig_submit(&rig, &early, IO_WRITE, 0, 512, buf);
	ck_assert_int_eq(rig_finish(&rig, &early), 0);
	rig_submit(&rig, &late, IO_WRITE, 512, 512, buf + 512);
	ck_assert_int_eq(rig_do(&rig, IO_FLUSH, 0, 0, NULL), 0);
	ck_assert_int_eq(rig_finish(&rig, &late), 0);
	rig_close(&rig);
	read_log(&log);
	ck_assert_uint_eq(log.size, sizeof(struct record_header) +
					    3 * sizeof(*e[0]) + 1024);
	e[0] = (void *)(log.text + sizeof(struct record_header));
	e[1] = (void *)((char *)(e[0] + 1) + 512);
	e[2] = e[1] + 1;
	ck_assert_uint_eq(e[0]->op, IO_WRITE);
	ck_assert_uint_eq(e[1]->op, IO_FLUSH);
	ck_assert_uint_eq(e[2]->op, IO_WRITE);
	ck_assert_uint_lt(e[0]->completed, e[1]->submitted);
	ck_assert_uint_lt(e[2]->submitted, e[1]->submitted);
	ck_assert_uint_gt(e[2]->completed, e[1]->submitted);
	free(log.text);
	free(buf);
}
END_TEST

START_TEST(what_cannot_be_recorded_fails)
{
	const struct rlimit limit = { sizeof(struct record_header) + 100,
				      RLIM_INFINITY };
	char spec[600], path[256], *buf = rig_buffer(512);
	struct node *node;
	struct rig rig;

	ck_assert_int_eq(driver_open("record:to=/dev/full;ram:64k", 0, &node),
			 -ENOSPC);
	scratch_path(path, sizeof(path), "record");
	snprintf(spec, sizeof(spec), "record:to=%s;ram:64k", path);
	rig_open(&rig, spec, 0);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(rig_do(&rig, IO_WRITE, 0, 512, buf), -EFBIG);
	ck_assert_int_eq(rig_do(&rig, IO_FLUSH, 0, 0, NULL), -EFBIG);
	ck_assert_int_eq(rig_do(&rig, IO_READ, 0, 512, buf), 0);
	rig_close(&rig);
	free(buf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("filters");
	TCase *tcase = tcase_create("filters");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, fault_strikes_what_it_says, 0,
			    sizeof(patterns) / sizeof(*patterns));
	tcase_add_loop_test(tcase, fault_cuts_short, 0,
			    sizeof(cuts) / sizeof(*cuts));
	tcase_add_test(tcase, fault_counts_all_ports_together);
	tcase_add_test(tcase, delay_starts_late_and_in_order);
	tcase_add_test(tcase, record_replays_to_the_same_disk);
	tcase_add_test(tcase, record_dates_tell_what_a_flush_covers);
	tcase_add_test(tcase, what_cannot_be_recorded_fails);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
