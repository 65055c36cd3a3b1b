/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain behind a local guest, see domain.h: memory and event channels, and
 * the thread that hands both to whoever connects, see evtchn/guest_local.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "evtchn/guest.h"
#include "evtchn/guest_local.h"
#include "tests/domain.h"

enum {
	PORTS = 2,
	PORT = 1, /* port 0 is there and means nothing */
	BACKENDS_MAX = 32, /* connected at one time */
	POLLED = 2 + BACKENDS_MAX,
};

struct local {
	struct domain domain; /* first */
	uint32_t *refs;
	int memory_fd;
	int events[PORTS];
	struct sockaddr_un address;
	pthread_t thread;
	bool running; /* the thread */
	bool bound; /* the path is ours to remove */
	int listen_fd;
	int stop_fd;
	/* the thread's: stop, listen, then the connected backends */
	struct pollfd polled[POLLED];
};

static struct local *local_of(struct domain *d)
{
	return (struct local *)d;
}

static void send_hello(struct local *d, int fd)
{
	struct guest_local_hello hello = {
		.magic = GUEST_LOCAL_MAGIC,
		.version = GUEST_LOCAL_VERSION,
		.nr_pages = (uint32_t)(d->domain.bytes / GUEST_PAGE_SIZE),
		.nr_ports = PORTS,
		.pid = (uint32_t)getpid(),
	};
	int fds[1 + PORTS] = { d->memory_fd, d->events[0], d->events[1] };
	union {
		struct cmsghdr header;
		char buf[CMSG_SPACE(sizeof(fds))];
	} control = { .header = { .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS,
				  .cmsg_len = CMSG_LEN(sizeof(fds)) } };
	struct iovec iov = { .iov_base = &hello, .iov_len = sizeof(hello) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
	/* a backend that is gone already shows up as a hang-up */
	sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void accept_backend(struct local *d)
{
	unsigned i;
	int fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (i = 2; i < POLLED; i++) {
		if (d->polled[i].fd >= 0)
			continue;
		d->polled[i].fd = fd;
		send_hello(d, fd);
		return;
	}
	close(fd);
}

static void *listener(void *arg)
{
	struct local *d = arg;
	unsigned i;

	while (!d->polled[0].revents) {
		if (poll(d->polled, POLLED, -1) < 0)
			continue;
		for (i = 2; i < POLLED; i++) {
			if (!d->polled[i].revents)
				continue;
			close(d->polled[i].fd);
			d->polled[i].fd = -1;
		}
		if (d->polled[1].revents)
			accept_backend(d);
	}
	return NULL;
}

/* Listen, and start the thread; what is left after an error, stop finds. */
static int listener_start(struct local *d)
{
	sigset_t all, old;
	unsigned i;
	int err;

	d->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	d->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (d->listen_fd < 0 || d->stop_fd < 0)
		return -errno;
	if (bind(d->listen_fd, (const struct sockaddr *)&d->address,
		 sizeof(d->address)) < 0)
		return -errno;
	d->bound = true;
	if (listen(d->listen_fd, BACKENDS_MAX) < 0)
		return -errno;

	d->polled[0] = (struct pollfd){ .fd = d->stop_fd, .events = POLLIN };
	d->polled[1] = (struct pollfd){ .fd = d->listen_fd, .events = POLLIN };
	for (i = 2; i < POLLED; i++)
		d->polled[i].fd = -1;
	/* signals are for the program's own threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&d->thread, NULL, listener, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	d->running = !err;
	return -err;
}

static void listener_stop(struct local *d)
{
	unsigned i;

	if (d->running) {
		eventfd_write(d->stop_fd, 1);
		pthread_join(d->thread, NULL);
		for (i = 2; i < POLLED; i++)
			if (d->polled[i].fd >= 0)
				close(d->polled[i].fd);
	}
	if (d->bound)
		unlink(d->address.sun_path);
	if (d->listen_fd >= 0)
		close(d->listen_fd);
	if (d->stop_fd >= 0)
		close(d->stop_fd);
}

static int memory_make(struct local *d, uint32_t nr_pages)
{
	unsigned i;
	void *p;

	d->refs = calloc(nr_pages, sizeof(*d->refs));
	if (!d->refs)
		return -ENOMEM;
	for (i = 0; i < nr_pages; i++)
		d->refs[i] = i;
	d->domain.bytes = (size_t)nr_pages * GUEST_PAGE_SIZE;
	d->memory_fd = (int)syscall(SYS_memfd_create, "guest",
				    MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (d->memory_fd < 0 ||
	    ftruncate(d->memory_fd, (off_t)d->domain.bytes) < 0 ||
	    fcntl(d->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -errno;
	p = mmap(NULL, d->domain.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		 d->memory_fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	d->domain.memory = p;
	for (i = 0; i < PORTS; i++) {
		d->events[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (d->events[i] < 0)
			return -errno;
	}
	return 0;
}

static uint32_t *bell_of(struct domain *d)
{
	return (uint32_t *)(void *)d->memory + PORT;
}

static bool local_ring(struct domain *d)
{
	uint64_t one = 1;

	/* can only fail if the counter is full, and then it rings anyway */
	return write(local_of(d)->events[PORT], &one, sizeof(one)) ==
	       sizeof(one);
}

static uint32_t local_heard(struct domain *d)
{
	return __atomic_load_n(bell_of(d), __ATOMIC_ACQUIRE);
}

static bool local_listen(struct domain *d, uint32_t seen, uint64_t timeout_ns)
{
	struct timespec left = {
		.tv_sec = (time_t)(timeout_ns / 1000000000),
		.tv_nsec = (long)(timeout_ns % 1000000000),
	};

	/* the kernel refuses to sleep on a bell that rang since */
	return syscall(SYS_futex, bell_of(d), FUTEX_WAIT, seen, &left, NULL,
		       0) == 0;
}

static void local_close(struct domain *domain)
{
	struct local *d = local_of(domain);
	unsigned i;

	listener_stop(d);
	for (i = 0; i < PORTS; i++)
		if (d->events[i] >= 0)
			close(d->events[i]);
	if (domain->memory)
		munmap(domain->memory, domain->bytes);
	if (d->memory_fd >= 0)
		close(d->memory_fd);
	free(d->refs);
	free(d);
}

static const struct domain_ops local_ops = {
	.close = local_close,
	.ring = local_ring,
	.heard = local_heard,
	.listen = local_listen,
};

int domain_local_open(const char *path, uint32_t nr_pages, struct domain **out)
{
	struct local *d;
	size_t len = strlen(path);
	unsigned i;
	int err;

	if (len >= sizeof(d->address.sun_path))
		return -ENAMETOOLONG;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->domain.ops = &local_ops;
	d->domain.port = PORT;
	d->domain.no_port = PORTS;
	d->domain.no_ref = nr_pages;
	d->memory_fd = d->listen_fd = d->stop_fd = -1;
	for (i = 0; i < PORTS; i++)
		d->events[i] = -1;
	d->address.sun_family = AF_UNIX;
	memcpy(d->address.sun_path, path, len);

	err = memory_make(d, nr_pages);
	if (!err)
		err = listener_start(d);
	if (err) {
		local_close(&d->domain);
		return err;
	}
	d->domain.refs = d->refs;
	*out = &d->domain;
	return 0;
}
