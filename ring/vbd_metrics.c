/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that the host's monitoring reads (upstream's names and layouts):
 *
 *   td3-PID/vbd-DOMID-DEVID       struct metrics_vbd, 4096 bytes
 *   vbd3-DOMID-DEVID/statistics   struct metrics_statistics, 4096 bytes
 *   vbd3-DOMID-DEVID/io_ring      crc32 in eight bytes, then text
 *
 * A reader finds the first by the second's directory coming and going, so the
 * first is there for longer.  main writes them five times a second while the
 * ring is busy, and not at all while it is not.  They are written, never
 * mapped: nobody who cuts one short can end a tapdisk.  io_ring is replaced as
 * a whole; behind the two structures stands a number that is odd while they
 * are written, for readers that want the counts of one moment.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "poll/host.h"
#include "poll/log.h"
#include "ring/vbd_private.h"

enum {
	FILE_SIZE = 4096,
	PATH_SIZE = 512,
	VERSION = 1,
	NS_PER_US = 1000,
};

#define WRITE_NS (CLOCK_SECOND / 5)
#define IO_RING_NS (5 * CLOCK_SECOND)

struct metrics_vbd {
	uint32_t version, pad;
	uint64_t out_of_order;
	uint64_t reads_submitted, reads_completed, read_sect, read_us;
	uint64_t writes_submitted, writes_completed, write_sect, write_us;
	uint64_t io_errors;
	uint64_t flags; /* 1: upstream is short of memory; we never are */
};
static_assert(sizeof(struct metrics_vbd) == 96, "what readers take");

struct metrics_statistics {
	uint64_t discards, flushes, out_of_order;
	uint64_t reads_submitted, reads_completed, read_sect;
	uint64_t read_us, read_max_us;
	uint64_t writes_submitted, writes_completed, write_sect;
	uint64_t write_us, write_max_us;
	uint64_t flags;
};
static_assert(sizeof(struct metrics_statistics) == 112, "what readers take");

/* ---- names ---- */

static void process_path(char out[PATH_SIZE])
{
	snprintf(out, PATH_SIZE, "%s/td3-%d", host_shm_dir(), getpid());
}

static void vbd_path(const struct vbd_ring *ring, char out[PATH_SIZE])
{
	snprintf(out, PATH_SIZE, "%s/td3-%d/vbd-%u-%u", host_shm_dir(),
		 getpid(), ring->queue->domid, ring->queue->devid);
}

/* @name is "" or "/file" in it. */
static void ring_path(const struct vbd_ring *ring, const char *name,
		      char out[PATH_SIZE])
{
	snprintf(out, PATH_SIZE, "%s/vbd3-%u-%u%s", host_shm_dir(),
		 ring->queue->domid, ring->queue->devid, name);
}

static void complain(const struct vbd_ring *ring, const char *path, int err)
{
	log_warn("vbd %u: %s: %s; doing without", ring->vbd->minor, path,
		 strerror(-err));
}

/* ---- contents ---- */

static int put(int fd, const void *data, size_t len, off_t at)
{
	ssize_t n = pwrite(fd, data, len, at);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

/* A full memory file system is no reason to do anything but go on. */
static void put_counts(int fd, const void *data, size_t len, uint64_t number)
{
	uint64_t odd = number - 1;

	if (fd < 0)
		return;
	if (put(fd, &odd, sizeof(odd), (off_t)len) == 0)
		put(fd, data, len, 0);
	put(fd, &number, sizeof(number), (off_t)len);
}

static void put_vbd(const struct vbd_ring *ring, const struct meter_counts *c,
		    uint64_t number)
{
	const struct metrics_vbd data = {
		.version = VERSION,
		.reads_submitted = c->read.submitted,
		.reads_completed = c->read.completed,
		.read_sect = c->read.sect,
		.read_us = c->read.total_ns / NS_PER_US,
		.writes_submitted = c->write.submitted,
		.writes_completed = c->write.completed,
		.write_sect = c->write.sect,
		.write_us = c->write.total_ns / NS_PER_US,
		.io_errors = c->errors,
	};

	put_counts(ring->metrics.vbd_fd, &data, sizeof(data), number);
}

static void put_statistics(const struct vbd_ring *ring,
			   const struct meter_counts *c, uint64_t number)
{
	const struct metrics_statistics data = {
		.discards = c->discards,
		.flushes = c->flushes,
		.reads_submitted = c->read.submitted,
		.reads_completed = c->read.completed,
		.read_sect = c->read.sect,
		.read_us = c->read.total_ns / NS_PER_US,
		.read_max_us = c->read.max_ns / NS_PER_US,
		.writes_submitted = c->write.submitted,
		.writes_completed = c->write.completed,
		.write_sect = c->write.sect,
		.write_us = c->write.total_ns / NS_PER_US,
		.write_max_us = c->write.max_ns / NS_PER_US,
	};

	put_counts(ring->metrics.statistics_fd, &data, sizeof(data), number);
}

/* The CRC of Ethernet and zlib. */
static uint32_t crc32_of(const char *text, size_t len)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++) {
		crc ^= (uint8_t)text[i];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/*
 * As far as they are ours: what the guest writes is not looked at for this,
 * and what it had written is what we took; after that it wants an event.
 */
static int put_io_ring(const struct vbd_ring *ring,
		       const struct meter_counts *c)
{
	char path[PATH_SIZE], new[PATH_SIZE];
	uint32_t req = (uint32_t)c->req_cons, rsp = (uint32_t)c->rsp_prod;
	struct {
		uint64_t crc;
		char text[248];
	} data;
	int len, fd, err;

	len = snprintf(data.text, sizeof(data.text),
		       "nr_ents %u\n"
		       "req prod %u cons %d event %u\n"
		       "rsp prod %u pvt %d event %u\n",
		       ring_slots(&ring->queue->ring), req, (int)req, req + 1,
		       rsp, (int)rsp, rsp + 1);
	data.crc = crc32_of(data.text, (size_t)len);
	ring_path(ring, "/io_ring", path);
	ring_path(ring, "/io_ring~", new);
	fd = host_create(new);
	if (fd < 0)
		return fd;
	err = put(fd, &data, sizeof(data.crc) + (size_t)len, 0);
	close(fd);
	if (!err)
		err = host_rename(new, path);
	return err;
}

/* ---- when ---- */

static void write_io_ring(struct vbd_ring *ring,
			  const struct meter_counts *counts, uint64_t number)
{
	struct vbd_metrics *m = &ring->metrics;

	/* without statistics the directory is not ours */
	if (m->io_ring_read == number || m->statistics_fd < 0)
		return;
	m->io_ring_read = number;
	m->io_ring_ns = clock_ns() + IO_RING_NS;
	put_io_ring(ring, counts);
}

static void tick(void *arg)
{
	struct vbd_ring *ring = arg;
	struct vbd_metrics *m = &ring->metrics;
	struct meter_counts counts;
	uint64_t number = meter_read(&ring->queue->meter, &counts);

	if (number == m->read) {
		write_io_ring(ring, &counts, number);
		/* its letter is under way, and may not be posted twice; or it
		 * has not told yet, and will */
		if (!m->told)
			return;
		m->told = false;
		/* quiet: not again until told, unless it was just now */
		meter_tell_me(&ring->queue->meter);
		if (meter_read(&ring->queue->meter, &counts) == number)
			return;
	} else {
		m->read = number;
		put_vbd(ring, &counts, number);
		put_statistics(ring, &counts, number);
		if (clock_ns() >= m->io_ring_ns)
			write_io_ring(ring, &counts, number);
	}
	loop_timer_set(ring->vbd->loop, &m->timer, WRITE_NS);
}

static void start(struct vbd_ring *ring)
{
	loop_timer_set(ring->vbd->loop, &ring->metrics.timer, WRITE_NS);
}

void vbd_metrics_active(struct vbd_ring *ring)
{
	ring->metrics.told = true;
	if (ring->metrics.open)
		start(ring);
}

/* ---- their life ---- */

static int make(const struct vbd_ring *ring, const char *path)
{
	int fd = host_create(path), err;

	if (fd < 0) {
		complain(ring, path, fd);
		return -1;
	}
	/* whoever maps a page maps a whole one */
	err = ftruncate(fd, FILE_SIZE) ? -errno : 0;
	if (err) {
		complain(ring, path, err);
		close(fd);
		return -1;
	}
	return fd;
}

void vbd_metrics_open(struct vbd_ring *ring)
{
	const struct meter_counts none = { .errors = 0 };
	struct vbd_metrics *m = &ring->metrics;
	char path[PATH_SIZE];
	int err;

	m->timer = (struct loop_timer){ .fn = tick, .arg = ring };
	vbd_path(ring, path);
	m->vbd_fd = make(ring, path);
	put_vbd(ring, &none, 0);
	ring_path(ring, "", path);
	err = host_mkdir_new(path, 0700);
	m->statistics_fd = -1;
	if (err) {
		complain(ring, path, err);
	} else {
		ring_path(ring, "/statistics", path);
		m->statistics_fd = make(ring, path);
		put_statistics(ring, &none, 0);
		put_io_ring(ring, &none);
	}
	m->open = true;
	/* it runs already, and has counted before this was ready to hear */
	start(ring);
}

void vbd_metrics_close(struct vbd_ring *ring)
{
	struct vbd_metrics *m = &ring->metrics;
	char path[PATH_SIZE];

	if (!m->open)
		return;
	m->open = false;
	loop_timer_clear(ring->vbd->loop, &m->timer);
	ring_path(ring, "", path);
	host_remove_dir(path);
	vbd_path(ring, path);
	host_unlink(path);
	if (m->vbd_fd >= 0)
		close(m->vbd_fd);
	if (m->statistics_fd >= 0)
		close(m->statistics_fd);
}

void vbd_metrics_init(const struct vbd *vbd)
{
	char path[PATH_SIZE];
	int err;

	process_path(path);
	err = host_mkdir_new(path, 0700);
	if (err)
		log_warn("vbd %u: %s: %s; doing without", vbd->minor, path,
			 strerror(-err));
}

void vbd_metrics_fini(const struct vbd *vbd)
{
	char path[PATH_SIZE];

	(void)vbd;
	process_path(path);
	host_remove_dir(path);
}
