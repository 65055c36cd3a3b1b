/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of a guest, for tests of what evtchn/guest.h promises: a domain,
 * and a backend that has opened it, on every kind of guest that there is here.
 * A new implementation is a line in pair.c's table.  Functions fail the running
 * test when a step that should work does not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "evtchn/guest.h"
#include "poll/wait.h"
#include "tests/domain.h"

enum { PAIR_PAGES = 8, PAIR_SOON_MS = 5000, PAIR_A_WHILE_MS = 30 };

struct pair {
	const struct pair_kind *kind;
	/* the guest's end, whatever it lives on */
	struct domain *domain;
	char name[128]; /* for guest_open */
	uint32_t domid;
	/* the backend's */
	struct guest *guest;
	const struct guest_ops *ops;
	struct wait wait;
	struct wait_source source;
};

struct pair_kind {
	const struct guest_ops *ops;
	void (*open)(struct pair *t); /* the guest's end */
	bool tells_death;
};

/* How many kinds were written, and how many of them this host has; says so. */
int pair_kinds(void);
int pair_kinds_here(void);

void pair_open(struct pair *t, int kind);
void pair_close(struct pair *t);

/* Bind the guest's port; no event is on its way when this returns. */
void pair_bind(struct pair *t);

/* Would a sleep of the backend have ended within @ms? */
bool pair_wakes(struct pair *t, int ms);

/* The guest's page @n, and its grant reference. */
static inline uint8_t *pair_page(struct pair *t, unsigned n)
{
	return t->domain->memory + n * GUEST_PAGE_SIZE;
}

static inline uint32_t pair_ref(struct pair *t, unsigned n)
{
	return t->domain->refs[n];
}
