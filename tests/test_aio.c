/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aio store, and what kernels refuse, cut short or cannot do.  How its
 * context sleeps is test_aio_context.c's.
 *
 * This program has its own io_setup, io_submit, fdatasync and pread, which make
 * the system call, or do as an unwilling kernel would.
 */
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "drivers/aio.h"
#include "tests/rig.h"

enum {
	BYTES = 1 << 20,
	MANY = 64,
};

/* What the kernel is unwilling to do; a test has its own process. */
static struct {
	int setup_err; /* of io_setup */
	bool no_poll, no_fdsync; /* -EINVAL for these */
	unsigned at_most; /* iocbs in one call; 0: any number */
	unsigned refusals; /* so many calls are -EAGAIN */
	unsigned interruptions; /* and before that, -EINTR */
	bool cut; /* transfers end after their first half */
	int lost; /* of fdatasync, once: pages could not be written */
	uint32_t smallest; /* direct pread */
	unsigned calls, with_eventfd, flushes;
} kernel;

int io_setup(int depth, io_context_t *context)
{
	if (kernel.setup_err)
		return kernel.setup_err;
	return syscall(SYS_io_setup, depth, context) < 0 ? -errno : 0;
}

/* What the kernel says to this one, without doing it. */
static int objection(const struct iocb *iocb)
{
	if (iocb->aio_lio_opcode == IO_CMD_POLL)
		return kernel.no_poll && iocb->data == NULL ? -EINVAL : 0;
	if (iocb->aio_lio_opcode == IO_CMD_FDSYNC && kernel.no_fdsync)
		return -EINVAL;
	if (kernel.interruptions) {
		kernel.interruptions--;
		return -EINTR;
	}
	if (kernel.refusals) {
		kernel.refusals--;
		return -EAGAIN;
	}
	return 0;
}

static void meddle(struct iocb *iocb)
{
	kernel.flushes += iocb->aio_lio_opcode == IO_CMD_FDSYNC;
	kernel.with_eventfd += iocb->u.c.flags & 1;
	if (kernel.cut && iocb->u.c.nbytes >= 1024 &&
	    iocb->aio_lio_opcode <= IO_CMD_PWRITE)
		iocb->u.c.nbytes = (iocb->u.c.nbytes / 2 + 511) & ~511ul;
}

int io_submit(io_context_t context, long n, struct iocb **iocbs)
{
	long rc;
	int err;

	kernel.calls++;
	if (kernel.at_most && n > kernel.at_most)
		n = kernel.at_most;
	for (long i = 0; i < n; i++) {
		err = objection(iocbs[i]);
		if (err && !i)
			return err;
		if (err) {
			n = i;
			break;
		}
		meddle(iocbs[i]);
	}
	rc = syscall(SYS_io_submit, context, n, iocbs);
	return rc < 0 ? -errno : (int)rc;
}

int fdatasync(int fd)
{
	__atomic_fetch_add(&kernel.flushes, 1, __ATOMIC_RELAXED);
	if (kernel.lost) {
		errno = kernel.lost;
		kernel.lost = 0;
		return -1;
	}
	return syscall(SYS_fdatasync, fd) < 0 ? -1 : 0;
}

ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
	if (len < kernel.smallest) {
		errno = EINVAL;
		return -1;
	}
	return syscall(SYS_pread64, fd, buf, len, offset);
}

struct store {
	struct rig rig;
	char path[256];
	char *buf;
	char want[BYTES];
	struct rig_io r[MANY];
};

static void store_open(struct store *s, unsigned flags, unsigned depth)
{
	struct node *node;

	rig_file(s->path, sizeof(s->path), "store", BYTES);
	ck_assert_int_eq(driver_open_store(s->path, flags, &node), 0);
	rig_port(&s->rig, node, depth);
	s->rig.node = node;
	s->buf = rig_buffer(BYTES);
}

static void store_close(struct store *s)
{
	rig_close(&s->rig);
	free(s->buf);
}

static void fill(char *buf)
{
	for (unsigned i = 0; i < BYTES; i++)
		buf[i] = (char)(i / 512 * 37 + i);
}

/* Write a pattern, MANY at a time, flush, read it back the same way. */
static void store_use(struct store *s)
{
	static const enum io_op ops[] = { IO_WRITE, IO_READ };
	uint64_t piece = BYTES / MANY;

	fill(s->want);
	memcpy(s->buf, s->want, BYTES);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < MANY; i++)
			rig_submit(&s->rig, &s->r[i], ops[pass], i * piece,
				   piece, s->buf + i * piece);
		for (unsigned i = 0; i < MANY; i++)
			ck_assert_int_eq(rig_finish(&s->rig, &s->r[i]), 0);
		ck_assert_int_eq(rig_do(&s->rig, IO_FLUSH, 0, 0, NULL), 0);
		if (!pass)
			memset(s->buf, 0, BYTES);
	}
	ck_assert_mem_eq(s->buf, s->want, BYTES);
}

static const struct unwilling {
	const char *what;
	unsigned flags, depth;
	int setup_err;
	bool no_poll, no_fdsync, cut;
	unsigned at_most, refusals, interruptions;
} unwilling[] = {
	{ .what = "willing", .depth = MANY },
	{ .what = "less room than io", .depth = 5 },
	{ .what = "room for one", .depth = 1 },
	{ .what = "page cache", .flags = DRIVER_BUFFERED, .depth = MANY },
	{ .what = "no poll", .depth = MANY, .no_poll = true },
	{ .what = "no fdsync", .depth = MANY, .no_fdsync = true },
	{ .what = "takes three at a time", .depth = MANY, .at_most = 3 },
	{ .what = "EAGAIN", .depth = MANY, .refusals = 20 },
	{ .what = "EAGAIN, one at a time",
	  .depth = 8,
	  .at_most = 1,
	  .refusals = 100 },
	{ .what = "EINTR", .depth = MANY, .interruptions = 20 },
	{ .what = "short transfers", .depth = MANY, .cut = true },
	{ .what = "short transfers, little room", .depth = 3, .cut = true },
	{ .what = "no events left", .depth = MANY, .setup_err = -EAGAIN },
	{ .what = "no events left, little room",
	  .depth = 2,
	  .setup_err = -EAGAIN },
	{ .what = "no AIO", .depth = MANY, .setup_err = -ENOSYS },
	{ .what = "all at once",
	  .depth = 7,
	  .no_poll = true,
	  .no_fdsync = true,
	  .cut = true,
	  .at_most = 2,
	  .refusals = 50,
	  .interruptions = 5 },
};

START_TEST(works_whatever_the_kernel_cannot_do)
{
	const struct unwilling *u = &unwilling[_i];
	struct store s;

	kernel.setup_err = u->setup_err;
	kernel.no_poll = u->no_poll;
	kernel.no_fdsync = u->no_fdsync;
	kernel.cut = u->cut;
	kernel.at_most = u->at_most;
	store_open(&s, u->flags, u->depth);
	kernel.refusals = u->refusals;
	kernel.interruptions = u->interruptions;
	store_use(&s);
	ck_assert_msg(!kernel.refusals || u->setup_err, "%s: unused", u->what);
	store_use(&s); /* and it has recovered */
	store_close(&s);
}
END_TEST

START_TEST(one_io_submit_a_turn_and_no_eventfd)
{
	struct store s;
	unsigned before;

	store_open(&s, 0, MANY);
	before = kernel.calls;
	for (unsigned i = 0; i < MANY; i++)
		rig_submit(&s.rig, &s.r[i], IO_READ, i * 4096, 4096,
			   s.buf + i * 4096);
	ck_assert_uint_eq(kernel.calls, before);
	port_turn(s.rig.port);
	ck_assert_uint_eq(kernel.calls, before + 1);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(rig_finish(&s.rig, &s.r[i]), 0);
	ck_assert_uint_eq(kernel.with_eventfd, 0);
	ck_assert_ptr_null(s.rig.wait.sleep);
	store_close(&s);
}
END_TEST

/* By whichever call, and before the io is done. */
START_TEST(a_flush_reaches_the_kernel)
{
	struct store s;

	kernel.no_fdsync = _i == 1;
	kernel.setup_err = _i == 2 ? -EAGAIN : 0;
	store_open(&s, _i == 3 ? DRIVER_BUFFERED : 0, 4);
	for (unsigned n = 1; n <= 3; n++) {
		ck_assert_int_eq(rig_do(&s.rig, IO_WRITE, 0, 4096, s.buf), 0);
		ck_assert_uint_eq(kernel.flushes, n - 1);
		ck_assert_int_eq(rig_do(&s.rig, IO_FLUSH, 0, 0, NULL), 0);
		ck_assert_uint_eq(kernel.flushes, n);
	}
	store_close(&s);
}
END_TEST

/*
 * What became of lost pages is told once, in the words of whoever lost them: it
 * must not look like something that was never tried, and can be tried again.
 */
START_TEST(a_flush_that_failed_is_not_taken_for_one_never_tried)
{
	static const int lost[] = { EAGAIN, EBUSY, ENOMEM, EIO, ENOSPC };
	static const int want[] = { -EIO, -EIO, -EIO, -EIO, -ENOSPC };
	struct store s;

	kernel.no_fdsync = true;
	store_open(&s, 0, 4);
	kernel.lost = lost[_i];
	ck_assert_int_eq(rig_do(&s.rig, IO_FLUSH, 0, 0, NULL), want[_i]);
	ck_assert_int_eq(rig_do(&s.rig, IO_FLUSH, 0, 0, NULL), 0);
	store_close(&s);
}
END_TEST

START_TEST(refused_events_name_the_limit_in_one_line)
{
	char log[4096], limit[32];
	struct store s;

	kernel.setup_err = -EAGAIN;
	rig_log();
	store_open(&s, 0, 16);
	ck_assert_uint_eq(rig_logged(log, sizeof(log)), 1);
	rig_text("/proc/sys/fs/aio-max-nr", limit, sizeof(limit));
	limit[strcspn(limit, "\n")] = '\0';
	ck_assert_ptr_nonnull(strstr(log, s.path));
	ck_assert_ptr_nonnull(strstr(log, "fs.aio-max-nr"));
	ck_assert_ptr_nonnull(strstr(log, limit));
	ck_assert_ptr_nonnull(strstr(log, "sysctl -w"));
	store_use(&s);
	ck_assert_uint_eq(rig_logged(log, sizeof(log)), 1);
	store_close(&s);
	log_close();
}
END_TEST

/* The file became shorter than the image: an error, and never garbage. */
START_TEST(a_read_past_the_end_of_the_file_fails)
{
	static const unsigned flags[] = { 0, DRIVER_BUFFERED };
	struct store s;

	kernel.setup_err = _i & 2 ? -EAGAIN : 0;
	store_open(&s, flags[_i & 1], 4);
	ck_assert_int_eq(truncate(s.path, 65536 + 1000), 0);
	ck_assert_int_eq(rig_do(&s.rig, IO_READ, 131072, 4096, s.buf), -EIO);
	ck_assert_int_eq(rig_do(&s.rig, IO_READ, 65536, 4096, s.buf), -EIO);
	ck_assert_int_eq(rig_do(&s.rig, IO_READ, 0, 131072, s.buf), -EIO);
	ck_assert_int_eq(rig_do(&s.rig, IO_READ, 0, 65536, s.buf), 0);
	store_close(&s);
}
END_TEST

START_TEST(discard_gives_the_space_back)
{
	struct store s;
	struct stat st;

	store_open(&s, 0, 4);
	store_use(&s);
	ck_assert_int_eq(stat(s.path, &st), 0);
	ck_assert_int_ge(st.st_blocks * 512, BYTES);
	ck_assert_int_eq(rig_do(&s.rig, IO_DISCARD, 0, BYTES, NULL), 0);
	ck_assert_int_eq(stat(s.path, &st), 0);
	ck_assert_int_eq(st.st_size, BYTES);
	ck_assert_int_lt(st.st_blocks * 512, BYTES / 2);
	store_close(&s);
}
END_TEST

/* A file system without fallocate would do the same by writing. */
START_TEST(zeroes_are_zeros)
{
	struct store s;

	store_open(&s, 0, 4);
	store_use(&s);
	ck_assert_int_eq(rig_do(&s.rig, IO_WRITE_ZEROES, 512, 200 * 1024, NULL),
			 0);
	ck_assert_int_eq(rig_do(&s.rig, IO_READ, 0, BYTES, s.buf), 0);
	memset(s.want + 512, 0, 200 * 1024);
	ck_assert_mem_eq(s.buf, s.want, BYTES);
	store_close(&s);
}
END_TEST

static const struct direct {
	uint32_t smallest; /* transfer past the page cache */
	off_t bytes;
	uint32_t logical_block;
	bool buffered; /* which is said */
} direct[] = {
	{ 512, 8192 + 512, 512, false },
	{ 1024, 8192, 1024, false },
	{ 4096, 8192, 4096, false },
	{ 4096, 8192 + 512, 512, true }, /* the last block is not whole */
	{ 8192, 8192, 512, true },
};

START_TEST(direct_io_as_it_can_be_had)
{
	const struct direct *d = &direct[_i];
	char path[256], log[4096];
	struct node *node;

	rig_file(path, sizeof(path), "direct", d->bytes);
	rig_log();
	kernel.smallest = d->smallest;
	ck_assert_int_eq(driver_open_store(path, 0, &node), 0);
	ck_assert_uint_eq(node->info.bytes, (uint64_t)d->bytes);
	ck_assert_uint_eq(node->info.logical_block, d->logical_block);
	ck_assert_uint_eq(node->info.physical_block, 4096);
	ck_assert_uint_eq(rig_logged(log, sizeof(log)), d->buffered);
	ck_assert(!d->buffered || strstr(log, "page cache"));
	driver_close(node);
	/* what was asked for is not worth a line */
	ck_assert_int_eq(driver_open_store(path, DRIVER_BUFFERED, &node), 0);
	ck_assert_uint_eq(node->info.logical_block, 512);
	ck_assert_uint_eq(rig_logged(log, sizeof(log)), d->buffered);
	driver_close(node);
	log_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aio");
	TCase *store = tcase_create("store");

	tcase_set_timeout(store, 120);
	tcase_add_loop_test(store, works_whatever_the_kernel_cannot_do, 0,
			    sizeof(unwilling) / sizeof(*unwilling));
	tcase_add_test(store, one_io_submit_a_turn_and_no_eventfd);
	tcase_add_loop_test(store, a_flush_reaches_the_kernel, 0, 4);
	tcase_add_loop_test(
		store, a_flush_that_failed_is_not_taken_for_one_never_tried, 0,
		5);
	tcase_add_test(store, refused_events_name_the_limit_in_one_line);
	tcase_add_loop_test(store, a_read_past_the_end_of_the_file_fails, 0, 4);
	tcase_add_test(store, discard_gives_the_space_back);
	tcase_add_test(store, zeroes_are_zeros);
	tcase_add_loop_test(store, direct_io_as_it_can_be_had, 0,
			    sizeof(direct) / sizeof(*direct));
	suite_add_tcase(suite, store);
	return rig_run(suite);
}
