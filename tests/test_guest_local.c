/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What only the local guest can be asked: that a process which does not keep
 * to guest_local.h is refused, without a trace, or harms nobody but itself.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>
#include "evtchn/guest.h"
#include "evtchn/guest_local.h"
#include "poll/wait.h"
#include "tests/scratch.h"

enum {
	PAGES = 4,
	FDS_MAX = 200,
	SEALED = F_SEAL_SHRINK | F_SEAL_GROW,
};

enum memory_kind { MEMFD, HUGE_MEMFD, PLAIN_FILE, NO_FILE };
enum event_kind { EVENTFD, PIPE, TIMERFD, INOTIFY, BLOCKING_EVENTFD };

/* What a frontend says.  The hello starts as a correct one. */
struct said {
	const char *why;
	int want; /* of guest_open */
	uint32_t magic, version, pages, ports, reserved; /* xor to the hello */
	int seals; /* xor to SEALED */
	long bytes; /* added to the memory's size */
	int fds; /* added to their number */
	int len; /* added to the hello's length */
	enum memory_kind memory;
	enum event_kind events;
	bool silent; /* hang up instead */
};

static const struct said saids[] = {
	{ "a correct hello", .want = 0 },
	{ "magic", -EPROTO, .magic = 1 },
	{ "version", -EPROTO, .version = 3 },
	{ "no pages", -EPROTO, .pages = PAGES },
	{ "pages over the limit", -EPROTO, .pages = 1u << 21 },
	{ "more pages than memory", -EPROTO, .pages = 1 },
	{ "less pages than memory", -EPROTO, .bytes = 4096 },
	{ "a part of a page", -EPROTO, .bytes = 512 },
	{ "empty memory", -EPROTO, .bytes = -4096 * PAGES },
	{ "no ports", -EPROTO, .ports = 2 },
	{ "ports over the limit", -EPROTO, .ports = 64, .fds = 64 },
	{ "reserved", -EPROTO, .reserved = 1 },
	{ "may shrink", -EPERM, .seals = F_SEAL_SHRINK },
	{ "may grow", -EPERM, .seals = F_SEAL_GROW },
	{ "read-only", -EPERM, .seals = F_SEAL_WRITE },
	{ "huge pages", -EPERM, .memory = HUGE_MEMFD },
	{ "memory is a file", -EPERM, .memory = PLAIN_FILE },
	{ "memory is none", -EPERM, .memory = NO_FILE },
	{ "events are pipes", -EPROTO, .events = PIPE },
	{ "one descriptor missing", -EPROTO, .fds = -1 },
	{ "no descriptor", -EPROTO, .fds = -3 },
	{ "one descriptor more", -EPROTO, .fds = 1 },
	{ "one more than there is room for", -EPROTO, .ports = 66, .fds = 63 },
	{ "far too many descriptors", -EPROTO, .fds = 150 },
	{ "short", -EPROTO, .len = -1 },
	{ "long", -EPROTO, .len = 1 },
	{ "a hang-up", -ECONNRESET, .silent = true },
};
enum { NR_SAIDS = sizeof(saids) / sizeof(saids[0]) };

struct liar {
	const struct said *said;
	char path[100];
	int listen_fd;
	int fd; /* connected */
	int fds[FDS_MAX]; /* what we send; also kept to ring with */
	int nr_fds;
	pthread_t thread;
};

static int make_memory(const struct said *s)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	char path[100];
	int fd, err;

	if (s->memory == NO_FILE)
		return eventfd(0, 0);
	if (s->memory == PLAIN_FILE) {
		scratch_path(path, sizeof(path), "memory");
		fd = open(path, O_RDWR | O_CREAT, 0600);
		ck_assert_int_eq(unlink(path), 0);
	} else {
		if (s->memory == HUGE_MEMFD)
			flags |= MFD_HUGETLB;
		fd = (int)syscall(SYS_memfd_create, "t", flags);
	}
	ck_assert_int_ge(fd, 0);
	/* of huge pages, one: more than the hello says, but it is not asked */
	err = ftruncate(fd, s->memory == HUGE_MEMFD ? 2 << 20
						    : PAGES * 4096 + s->bytes);
	ck_assert_int_eq(err, 0);
	if (s->memory != PLAIN_FILE)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALED ^ s->seals), 0);
	return fd;
}

static int make_event(enum event_kind kind)
{
	int p[2];

	switch (kind) {
	case PIPE:
		ck_assert_int_eq(pipe(p), 0);
		close(p[1]);
		return p[0];
	case TIMERFD:
		return timerfd_create(CLOCK_MONOTONIC, 0);
	case INOTIFY:
		return inotify_init1(0);
	case BLOCKING_EVENTFD:
		return eventfd(0, 0);
	default:
		return eventfd(0, EFD_NONBLOCK);
	}
}

static void send_hello(struct liar *l)
{
	const struct said *s = l->said;
	struct {
		struct guest_local_hello hello;
		char more[8];
	} out = { .hello = { .magic = GUEST_LOCAL_MAGIC ^ s->magic,
			     .version = GUEST_LOCAL_VERSION ^ s->version,
			     .nr_pages = PAGES ^ s->pages,
			     .nr_ports = 2 ^ s->ports,
			     .reserved = s->reserved } };
	union {
		struct cmsghdr header;
		char buf[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	size_t bytes = sizeof(int) * (size_t)l->nr_fds;
	struct iovec iov = { &out, sizeof(out.hello) + (size_t)s->len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	memset(&control, 0, sizeof(control));
	if (l->nr_fds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(&control.header), l->fds, bytes);
	}
	ck_assert_int_gt(sendmsg(l->fd, &msg, MSG_NOSIGNAL), 0);
}

static void *answer(void *arg)
{
	struct liar *l = arg;

	l->fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(l->fd, 0);
	if (l->said->silent) {
		close(l->fd);
		l->fd = -1;
	} else {
		send_hello(l);
	}
	return NULL;
}

static int listen_at(const char *path, int backlog)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(fd, backlog), 0);
	return fd;
}

static int open_at(const char *path, struct guest **guest)
{
	char name[256];

	snprintf(name, sizeof(name), "local:%s", path);
	return guest_open(name, 1, guest);
}

static int liar_open(struct liar *l, const struct said *s, struct guest **guest)
{
	int err;

	memset(l, 0, sizeof(*l));
	l->said = s;
	scratch_path(l->path, sizeof(l->path), "liar");
	l->listen_fd = listen_at(l->path, 4);
	while (l->nr_fds < 3 + s->fds) {
		l->fds[l->nr_fds] =
			l->nr_fds ? make_event(s->events) : make_memory(s);
		ck_assert_int_ge(l->fds[l->nr_fds], 0);
		l->nr_fds++;
	}
	ck_assert_int_eq(pthread_create(&l->thread, NULL, answer, l), 0);
	err = open_at(l->path, guest);
	pthread_join(l->thread, NULL);
	return err;
}

static void liar_close(struct liar *l)
{
	while (l->nr_fds)
		close(l->fds[--l->nr_fds]);
	if (l->fd >= 0)
		close(l->fd);
	close(l->listen_fd);
	unlink(l->path);
}

START_TEST(refuses_a_wrong_hello_and_keeps_no_descriptor)
{
	unsigned before = scratch_descriptors();
	const struct said *s = &saids[_i];
	struct guest *guest = NULL;
	struct liar l;
	int err = liar_open(&l, s, &guest);

	ck_assert_msg(err == s->want, "%s: %s", s->why, strerror(-err));
	if (!err)
		guest->ops->close(guest);
	liar_close(&l);
	ck_assert_msg(scratch_descriptors() == before, "%s: descriptors",
		      s->why);
}
END_TEST

START_TEST(take_blocks_on_no_descriptor)
{
	static const enum event_kind kinds[] = { BLOCKING_EVENTFD, TIMERFD,
						 INOTIFY };
	struct said s = { "not a non-blocking eventfd", 0,
			  .events = kinds[_i] };
	struct wait_source source = { 0 };
	struct guest *guest;
	struct wait wait;
	struct liar l;

	ck_assert_int_eq(liar_open(&l, &s, &guest), 0);
	ck_assert_int_eq(wait_init(&wait, false), 0);
	ck_assert_int_eq(wait_add(&wait, &source, NULL), 0);
	ck_assert_int_eq(guest->ops->bind(guest, 1, &wait, &source), 0);
	/* the alarm of check's timeout ends this if it sleeps */
	ck_assert_int_le(guest->ops->take(guest), 0);
	if (kinds[_i] == BLOCKING_EVENTFD) {
		ck_assert_int_eq(eventfd_write(l.fds[2], 1), 0);
		ck_assert_int_eq(guest->ops->take(guest), 1);
		ck_assert_int_eq(guest->ops->take(guest), 0);
		ck_assert_int_eq(guest->ops->rearm(guest), 0);
		ck_assert_int_eq(guest->ops->take(guest), 0);
	}
	guest->ops->close(guest);
	wait_remove(&wait, &source);
	wait_fini(&wait);
	liar_close(&l);
}
END_TEST

START_TEST(notify_survives_a_guest_that_took_its_page_back)
{
	struct said s = { .why = "punches a hole" };
	struct wait_source source = { 0 };
	struct guest *guest;
	struct wait wait;
	struct liar l;

	ck_assert_int_eq(liar_open(&l, &s, &guest), 0);
	ck_assert_int_eq(wait_init(&wait, false), 0);
	ck_assert_int_eq(wait_add(&wait, &source, NULL), 0);
	ck_assert_int_eq(guest->ops->bind(guest, 1, &wait, &source), 0);
	ck_assert_int_eq(guest->ops->notify(guest), 0);
	ck_assert_int_eq(fallocate(l.fds[0],
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   0, 4096 * PAGES),
			 0);
	ck_assert_int_eq(guest->ops->notify(guest), 0);
	guest->ops->close(guest);
	wait_remove(&wait, &source);
	wait_fini(&wait);
	liar_close(&l);
}
END_TEST

START_TEST(gives_up_on_a_listener_that_says_nothing)
{
	unsigned before = scratch_descriptors();
	struct guest *guest;
	char path[100];
	int fd;

	scratch_path(path, sizeof(path), "mute");
	fd = listen_at(path, 4);
	ck_assert_int_eq(open_at(path, &guest), -ETIMEDOUT);
	close(fd);
	unlink(path);
	ck_assert_uint_eq(scratch_descriptors(), before);
}
END_TEST

START_TEST(does_not_queue_at_a_full_listener)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct guest *guest;
	int fd, waiting;

	scratch_path(a.sun_path, sizeof(a.sun_path), "full");
	fd = listen_at(a.sun_path, 0);
	waiting = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(waiting, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(open_at(a.sun_path, &guest), -EAGAIN);
	close(waiting);
	close(fd);
	unlink(a.sun_path);
}
END_TEST

static const struct {
	const char *path;
	int want;
} paths[] = {
	{ "/nonexistent/socket", -ENOENT },
	{ "/dev/null", -ECONNREFUSED },
	{ "/a/name/longer/than/the/hundred/and/seven/bytes/that/fit/in/a/unix/"
	  "socket's/address/is/refused/and/not/cut/short",
	  -ENAMETOOLONG },
};

START_TEST(says_why_a_path_cannot_be_connected)
{
	struct guest *guest;
	int err = open_at(paths[_i].path, &guest);

	ck_assert_msg(err == paths[_i].want, "%s: %s", paths[_i].path,
		      strerror(-err));
}
END_TEST

/* "local" without a colon is a pool's name like any other. */
static const char *const xen_names[] = { "", "xen", "xen:", "pool0", "local" };

START_TEST(anything_else_is_xen_and_prints_nothing)
{
	struct guest *guest;
	int p[2], err, saved = dup(2);
	char c;

	ck_assert_int_eq(pipe2(p, O_NONBLOCK), 0);
	dup2(p[1], 2);
	err = guest_open(xen_names[_i], 1, &guest);
	dup2(saved, 2);
	close(p[1]);
	ck_assert_int_eq(read(p[0], &c, 1), 0);
	close(p[0]);
	close(saved);
	if (!err) {
		ck_assert_ptr_eq(guest->ops, &guest_xen);
		guest->ops->close(guest);
	} else {
		ck_assert_int_eq(err, -ENODEV);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("guest_local");
	TCase *c = tcase_create("local");

	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, refuses_a_wrong_hello_and_keeps_no_descriptor, 0,
			    NR_SAIDS);
	tcase_add_loop_test(c, take_blocks_on_no_descriptor, 0, 3);
	tcase_add_test(c, notify_survives_a_guest_that_took_its_page_back);
	tcase_add_test(c, gives_up_on_a_listener_that_says_nothing);
	tcase_add_test(c, does_not_queue_at_a_full_listener);
	tcase_add_loop_test(c, says_why_a_path_cannot_be_connected, 0,
			    sizeof(paths) / sizeof(paths[0]));
	tcase_add_loop_test(c, anything_else_is_xen_and_prints_nothing, 0,
			    sizeof(xen_names) / sizeof(xen_names[0]));
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	SRunner *runner;
	int failed;

	scratch_open();
	runner = srunner_create(suite());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
