/* SPDX-License-Identifier: BSD-3-Clause */
/* See neighbour.h. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "poll/clock.h"
#include "tests/neighbour.h"

struct neighbour neighbour_start(const char *path,
				 void (*fn)(struct host_page *page))
{
	struct neighbour other;
	int to[2], from[2];
	char c;

	ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
	other.pid = fork();
	ck_assert_int_ge(other.pid, 0);
	if (!other.pid) {
		struct host_page *page = NULL;

		/* its end too, should the test fail */
		close(to[1]);
		if (host_page_open(path, &page))
			_exit(1);
		fn(page);
		if (write(from[1], "x", 1) != 1 || read(to[0], &c, 1) != 1)
			_exit(1);
		host_page_close(page);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	other.go = to[1];
	other.said = from[0];
	ck_assert_int_eq(read(other.said, &c, 1), 1);
	return other;
}

void neighbour_finish(struct neighbour *other)
{
	int status;

	ck_assert_int_eq(write(other->go, "x", 1), 1);
	ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
	ck_assert_int_eq(status, 0);
	close(other->go);
	close(other->said);
}

void neighbour_die(struct neighbour *other)
{
	kill(other->pid, SIGKILL);
	ck_assert_int_eq(waitpid(other->pid, NULL, 0), other->pid);
	close(other->go);
	close(other->said);
}

void neighbour_is_busy(struct host_page *page)
{
	host_page_publish(page, neighbour_slot());
}

const struct host_page_slot *neighbour_slot(void)
{
	static struct host_page_slot slot;

	slot = (struct host_page_slot){ .written_ns = clock_ns(),
					.spin_ns = 123456789,
					.rate = NEIGHBOUR_RATE,
					.active = true };
	return &slot;
}

struct host_page *neighbour_page(const char *path)
{
	struct host_page *page = NULL;

	ck_assert_int_eq(host_page_open(path, &page), 0);
	return page;
}

bool neighbour_page_exists(const char *path)
{
	return !access(path, F_OK);
}

size_t neighbour_count(struct host_page *page)
{
	const struct cpu_price_peer *unused;

	return host_page_peers(page, clock_ns(), &unused);
}
