/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw on a store with large blocks: every 512-byte sector can be read and
 * written, whatever else is in flight, and no write undoes another.
 *
 * The store here is slow, out of order, takes nothing that is not aligned, and
 * moves its bytes only when an io ends, as far from its start as it can be.
 */
#include <errno.h>
#include <pthread.h>
#include "drivers/drivers.h"
#include "tests/rig.h"

enum {
	SECTOR = 512,
	SECTORS = 256,
	BYTES = SECTORS * SECTOR,
	LANES = 12, /* io in flight on each port */
	IO_SECTORS = 20,
	STEPS = 4000,
	DELAY_MAX = 6, /* turns that an io may take */
};

/* ---- the store ---- */

struct slow {
	uint32_t block;
	pthread_mutex_t mutex; /* the threads' memcpys are not what we test */
	char bytes[BYTES];
	unsigned reads, writes, others;
};

struct slow_port {
	struct io *queue;
	unsigned seed;
};

static int slow_port_open(struct port *port)
{
	struct slow_port *p = calloc(1, sizeof(*p));

	p->seed = 1;
	port->priv = p;
	return p ? 0 : -ENOMEM;
}

static void slow_port_close(struct port *port)
{
	free(port->priv);
}

static void slow_submit(struct port *port, struct io *io)
{
	struct slow *slow = port->node->priv;
	struct slow_port *p = port->priv;

	if ((io->offset | io->len | (uintptr_t)io->buf) & (slow->block - 1)) {
		io->done(io, -EINVAL);
		return;
	}
	ck_assert(io->op == IO_FLUSH || io->len > 0);
	ck_assert_uint_le(io->offset + io->len, BYTES);
	io->held = (uint64_t)rand_r(&p->seed) % DELAY_MAX;
	io->next = p->queue;
	p->queue = io;
}

static void slow_move(struct slow *slow, struct io *io)
{
	pthread_mutex_lock(&slow->mutex);
	switch (io->op) {
	case IO_READ:
		memcpy(io->buf, slow->bytes + io->offset, io->len);
		slow->reads++;
		break;
	case IO_WRITE:
		memcpy(slow->bytes + io->offset, io->buf, io->len);
		slow->writes++;
		break;
	default:
		memset(slow->bytes + io->offset, 0, io->len);
		slow->others++;
		break;
	}
	pthread_mutex_unlock(&slow->mutex);
}

static unsigned slow_turn(struct port *port)
{
	struct slow_port *p = port->priv;
	struct io *all = p->queue, *io;
	unsigned n;

	p->queue = NULL;
	for (n = 0; (io = all); n++) {
		all = io->next;
		if (io->held--) {
			io->next = p->queue;
			p->queue = io;
			continue;
		}
		slow_move(port->node->priv, io);
		io->done(io, 0);
	}
	return n;
}

static const struct driver slow_store = {
	.name = "slow",
	.port_open = slow_port_open,
	.port_close = slow_port_close,
	.submit = slow_submit,
	.turn = slow_turn,
};

struct disk {
	struct slow slow;
	struct node store, raw;
};

static struct disk *disk_open(uint32_t logical, uint32_t physical)
{
	struct disk *disk = calloc(1, sizeof(*disk));

	ck_assert_ptr_nonnull(disk);
	disk->slow.block = logical;
	pthread_mutex_init(&disk->slow.mutex, NULL);
	disk->store = (struct node){
		.driver = &slow_store,
		.info = { .bytes = BYTES,
			  .logical_block = logical,
			  .physical_block = physical,
			  .discard_granularity = logical },
		.priv = &disk->slow,
	};
	disk->raw = (struct node){
		.driver = &raw_driver,
		.below = &disk->store,
		.info = disk->store.info,
	};
	ck_assert_int_eq(raw_driver.open("slow", &disk->store, 0,
					 &disk->raw.info, &disk->raw.priv),
			 0);
	return disk;
}

static void disk_close(struct disk *disk)
{
	raw_driver.close(disk->raw.priv);
	pthread_mutex_destroy(&disk->slow.mutex);
	free(disk);
}

/* ---- one thread, several ports ---- */

static const struct geometry {
	uint32_t logical, physical;
} geometries[] = {
	{ 4096, 4096 }, { 512, 4096 },	 { 1024, 4096 },
	{ 512, 512 },	{ 4096, 16384 },
};

struct lane {
	struct rig_io r; /* first; idle while dones is not 0 */
	char *buf; /* of the io: somewhere in room */
	char *room;
};

struct model {
	struct disk *disk;
	struct rig rigs[2];
	struct lane lanes[2][LANES];
	char bytes[BYTES]; /* what the disk must hold */
	bool busy[SECTORS]; /* an io that is in flight changes or reads it */
	unsigned seed;
};

static bool claim(struct model *m, unsigned from, unsigned n)
{
	for (unsigned i = from; i < from + n; i++)
		if (m->busy[i])
			return false;
	memset(m->busy + from, true, n);
	return true;
}

/* Sectors of several lanes in one block are what this is about. */
static void start(struct model *m, unsigned port, struct lane *lane)
{
	static const enum io_op ops[] = { IO_READ,  IO_WRITE,	IO_WRITE,
					  IO_WRITE, IO_DISCARD, IO_WRITE_ZEROES,
					  IO_FLUSH };
	enum io_op op = ops[rand_r(&m->seed) % 7];
	unsigned n = 1 + (unsigned)rand_r(&m->seed) % IO_SECTORS;
	unsigned from;

	if (rand_r(&m->seed) % 2)
		n = 1;
	from = (unsigned)rand_r(&m->seed) % (SECTORS - n + 1);
	if (op == IO_FLUSH) {
		rig_submit(&m->rigs[port], &lane->r, op, 0, 0, NULL);
		return;
	}
	if (!claim(m, from, n))
		return;
	/* aligned to a block, to a sector, to nothing */
	lane->buf = lane->room + rand_r(&m->seed) % 3 * 512;
	if (rand_r(&m->seed) % 8 == 0)
		lane->buf += 1;
	memset(lane->buf, rand_r(&m->seed), n * SECTOR);
	rig_submit(&m->rigs[port], &lane->r, op, from * SECTOR, n * SECTOR,
		   op == IO_READ || op == IO_WRITE ? lane->buf : NULL);
}

static void check_discarded(struct model *m, uint64_t offset, uint64_t len)
{
	static const char zeros[SECTOR];
	char *is = m->disk->slow.bytes, *was = m->bytes;

	for (uint64_t at = offset; at < offset + len; at += SECTOR) {
		ck_assert(!memcmp(is + at, was + at, SECTOR) ||
			  !memcmp(is + at, zeros, SECTOR));
		memcpy(was + at, is + at, SECTOR);
	}
}

static void finish(struct model *m, struct lane *lane)
{
	const struct io *io = &lane->r.io;

	ck_assert_uint_eq(lane->r.dones, 1);
	ck_assert_int_eq(lane->r.err, 0);
	if (io->op == IO_READ)
		ck_assert_mem_eq(lane->buf, m->bytes + io->offset, io->len);
	else if (io->op == IO_WRITE)
		memcpy(m->bytes + io->offset, lane->buf, io->len);
	else if (io->op == IO_WRITE_ZEROES)
		memset(m->bytes + io->offset, 0, io->len);
	else if (io->op == IO_DISCARD)
		check_discarded(m, io->offset, io->len);
	memset(m->busy + io->offset / SECTOR, false, io->len / SECTOR);
	lane->r = (struct rig_io){ 0 };
}

static bool step(struct model *m, unsigned port, bool more)
{
	bool idle = true;

	for (unsigned l = 0; l < LANES; l++) {
		struct lane *lane = &m->lanes[port][l];

		if (lane->r.dones)
			finish(m, lane);
		if (more && !lane->r.io.done)
			start(m, port, lane);
		if (lane->r.io.done)
			idle = false;
	}
	port_turn(m->rigs[port].port);
	return idle;
}

START_TEST(no_write_undoes_another)
{
	const struct geometry *g = &geometries[_i];
	struct model *m = calloc(1, sizeof(*m));
	unsigned i;

	m->seed = 7;
	m->disk = disk_open(g->logical, g->physical);
	ck_assert_uint_eq(m->disk->raw.info.logical_block, SECTOR);
	ck_assert_uint_eq(m->disk->raw.info.physical_block, g->physical);
	ck_assert_uint_eq(m->disk->raw.info.bytes, BYTES);
	for (unsigned port = 0; port < 2; port++) {
		rig_port(&m->rigs[port], &m->disk->raw, LANES);
		for (unsigned l = 0; l < LANES; l++)
			m->lanes[port][l].room =
				rig_buffer(IO_SECTORS * SECTOR + 2048);
	}
	for (i = 0; i < STEPS; i++)
		step(m, i % 2, true);
	for (bool idle = false; !idle; i++) {
		ck_assert_uint_lt(i, STEPS + 10000); /* nobody starves */
		idle = step(m, 0, false);
		idle &= step(m, 1, false);
	}
	ck_assert_mem_eq(m->bytes, m->disk->slow.bytes, BYTES);
	for (unsigned port = 0; port < 2; port++) {
		rig_close(&m->rigs[port]);
		for (unsigned l = 0; l < LANES; l++)
			free(m->lanes[port][l].room);
	}
	disk_close(m->disk);
	free(m);
}
END_TEST

/*
 * A guest that has a sector and its whole block in flight gets either for the
 * sector, and the block for the rest.
 */
START_TEST(a_sector_does_not_undo_its_whole_block)
{
	struct disk *disk = disk_open(4096, 4096);
	char *block = rig_buffer(4096), *sector = rig_buffer(4096);
	struct rig_io r[2];
	struct rig rig;

	rig_port(&rig, &disk->raw, 4);
	for (int round = 1; round <= 100; round++) {
		memset(block, round, 4096);
		memset(sector, -round, SECTOR);
		for (int i = 0; i < 2; i++) {
			if (i == round % 2)
				rig_submit(&rig, &r[i], IO_WRITE, 8192, 4096,
					   block);
			else
				rig_submit(&rig, &r[i], IO_WRITE, 8192, SECTOR,
					   sector);
		}
		ck_assert_int_eq(rig_finish(&rig, &r[0]), 0);
		ck_assert_int_eq(rig_finish(&rig, &r[1]), 0);
		ck_assert_mem_eq(disk->slow.bytes + 8192 + SECTOR,
				 block + SECTOR, 4096 - SECTOR);
	}
	rig_close(&rig);
	disk_close(disk);
	free(block);
	free(sector);
}
END_TEST

/* ---- two threads ---- */

struct writer {
	struct disk *disk;
	unsigned odd; /* writes the sectors with this remainder */
	pthread_t thread;
};

static void *write_own_sectors(void *arg)
{
	struct writer *w = arg;
	struct rig_io r[8];
	struct rig rig;
	char *buf = rig_buffer(8 * SECTOR);

	rig_port(&rig, &w->disk->raw, 8);
	for (unsigned round = 1; round <= 100; round++) {
		for (unsigned first = 0; first < SECTORS; first += 16) {
			for (unsigned i = 0; i < 8; i++) {
				uint64_t s = first + 2 * i + w->odd;

				memset(buf + i * SECTOR, (int)(round + s),
				       SECTOR);
				rig_submit(&rig, &r[i], IO_WRITE, s * SECTOR,
					   SECTOR, buf + i * SECTOR);
			}
			for (unsigned i = 0; i < 8; i++)
				ck_assert_int_eq(rig_finish(&rig, &r[i]), 0);
		}
	}
	rig_close(&rig);
	free(buf);
	return NULL;
}

/* Each sector has a neighbour that the other thread writes. */
START_TEST(both_threads_writes_stand)
{
	struct writer w[2];
	char want[SECTOR];
	struct disk *disk = disk_open(4096, 4096);

	for (unsigned i = 0; i < 2; i++) {
		w[i] = (struct writer){ .disk = disk, .odd = i };
		pthread_create(&w[i].thread, NULL, write_own_sectors, &w[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(w[i].thread, NULL);
	for (unsigned s = 0; s < SECTORS; s++) {
		memset(want, (int)(100 + s), SECTOR);
		ck_assert_mem_eq(disk->slow.bytes + s * SECTOR, want, SECTOR);
	}
	disk_close(disk);
}
END_TEST

/* ---- what is not done ---- */

START_TEST(what_the_store_takes_costs_one_io)
{
	struct disk *disk = disk_open(4096, 4096);
	char *buf = rig_buffer(16384);
	struct rig rig;

	rig_port(&rig, &disk->raw, 4);
	ck_assert_int_eq(rig_do(&rig, IO_WRITE, 4096, 8192, buf), 0);
	ck_assert_uint_eq(disk->slow.writes, 1);
	ck_assert_uint_eq(disk->slow.reads, 0);
	ck_assert_int_eq(rig_do(&rig, IO_READ, 4096, 8192, buf), 0);
	ck_assert_uint_eq(disk->slow.reads, 1);
	/* a part of one block, and one that ends in the next */
	ck_assert_int_eq(rig_do(&rig, IO_WRITE, 512, 1024, buf), 0);
	ck_assert_uint_eq(disk->slow.reads, 2);
	ck_assert_uint_eq(disk->slow.writes, 2);
	ck_assert_int_eq(rig_do(&rig, IO_WRITE, 3584, 1024, buf), 0);
	ck_assert_uint_eq(disk->slow.reads, 4);
	ck_assert_uint_eq(disk->slow.writes, 4);
	/* nothing whole in it */
	ck_assert_int_eq(rig_do(&rig, IO_DISCARD, 512, 7168, NULL), 0);
	ck_assert_uint_eq(disk->slow.others, 0);
	rig_close(&rig);
	disk_close(disk);
	free(buf);
}
END_TEST

START_TEST(a_store_that_is_not_whole_blocks_is_refused)
{
	struct driver_info info = { .bytes = 4096 + 512,
				    .logical_block = 4096,
				    .physical_block = 4096 };
	struct node store = { .driver = &slow_store, .info = info };
	void *priv = NULL;

	ck_assert_int_eq(raw_driver.open("x", &store, 0, &info, &priv),
			 -EINVAL);
	ck_assert_ptr_null(priv);
}
END_TEST

/* An error of any step is the io's, and its lock is gone with it. */
START_TEST(a_failed_step_fails_the_io_and_frees_its_blocks)
{
	static const char *const specs[] = {
		"aio:@fault:op=read,nth=1;ram:1m",
		"aio:@fault:op=write,nth=1,err=ENOSPC;ram:1m",
	};
	char *buf = rig_buffer(8192);
	struct rig rig;

	rig_open(&rig, specs[_i], 0);
	/* one byte off: through the bounce buffer */
	ck_assert_int_lt(
		rig_do(&rig, _i ? IO_WRITE : IO_READ, 512, 1024, buf + 1), 0);
	ck_assert_int_eq(rig_do(&rig, IO_WRITE, 512, 1024, buf + 1), 0);
	ck_assert_int_eq(rig_do(&rig, IO_READ, 512, 1024, buf + 1), 0);
	rig_close(&rig);
	free(buf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("raw");
	TCase *tcase = tcase_create("blocks");

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, no_write_undoes_another, 0,
			    sizeof(geometries) / sizeof(*geometries));
	tcase_add_test(tcase, a_sector_does_not_undo_its_whole_block);
	tcase_add_test(tcase, both_threads_writes_stand);
	tcase_add_test(tcase, what_the_store_takes_costs_one_io);
	tcase_add_test(tcase, a_store_that_is_not_whole_blocks_is_refused);
	tcase_add_loop_test(
		tcase, a_failed_step_fails_the_io_and_frees_its_blocks, 0, 2);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
