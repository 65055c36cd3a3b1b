/* SPDX-License-Identifier: BSD-3-Clause */
/* See pair.h. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include "tests/pair.h"
#include "tests/scratch.h"

static void local_open(struct pair *t)
{
	char path[100];

	scratch_path(path, sizeof(path), "guest");
	snprintf(t->name, sizeof(t->name), "local:%s", path);
	t->domid = 1;
	ck_assert_int_eq(domain_local_open(path, PAIR_PAGES, &t->domain), 0);
}

/* Where this runs is domain 0, so that is the guest too. */
static void xen_open(struct pair *t)
{
	snprintf(t->name, sizeof(t->name), "xen");
	t->domid = 0;
	ck_assert_int_eq(domain_xen_open(PAIR_PAGES, &t->domain), 0);
}

/* The one that every host has comes first. */
static const struct pair_kind kinds[] = {
	{ .ops = &guest_local, .open = local_open, .tells_death = true },
	{ .ops = &guest_xen, .open = xen_open },
};

int pair_kinds(void)
{
	return sizeof(kinds) / sizeof(kinds[0]);
}

int pair_kinds_here(void)
{
	struct domain *d;

	if (domain_xen_open(PAIR_PAGES, &d)) {
		printf("no Xen here: \"xen\" is for make check-xen\n");
		fflush(stdout);
		return 1;
	}
	domain_close(d);
	return 2;
}

void pair_open(struct pair *t, int kind)
{
	memset(t, 0, sizeof(*t));
	t->kind = &kinds[kind];
	t->kind->open(t);
	ck_assert_int_eq(guest_open(t->name, t->domid, &t->guest), 0);
	t->ops = t->guest->ops;
	ck_assert_ptr_eq(t->ops, t->kind->ops);
	ck_assert_int_eq(wait_init(&t->wait, false), 0);
	ck_assert_int_eq(wait_add(&t->wait, &t->source, NULL), 0);
}

bool pair_wakes(struct pair *t, int ms)
{
	struct epoll_event e;

	return epoll_wait(t->wait.epoll_fd, &e, 1, ms) == 1;
}

void pair_bind(struct pair *t)
{
	ck_assert_int_eq(t->ops->bind(t->guest, t->domain->port, &t->wait,
				      &t->source),
			 0);
	/* Xen's bind sends an event of its own, some time */
	do {
		ck_assert_int_ge(t->ops->take(t->guest), 0);
		ck_assert_int_eq(t->ops->rearm(t->guest), 0);
	} while (pair_wakes(t, PAIR_A_WHILE_MS));
}

void pair_close(struct pair *t)
{
	t->ops->close(t->guest);
	wait_remove(&t->wait, &t->source);
	wait_fini(&t->wait);
	domain_close(t->domain);
}
