/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every driver and every store promises, looped over both tables.  A new
 * one needs a sample spec here and nothing else.
 */
#include <errno.h>
#include "tests/rig.h"

enum {
	BYTES = 4 << 20,
	LANES = 16, /* io in flight; each has a part of the disk */
	LANE_BYTES = BYTES / LANES,
	IO_MAX = 65536,
	ROUNDS = 20,
};

/* %s is a file of BYTES bytes. */
static const struct sample {
	const char *driver;
	const char *spec;
	bool forgets; /* reads give zeros */
} samples[] = {
	{ "aio", "aio:%s", false },
	{ "ram", "ram:4m", false },
	{ "null", "null:4096k", true },
	{ "fault", "fault:op=read,nth=1000000;aio:%s", false },
	{ "delay", "delay:us=50,op=write;aio:%s", false },
	{ "record", "record:to=%s.record;aio:%s", false },
};

/*
 * Of both tables, one after the other.  vhd is left out: the contract is tried
 * by writing, which it cannot do, and tests/test_vhd.c tries its reading.
 */
static const struct driver *driver_at(unsigned i, bool *store)
{
	unsigned n = 0;

	for (unsigned k = 0; driver_table[k]; k++) {
		if (!strcmp(driver_table[k]->name, "vhd"))
			continue;
		if (n++ == i)
			return driver_table[k];
	}
	*store = true;
	return driver_store_table[i - n];
}

static int count_drivers(void)
{
	bool store;
	int n;

	for (n = 0; driver_at((unsigned)n, &store); n++)
		;
	return n;
}

static const struct sample *find_sample(const struct driver *driver)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++)
		if (!strcmp(samples[i].driver, driver->name))
			return &samples[i];
	ck_abort_msg("%s: no sample spec", driver->name);
	return NULL;
}

static const struct sample *open_sample(unsigned i, unsigned flags,
					struct node **out)
{
	const struct sample *sample;
	const struct driver *driver;
	char path[256], spec[1024];
	bool store = false;
	int err;

	driver = driver_at(i, &store);
	sample = find_sample(driver);
	rig_file(path, sizeof(path), "disk", BYTES);
	spec[0] = '@';
	snprintf(spec + 1, sizeof(spec) - 1, sample->spec, path, path);
	err = store ? driver_open_store(spec, flags, out)
		    : driver_open(spec + 1, flags, out);
	ck_assert_msg(!err, "%s: %s", spec, strerror(-err));
	ck_assert_ptr_eq((*out)->driver, driver);
	return sample;
}

START_TEST(info_is_sane)
{
	const struct driver_info *info;
	struct node *node;

	open_sample((unsigned)_i, 0, &node);
	info = &node->info;
	ck_assert_uint_eq(info->bytes, BYTES);
	ck_assert_uint_ge(info->logical_block, 512);
	ck_assert_uint_eq(info->logical_block & (info->logical_block - 1), 0);
	ck_assert_uint_ge(info->physical_block, info->logical_block);
	ck_assert_uint_eq(info->physical_block & (info->physical_block - 1), 0);
	driver_close(node);
}
END_TEST

struct lane {
	struct rig_io r; /* first */
	char *buf;
	char *was; /* what the range held before */
};

struct model {
	struct rig rig;
	const struct sample *sample;
	uint32_t block;
	char *bytes; /* what the disk must hold */
	struct lane lanes[LANES];
	unsigned seed;
};

static bool zeros(const char *p, uint64_t len)
{
	while (len && !*p) {
		p++;
		len--;
	}
	return !len;
}

static void start(struct model *m, unsigned l)
{
	struct lane *lane = &m->lanes[l];
	enum io_op op = (enum io_op)(rand_r(&m->seed) % NR_IO_OPS);
	uint64_t blocks = IO_MAX / m->block;
	uint64_t len = (1 + (uint64_t)rand_r(&m->seed) % blocks) * m->block;
	uint64_t room = (LANE_BYTES - len) / m->block;
	uint64_t offset = l * LANE_BYTES +
			  (uint64_t)rand_r(&m->seed) % (room + 1) * m->block;

	if (op == IO_FLUSH) {
		rig_submit(&m->rig, &lane->r, op, 0, 0, NULL);
		return;
	}
	memcpy(lane->was, m->bytes + offset, len);
	memset(lane->buf, rand_r(&m->seed), len);
	if (op == IO_WRITE && !m->sample->forgets)
		memcpy(m->bytes + offset, lane->buf, len);
	if (op == IO_WRITE_ZEROES)
		memset(m->bytes + offset, 0, len);
	rig_submit(&m->rig, &lane->r, op, offset, len,
		   op == IO_READ || op == IO_WRITE ? lane->buf : NULL);
}

static void finish(struct model *m, struct lane *lane)
{
	struct io *io = &lane->r.io;
	uint64_t offset = io->offset, len = io->len;
	int err = rig_finish(&m->rig, &lane->r);

	ck_assert_msg(!err, "%s: op %d: %s", m->sample->spec, io->op,
		      strerror(-err));
	if (io->op == IO_READ)
		ck_assert_mem_eq(lane->buf, m->bytes + offset, len);
	if (io->op != IO_DISCARD)
		return;
	ck_assert_int_eq(rig_do(&m->rig, IO_READ, offset, len, lane->buf), 0);
	for (uint64_t at = 0; at < len; at += m->block)
		ck_assert(zeros(lane->buf + at, m->block) ||
			  !memcmp(lane->buf + at, lane->was + at, m->block));
	memcpy(m->bytes + offset, lane->buf, len);
}

static void run(struct model *m)
{
	char *all = rig_buffer(BYTES);

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned l = 0; l < LANES; l++)
			start(m, l);
		for (unsigned l = 0; l < LANES; l++)
			finish(m, &m->lanes[l]);
	}
	ck_assert_int_eq(rig_do(&m->rig, IO_READ, 0, BYTES, all), 0);
	ck_assert_mem_eq(all, m->bytes, BYTES);
	free(all);
}

/* Random operations in random order and size, LANES at a time. */
START_TEST(reads_back_what_was_written)
{
	struct model m = { .seed = 1 + (unsigned)_i };
	struct node *node;

	m.sample = open_sample((unsigned)_i, 0, &node);
	m.block = node->info.logical_block;
	/* fewer than are in flight: the driver has to queue */
	rig_port(&m.rig, node, LANES - 3);
	m.bytes = rig_buffer(BYTES);
	for (unsigned l = 0; l < LANES; l++) {
		m.lanes[l].buf = rig_buffer(IO_MAX);
		m.lanes[l].was = rig_buffer(IO_MAX);
	}
	run(&m);
	for (unsigned l = 0; l < LANES; l++) {
		ck_assert_uint_eq(m.lanes[l].r.dones, 1);
		free(m.lanes[l].buf);
		free(m.lanes[l].was);
	}
	free(m.bytes);
	rig_close(&m.rig);
	driver_close(node);
}
END_TEST

START_TEST(ports_see_each_others_writes)
{
	char *buf = rig_buffer(4096), *back = rig_buffer(4096);
	const struct sample *sample;
	struct node *node;
	struct rig a, b;

	sample = open_sample((unsigned)_i, 0, &node);
	rig_port(&a, node, 4);
	rig_port(&b, node, 4);
	memset(buf, 0x5a, 4096);
	ck_assert_int_eq(rig_do(&a, IO_WRITE, 8192, 4096, buf), 0);
	ck_assert_int_eq(rig_do(&b, IO_FLUSH, 0, 0, NULL), 0);
	ck_assert_int_eq(rig_do(&b, IO_READ, 8192, 4096, back), 0);
	if (sample->forgets)
		memset(buf, 0, 4096);
	ck_assert_mem_eq(buf, back, 4096);
	rig_close(&a);
	rig_close(&b);
	driver_close(node);
	free(buf);
	free(back);
}
END_TEST

START_TEST(reads_when_opened_read_only)
{
	char *buf = rig_buffer(BYTES);
	struct node *node;
	struct rig rig;

	open_sample((unsigned)_i, DRIVER_RDONLY, &node);
	rig_port(&rig, node, 4);
	memset(buf, 1, BYTES);
	ck_assert_int_eq(rig_do(&rig, IO_READ, 0, BYTES, buf), 0);
	ck_assert(zeros(buf, BYTES));
	ck_assert_int_eq(rig_do(&rig, IO_FLUSH, 0, 0, NULL), 0);
	rig_close(&rig);
	driver_close(node);
	free(buf);
}
END_TEST

/* The first time may leave what the C library keeps. */
START_TEST(close_leaves_nothing_behind)
{
	unsigned fds = 0, threads = 0;
	struct node *node;
	struct rig rig;

	for (unsigned i = 0; i < 3; i++) {
		open_sample((unsigned)_i, 0, &node);
		rig_port(&rig, node, 4);
		ck_assert_int_eq(rig_do(&rig, IO_DISCARD, 0, 8192, NULL), 0);
		rig_close(&rig);
		driver_close(node);
		if (!i) {
			fds = scratch_descriptors();
			threads = rig_threads();
		}
		/* a joined thread is listed until the kernel has buried it */
		for (unsigned t = 0; t < 5000 && rig_threads() > threads; t++)
			usleep(1000);
		ck_assert_uint_le(rig_threads(), threads);
		ck_assert_uint_eq(scratch_descriptors(), fds);
	}
}
END_TEST

/* Its wait has no room for a source: an error, and nothing is left. */
START_TEST(a_port_that_cannot_be_opened_leaves_nothing_behind)
{
	struct wait_source taken[WAIT_SOURCES_MAX];
	unsigned fds = scratch_descriptors();
	struct node *node;
	struct port *port;
	struct wait wait;
	int err;

	open_sample((unsigned)_i, 0, &node);
	for (unsigned n = 0; n <= WAIT_SOURCES_MAX; n++) {
		ck_assert_int_eq(wait_init(&wait, false), 0);
		for (unsigned i = 0; i < n; i++) {
			taken[i] = (struct wait_source){ .due_ns = UINT64_MAX };
			ck_assert_int_eq(wait_add(&wait, &taken[i], NULL), 0);
		}
		err = port_open(node, &wait, 4, &port);
		ck_assert(!err || err == -ENOSPC);
		if (!err)
			port_close(port);
		ck_assert_uint_eq(wait.nr_words, n);
		ck_assert_ptr_null(wait.sleep);
		wait_fini(&wait);
	}
	driver_close(node);
	ck_assert_uint_eq(scratch_descriptors(), fds);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("driver");
	TCase *tcase = tcase_create("contract");
	int n = count_drivers();

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, info_is_sane, 0, n);
	tcase_add_loop_test(tcase, reads_back_what_was_written, 0, n);
	tcase_add_loop_test(tcase, ports_see_each_others_writes, 0, n);
	tcase_add_loop_test(tcase, reads_when_opened_read_only, 0, n);
	tcase_add_loop_test(tcase, close_leaves_nothing_behind, 0, n);
	tcase_add_loop_test(tcase,
			    a_port_that_cannot_be_opened_leaves_nothing_behind,
			    0, n);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
