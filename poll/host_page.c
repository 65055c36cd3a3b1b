/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page the tapdisks of a host share: see host_page.h.
 *
 * Locks are POSIX record locks (fcntl): they end with their process, children
 * do not inherit them, and the kernel tells who holds one.  Byte 0 says that
 * somebody is in: members read-lock it, and who gets it for writing is alone
 * and may make the file, or remove it.  The first byte of a slot is its
 * owner's, that of the calibration belongs to whoever measures.
 */
#include "poll/host_page.h"
#include "poll/host.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x314c4c4f50444154) /* "TADPOLL1" and the layout */

enum {
	RECORD = 64,
	HEADER_AT = 0,
	CALIBRATION_AT = RECORD,
	SLOTS_AT = 64 * RECORD,
	PAGE_SIZE_BYTES = SLOTS_AT + HOST_PAGE_SLOTS * RECORD,
	CHUNK = 64, /* slots read at once; an unused chunk is the last */
	TRIES = 50, /* for byte 0, a millisecond apart */
	VERIFY_EVERY = 16, /* calls after which a lock is looked at again */
};

enum { FLAG_ACTIVE = 1, FLAG_HUNGRY = 2 };

struct header {
	uint64_t magic;
	uint64_t reserved[7];
};

struct slot {
	uint64_t written_ns;
	uint64_t spin_ns;
	uint32_t pid;
	uint32_t rate;
	uint64_t flags;
	uint64_t reserved[3];
	uint64_t check; /* of the words before: half a slot is none */
};

struct measured {
	uint64_t boot;
	uint64_t cpus;
	uint64_t when_ns;
	struct calibration figures;
	uint32_t reserved[3];
	uint64_t check;
};

static_assert(sizeof(struct header) == RECORD, "on disk");
static_assert(sizeof(struct slot) == RECORD, "on disk");
static_assert(sizeof(struct measured) == RECORD, "on disk");

struct host_page {
	int fd;
	char *path;
	uint64_t boot;
	unsigned slot;
	unsigned turn;
	pid_t holder[HOST_PAGE_SLOTS]; /* who has its lock, 0: nobody */
	uint32_t claimed[HOST_PAGE_SLOTS]; /* as whom, when we looked */
	struct cpu_price_peer peers[HOST_PAGE_SLOTS];
};

static uint64_t mix(const void *data, size_t len)
{
	const unsigned char *byte = data;
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	while (len--)
		/* the analyser loses sight of what an initialiser left zero */
		/* NOLINTNEXTLINE: core.UndefinedBinaryOperatorResult */
		hash = (hash ^ *byte++) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t check_of(const void *record)
{
	return mix(record, RECORD - sizeof(uint64_t));
}

static off_t slot_at(unsigned i)
{
	return SLOTS_AT + (off_t)i * RECORD;
}

/* @type F_RDLCK, F_WRLCK, F_UNLCK.  Never waits: -EAGAIN. */
static int lock(int fd, short type, off_t at)
{
	struct flock range = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1
	};

	if (!fcntl(fd, F_SETLK, &range))
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

/* Who else locks the byte: 0 for nobody, -1 if it cannot be told. */
static pid_t locked_by(int fd, off_t at)
{
	struct flock range = { .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = at,
			       .l_len = 1 };

	if (fcntl(fd, F_GETLK, &range))
		return -1;
	if (range.l_type == F_UNLCK)
		return 0;
	return range.l_pid > 0 ? range.l_pid : -1; /* another pid namespace */
}

static int read_record(int fd, void *record, off_t at)
{
	ssize_t got = pread(fd, record, RECORD, at);

	if (got < 0)
		return -errno;
	return got == RECORD ? 0 : -ESTALE;
}

static int write_record(int fd, const void *record, off_t at)
{
	ssize_t put = pwrite(fd, record, RECORD, at);

	if (put < 0)
		return -errno;
	return put == RECORD ? 0 : -EIO;
}

/* Is the file fit to be shared with?  Who could write it is the point. */
static int check_file(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	return st->st_uid == geteuid() && !(st->st_mode & 022) ? 0 : -EPERM;
}

static int check_layout(int fd, off_t size)
{
	struct header header;

	if (size != PAGE_SIZE_BYTES || read_record(fd, &header, HEADER_AT))
		return -EINVAL;
	return header.magic == MAGIC ? 0 : -EINVAL;
}

/* We are alone.  A new file becomes a page, and so does one half made. */
static int make(int fd, off_t size)
{
	struct header header = { 0 };

	if (size == PAGE_SIZE_BYTES && !check_layout(fd, size))
		return 0;
	if (size && (read_record(fd, &header, HEADER_AT) ||
		     (header.magic && header.magic != MAGIC)))
		return -EINVAL; /* somebody else's, whoever it is */
	header.magic = MAGIC;
	if (ftruncate(fd, 0) || ftruncate(fd, PAGE_SIZE_BYTES))
		return -errno;
	return write_record(fd, &header, HEADER_AT);
}

/* Become a member.  -EAGAIN: somebody makes or removes the file just now. */
static int join(int fd)
{
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	err = check_file(&st);
	if (err)
		return err;
	err = lock(fd, F_WRLCK, HEADER_AT);
	if (!err) {
		if (fstat(fd, &st)) /* as it is now that we are alone */
			return -errno;
		err = make(fd, st.st_size);
		if (err)
			return err;
	} else if (err != -EAGAIN) {
		return err;
	}
	err = lock(fd, F_RDLCK, HEADER_AT);
	if (err)
		return err;
	if (fstat(fd, &st))
		return -errno;
	if (!st.st_nlink)
		return -EAGAIN; /* removed before we were in */
	return check_layout(fd, st.st_size);
}

static int open_and_join(const char *path)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int fd, err = -EBUSY;

	for (unsigned i = 0; i < TRIES; i++) {
		fd = host_open_shared(path);
		if (fd < 0)
			return fd;
		err = join(fd);
		if (!err)
			return fd;
		close(fd);
		if (err != -EAGAIN)
			return err;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

/* The lowest slot that nobody holds, so that used ones stay together. */
static int claim(struct host_page *page)
{
	struct host_page_slot idle = { 0 };
	int err = -ENOSPC;
	unsigned i;

	for (i = 0; i < HOST_PAGE_SLOTS; i++) {
		err = lock(page->fd, F_WRLCK, slot_at(i));
		if (err != -EAGAIN)
			break;
	}
	if (i == HOST_PAGE_SLOTS)
		return -ENOSPC;
	if (err)
		return err;
	page->slot = i;
	return host_page_publish(page, &idle);
}

static uint64_t boot_id(void)
{
	char text[64];
	ssize_t len;

	len = host_read_text("/proc/sys/kernel/random/boot_id", text,
			     sizeof(text));
	return len > 0 ? mix(text, (size_t)len) : 0;
}

int host_page_open(const char *path, struct host_page **out)
{
	struct host_page *page;
	int err;

	page = calloc(1, sizeof(*page));
	if (!page)
		return -ENOMEM;
	page->fd = -1;
	page->path = strdup(path);
	if (!page->path) {
		err = -ENOMEM;
		goto out;
	}
	err = open_and_join(path);
	if (err < 0)
		goto out;
	page->fd = err;
	page->boot = boot_id();
	page->slot = HOST_PAGE_SLOTS;
	err = claim(page);
	if (err)
		goto out;
	*out = page;
	page = NULL;
out:
	host_page_close(page);
	return err;
}

void host_page_close(struct host_page *page)
{
	const struct host_page_slot idle = { 0 };
	struct stat ours, named;

	if (!page)
		return;
	if (page->fd >= 0)
		host_page_publish(page, &idle); /* that it is seen at once */
	/* alone, and it is still the file of that name: the last one out */
	if (page->fd >= 0) {
		if (!lock(page->fd, F_WRLCK, HEADER_AT) &&
		    !fstat(page->fd, &ours) && !lstat(page->path, &named) &&
		    ours.st_ino == named.st_ino && ours.st_dev == named.st_dev)
			host_unlink(page->path);
		close(page->fd);
	}
	free(page->path);
	free(page);
}

int host_page_publish(struct host_page *page, const struct host_page_slot *slot)
{
	struct slot record = {
		.written_ns = slot->written_ns,
		.spin_ns = slot->spin_ns,
		.pid = (uint32_t)getpid(),
		.rate = slot->rate,
		.flags = (slot->active ? FLAG_ACTIVE : 0u) |
			 (slot->hungry ? FLAG_HUNGRY : 0u),
	};
	struct stat st;

	if (page->slot == HOST_PAGE_SLOTS)
		return -ENOSPC; /* it never got one */
	if (fstat(page->fd, &st))
		return -errno;
	if (!st.st_nlink || st.st_size != PAGE_SIZE_BYTES)
		return -ESTALE;
	record.check = check_of(&record);
	return write_record(page->fd, &record, slot_at(page->slot));
}

/*
 * Is slot @i in the hands of the process that it names, and is this the only
 * one of its slots?  The kernel is asked now and then only.
 */
static bool held(struct host_page *page, unsigned i, uint32_t pid)
{
	pid_t holder = page->holder[i];

	if (!holder || page->claimed[i] != pid ||
	    (page->turn + i) % VERIFY_EVERY == 0) {
		holder = locked_by(page->fd, slot_at(i));
		for (unsigned k = 0; holder > 0 && k < HOST_PAGE_SLOTS; k++)
			if (k != i && page->holder[k] == holder)
				holder = 0;
		page->holder[i] = holder;
		page->claimed[i] = pid;
	}
	return holder != 0;
}

/* What slot @i adds.  False: nothing. */
static bool peer_of(struct host_page *page, unsigned i, struct slot *slot,
		    uint64_t now_ns, struct cpu_price_peer *out)
{
	bool whole = slot->check == check_of(slot);

	/* we may have read it while it was written */
	for (unsigned try = 0; try < 3 && !whole; try++)
		whole = !read_record(page->fd, slot, slot_at(i)) &&
			slot->check == check_of(slot);
	if (whole && (!(slot->flags & FLAG_ACTIVE) ||
		      slot->written_ns > now_ns + HOST_PAGE_FRESH_NS ||
		      slot->written_ns + HOST_PAGE_FRESH_NS < now_ns)) {
		page->holder[i] = 0;
		return false;
	}
	if (!held(page, i, whole ? slot->pid : 0))
		return false;
	/* spoilt, but somebody's: he may be as hungry as anybody */
	out->rate = whole ? slot->rate : 0;
	out->hungry = !whole || (slot->flags & FLAG_HUNGRY);
	return true;
}

size_t host_page_peers(struct host_page *page, uint64_t now_ns,
		       const struct cpu_price_peer **out)
{
	static const struct slot unused;
	struct slot chunk[CHUNK];
	size_t n = 0;

	page->turn++;
	*out = page->peers;
	for (unsigned first = 0; first < HOST_PAGE_SLOTS; first += CHUNK) {
		bool used = false;

		if (pread(page->fd, chunk, sizeof(chunk), slot_at(first)) !=
		    sizeof(chunk))
			break;
		for (unsigned k = 0; k < CHUNK; k++) {
			if (!memcmp(&chunk[k], &unused, RECORD))
				continue;
			used = true;
			if (first + k != page->slot &&
			    peer_of(page, first + k, &chunk[k], now_ns,
				    &page->peers[n]))
				n++;
		}
		if (!used)
			break;
	}
	return n;
}

/* The CPUs we may run on; 0 if there are too many to tell. */
static uint64_t cpu_mask(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return 0;
	return mix(&cpus, sizeof(cpus));
}

int host_page_calibration(struct host_page *page, uint64_t oldest_ns,
			  uint64_t now_ns, struct calibration *out,
			  uint64_t *when_ns)
{
	struct measured record;

	if (read_record(page->fd, &record, CALIBRATION_AT) ||
	    record.check != check_of(&record) || record.boot != page->boot ||
	    record.cpus != cpu_mask() || record.when_ns < oldest_ns ||
	    record.when_ns > now_ns || !calibrate_plausible(&record.figures))
		return -ENOENT;
	*out = record.figures;
	*when_ns = record.when_ns;
	return 0;
}

int host_page_calibrating(struct host_page *page)
{
	return lock(page->fd, F_WRLCK, CALIBRATION_AT);
}

int host_page_calibrated(struct host_page *page, uint64_t now_ns,
			 const struct calibration *figures)
{
	struct measured record = {
		.boot = page->boot,
		.cpus = cpu_mask(),
		.when_ns = now_ns,
	};
	int err = 0;

	if (figures) {
		record.figures = *figures;
		record.check = check_of(&record);
		err = write_record(page->fd, &record, CALIBRATION_AT);
	}
	lock(page->fd, F_UNLCK, CALIBRATION_AT);
	return err;
}
