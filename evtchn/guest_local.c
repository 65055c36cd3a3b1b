/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest without Xen: another process that shares a memfd and eventfds over a
 * unix socket, see guest_local.h.
 *
 * It is as strict as Xen wherever the ring can tell: page granularity, a
 * status for every piece, masked until rearm, pending kept.  And it trusts the
 * other side no more: what it sends is checked before use, the memory cannot
 * shrink under us, and as the guest shares the flags of every descriptor it
 * passes, nothing here relies on O_NONBLOCK of one.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "evtchn/guest.h"
#include "evtchn/guest_local.h"
#include "poll/clock.h"
#include "poll/host.h"
#include "poll/wait.h"

enum {
	HELLO_TIMEOUT_MS = 1000,
	HELLO_FDS_MAX = 1 + GUEST_LOCAL_PORTS_MAX,
	/* of Linux's ABI; glibc 2.17's headers know none of them */
	SEALS_NEEDED = 0x2 | 0x4, /* F_SEAL_SHRINK, F_SEAL_GROW */
	GET_SEALS = 1024 + 10, /* F_GET_SEALS */
	READ_NOWAIT = 8, /* RWF_NOWAIT */
};

struct local {
	struct guest guest;
	int socket;
	int memory_fd;
	uint8_t *memory; /* all of it */
	uint32_t nr_pages;
	void *ring; /* the ring's pages once more, side by side */
	size_t ring_bytes;
	int events[GUEST_LOCAL_PORTS_MAX]; /* -1: none; given up at bind */
	uint32_t nr_ports;
	uint32_t pid;
	uint32_t port;
	bool masked; /* from a take that found an event to rearm */
	struct wait *wait; /* NULL: not bound */
	struct wait_source *source;
};

static struct local *local_of(struct guest *guest)
{
	return (struct local *)guest;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int wait_readable(int fd)
{
	uint64_t end_ns = clock_ns() + HELLO_TIMEOUT_MS * UINT64_C(1000000);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now_ns;
	int n;

	do {
		now_ns = clock_ns();
		if (now_ns >= end_ns)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)((end_ns - now_ns) / 1000000) + 1);
	} while (n == 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

/* What came with @msg, at most HELLO_FDS_MAX.  Returns how many. */
static unsigned collect_fds(struct msghdr *msg, int *fds)
{
	struct cmsghdr *c;
	unsigned n = 0, count;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		assert(n + count <= HELLO_FDS_MAX);
		memcpy(fds + n, CMSG_DATA(c), count * sizeof(int));
		n += count;
	}
	return n;
}

static int check_hello(const struct guest_local_hello *h, ssize_t len,
		       const struct msghdr *msg, unsigned nr_fds)
{
	if (len == 0)
		return -ECONNRESET;
	if (len != sizeof(*h) || (msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return -EPROTO;
	if (h->magic != GUEST_LOCAL_MAGIC || h->version != GUEST_LOCAL_VERSION)
		return -EPROTO;
	if (h->nr_pages == 0 || h->nr_pages > GUEST_LOCAL_PAGES_MAX ||
	    h->nr_ports == 0 || h->nr_ports > GUEST_LOCAL_PORTS_MAX)
		return -EPROTO;
	if (h->reserved != 0 || nr_fds != 1 + h->nr_ports)
		return -EPROTO;
	return 0;
}

/* Receive the hello; whatever came with it belongs to @g, also on error. */
static int receive_hello(struct local *g)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(HELLO_FDS_MAX * sizeof(int))];
	} control;
	struct guest_local_hello hello;
	struct iovec iov = { .iov_base = &hello, .iov_len = sizeof(hello) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen =
				      CMSG_LEN(HELLO_FDS_MAX * sizeof(int)) };
	int fds[HELLO_FDS_MAX]; /* not one more fits: LEN above, not SPACE */
	unsigned n, i;
	ssize_t len;
	int err;

	err = wait_readable(g->socket);
	if (err)
		return err;
	len = recvmsg(g->socket, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (len < 0)
		return -errno;

	n = collect_fds(&msg, fds);
	if (n)
		g->memory_fd = fds[0];
	for (i = 1; i < n; i++)
		g->events[i - 1] = fds[i];

	err = check_hello(&hello, len, &msg, n);
	if (err)
		return err;
	g->nr_pages = hello.nr_pages;
	g->nr_ports = hello.nr_ports;
	g->pid = hello.pid;
	return 0;
}

/*
 * Memory that can go away under a mapping would end us with SIGBUS: only a
 * sealed one will do, and no huge pages, whose pool can run dry.
 */
static int check_memory(const struct local *g)
{
	struct statfs fs;
	struct stat st;
	int seals;

	seals = fcntl(g->memory_fd, GET_SEALS);
	if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED)
		return -EPERM;
	if (fstatfs(g->memory_fd, &fs) < 0 || fstat(g->memory_fd, &st) < 0)
		return -errno;
	if (fs.f_type != TMPFS_MAGIC)
		return -EPERM;
	if (st.st_size != (off_t)g->nr_pages * GUEST_PAGE_SIZE)
		return -EPROTO;
	return 0;
}

/*
 * An eventfd is an anonymous inode, which is the only file without a type.
 * That keeps out what can hang in a read or a poll: files of a file system
 * that the guest itself may be serving.
 */
static int check_events(const struct local *g)
{
	struct stat st;
	uint32_t i;

	for (i = 0; i < g->nr_ports; i++) {
		if (fstat(g->events[i], &st) < 0)
			return -errno;
		if (st.st_mode & S_IFMT)
			return -EPROTO;
	}
	return 0;
}

static int map_memory(struct local *g)
{
	void *p = mmap(NULL, (size_t)g->nr_pages * GUEST_PAGE_SIZE,
		       PROT_READ | PROT_WRITE, MAP_SHARED, g->memory_fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	g->memory = p;
	return 0;
}

static void local_unbind(struct guest *guest)
{
	struct local *g = local_of(guest);

	if (!g->wait)
		return;
	wait_remove_fd(g->wait, g->events[g->port]);
	close_fd(&g->events[g->port]);
	g->wait = NULL;
	g->source = NULL;
}

static void local_unmap(struct guest *guest)
{
	struct local *g = local_of(guest);

	if (g->ring)
		munmap(g->ring, g->ring_bytes);
	g->ring = NULL;
}

static void local_close(struct guest *guest)
{
	struct local *g = local_of(guest);
	unsigned i;

	local_unbind(guest);
	local_unmap(guest);
	if (g->memory)
		munmap(g->memory, (size_t)g->nr_pages * GUEST_PAGE_SIZE);
	for (i = 0; i < GUEST_LOCAL_PORTS_MAX; i++)
		close_fd(&g->events[i]);
	close_fd(&g->memory_fd);
	close_fd(&g->socket);
	free(g);
}

static int local_open(const char *where, uint32_t domid, struct guest **out)
{
	struct local *g;
	unsigned i;
	int err;

	(void)domid; /* the path says who it is */
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->guest.ops = &guest_local;
	g->memory_fd = -1;
	for (i = 0; i < GUEST_LOCAL_PORTS_MAX; i++)
		g->events[i] = -1;

	/* non-blocking: a listener that never accepts must not hold us */
	g->socket = host_connect(where, SOCK_SEQPACKET | SOCK_NONBLOCK);
	err = g->socket < 0 ? g->socket : 0;
	if (!err)
		err = receive_hello(g);
	if (!err)
		err = check_memory(g);
	if (!err)
		err = check_events(g);
	if (!err)
		err = map_memory(g);
	if (err) {
		local_close(&g->guest);
		return err;
	}
	*out = &g->guest;
	return 0;
}

/* Page 0 holds the doorbells and, as on Xen, is never offered. */
static bool gref_offered(const struct local *g, uint32_t gref)
{
	return gref != 0 && gref < g->nr_pages;
}

static int local_map(struct guest *guest, const uint32_t *grefs, unsigned n,
		     void **out)
{
	struct local *g = local_of(guest);
	size_t bytes = (size_t)n * GUEST_PAGE_SIZE;
	uint8_t *ring;
	unsigned i;
	int err;

	assert(!g->ring);
	if (n == 0)
		return -EINVAL;
	for (i = 0; i < n; i++)
		if (!gref_offered(g, grefs[i]))
			return -EINVAL;

	/* the whole range first, so that nobody else gets a part of it */
	ring = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED)
		return -errno;
	for (i = 0; i < n; i++) {
		if (mmap(ring + (size_t)i * GUEST_PAGE_SIZE, GUEST_PAGE_SIZE,
			 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 g->memory_fd,
			 (off_t)grefs[i] * GUEST_PAGE_SIZE) == MAP_FAILED) {
			err = -errno;
			munmap(ring, bytes);
			return err;
		}
	}
	g->ring = ring;
	g->ring_bytes = bytes;
	*out = ring;
	return 0;
}

static int copy_piece(struct local *g, enum guest_direction direction,
		      const struct guest_copy *c)
{
	uint8_t *page;

	if (!gref_offered(g, c->gref) || c->offset + c->len > GUEST_PAGE_SIZE)
		return -EIO;
	page = g->memory + (size_t)c->gref * GUEST_PAGE_SIZE + c->offset;
	if (direction == GUEST_TO_US)
		memcpy(c->local, page, c->len);
	else
		memcpy(page, c->local, c->len);
	return 0;
}

static int local_copy(struct guest *guest, enum guest_direction direction,
		      struct guest_copy *copies, unsigned n)
{
	struct local *g = local_of(guest);
	unsigned i;
	int err = 0;

	/*
	 * Xen copies in a hypercall, so figures taken here would flatter us
	 * without one: a call of the cheapest kind stands for its entry and
	 * exit.  Not process_vm_readv, which would do the copy as well, at 1.5
	 * us for 4 KiB: three to four times what a memcpy and this call take.
	 */
	syscall(SYS_getppid);
	for (i = 0; i < n; i++) {
		copies[i].err = copy_piece(g, direction, &copies[i]);
		if (copies[i].err)
			err = -EIO;
	}
	return err;
}

static int local_bind(struct guest *guest, uint32_t port, struct wait *wait,
		      struct wait_source *source)
{
	struct local *g = local_of(guest);
	uint32_t i;
	int err;

	assert(!g->wait);
	if (port >= g->nr_ports || g->events[port] < 0)
		return -EINVAL;
	err = wait_add_fd(wait, source, g->events[port],
			  EPOLLIN | EPOLLONESHOT);
	if (err)
		return err;
	g->port = port;
	g->wait = wait;
	g->source = source;
	for (i = 0; i < g->nr_ports; i++)
		if (i != port)
			close_fd(&g->events[i]);
	return 0;
}

static int local_take(struct guest *guest)
{
	struct local *g = local_of(guest);
	int fd = g->events[g->port];
	uint64_t count;
	struct iovec iov = { .iov_base = &count, .iov_len = sizeof(count) };
	long n;

	assert(g->wait);
	if (g->masked)
		return 0;
	/* offset -1: the file's own; the high half is ignored on 64 bits */
	n = syscall(SYS_preadv2, fd, &iov, 1L, -1L, -1L, (long)READ_NOWAIT);
	if (n < 0 && errno == EOPNOTSUPP) {
		/*
		 * Before Linux 5.8 an eventfd does not know RWF_NOWAIT.  A
		 * guest that takes the flag away between these two calls stalls
		 * the thread that serves its own ring, and nobody else.
		 */
		if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
			return -errno;
		n = read(fd, &count, sizeof(count));
	}
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	g->masked = n > 0;
	return g->masked;
}

static int local_rearm(struct guest *guest)
{
	struct local *g = local_of(guest);

	assert(g->wait);
	g->masked = false;
	return wait_rearm_fd(g->wait, g->source, g->events[g->port],
			     EPOLLIN | EPOLLONESHOT);
}

static int local_notify(struct guest *guest)
{
	struct local *g = local_of(guest);
	uint32_t *bell = (uint32_t *)(void *)g->memory + g->port;

	assert(g->wait);
	/* the response's index, written before, is seen by who sees the bell */
	__atomic_fetch_add(bell, 1, __ATOMIC_SEQ_CST);
	if (syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) < 0)
		return -errno;
	return 0;
}

static int local_death_fd(struct guest *guest)
{
	return local_of(guest)->socket;
}

static int local_pid(struct guest *guest)
{
	const struct local *g = local_of(guest);

	return g->pid <= INT_MAX ? (int)g->pid : 0;
}

const struct guest_ops guest_local = {
	.name = "local",
	.open = local_open,
	.close = local_close,
	.map = local_map,
	.unmap = local_unmap,
	.copy = local_copy,
	.bind = local_bind,
	.unbind = local_unbind,
	.take = local_take,
	.rearm = local_rearm,
	.notify = local_notify,
	.death_fd = local_death_fd,
	.pid = local_pid,
};
