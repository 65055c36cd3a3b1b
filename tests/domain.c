/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain behind a local guest, see domain.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "evtchn/guest.h"
#include "evtchn/guest_local.h"
#include "tests/domain.h"

static void send_hello(struct domain *d, int fd)
{
	struct guest_local_hello hello = {
		.magic = GUEST_LOCAL_MAGIC,
		.version = GUEST_LOCAL_VERSION,
		.nr_pages = (uint32_t)(d->bytes / GUEST_PAGE_SIZE),
		.nr_ports = DOMAIN_PORTS,
		.pid = (uint32_t)getpid(),
	};
	int fds[1 + DOMAIN_PORTS] = { d->memory_fd, d->events[0],
				      d->events[1] };
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

static void accept_backend(struct domain *d)
{
	unsigned i;
	int fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (i = 2; i < DOMAIN_POLLED; i++) {
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
	struct domain *d = arg;
	unsigned i;

	while (!d->polled[0].revents) {
		if (poll(d->polled, DOMAIN_POLLED, -1) < 0)
			continue;
		for (i = 2; i < DOMAIN_POLLED; i++) {
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
static int listener_start(struct domain *d)
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
	if (listen(d->listen_fd, DOMAIN_BACKENDS_MAX) < 0)
		return -errno;

	d->polled[0] = (struct pollfd){ .fd = d->stop_fd, .events = POLLIN };
	d->polled[1] = (struct pollfd){ .fd = d->listen_fd, .events = POLLIN };
	for (i = 2; i < DOMAIN_POLLED; i++)
		d->polled[i].fd = -1;
	/* signals are for the program's own threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&d->thread, NULL, listener, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	d->running = !err;
	return -err;
}

static void listener_stop(struct domain *d)
{
	unsigned i;

	if (d->running) {
		eventfd_write(d->stop_fd, 1);
		pthread_join(d->thread, NULL);
		for (i = 2; i < DOMAIN_POLLED; i++)
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

static int memory_make(struct domain *d, uint32_t nr_pages)
{
	unsigned i;
	void *p;

	d->bytes = (size_t)nr_pages * GUEST_PAGE_SIZE;
	d->memory_fd = (int)syscall(SYS_memfd_create, "guest",
				    MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (d->memory_fd < 0 || ftruncate(d->memory_fd, (off_t)d->bytes) < 0 ||
	    fcntl(d->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -errno;
	p = mmap(NULL, d->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		 d->memory_fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	d->memory = p;
	for (i = 0; i < DOMAIN_PORTS; i++) {
		d->events[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (d->events[i] < 0)
			return -errno;
	}
	return 0;
}

int domain_init(struct domain *d, const char *path, uint32_t nr_pages)
{
	size_t len = strlen(path);
	unsigned i;
	int err;

	memset(d, 0, sizeof(*d));
	d->memory_fd = d->listen_fd = d->stop_fd = -1;
	for (i = 0; i < DOMAIN_PORTS; i++)
		d->events[i] = -1;
	d->address.sun_family = AF_UNIX;
	if (len >= sizeof(d->address.sun_path))
		return -ENAMETOOLONG;
	memcpy(d->address.sun_path, path, len);

	err = memory_make(d, nr_pages);
	if (!err)
		err = listener_start(d);
	if (err)
		domain_fini(d);
	return err;
}

void domain_fini(struct domain *d)
{
	unsigned i;

	listener_stop(d);
	for (i = 0; i < DOMAIN_PORTS; i++)
		if (d->events[i] >= 0)
			close(d->events[i]);
	if (d->memory)
		munmap(d->memory, d->bytes);
	if (d->memory_fd >= 0)
		close(d->memory_fd);
}

uint32_t *domain_bell(struct domain *d, unsigned port)
{
	return (uint32_t *)(void *)d->memory + port;
}

bool domain_ring(struct domain *d, unsigned port)
{
	uint64_t one = 1;

	/* can only fail if the counter is full, and then it rings anyway */
	return write(d->events[port], &one, sizeof(one)) == sizeof(one);
}
