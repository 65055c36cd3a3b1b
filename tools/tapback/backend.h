/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend directory of one device: what the toolstack wrote there, and
 * what we publish there for the frontend.
 *
 * Whatever is written is written in a transaction that first looks whether the
 * device still exists, so that nothing rises from the dead when the toolstack
 * removes it at the same moment.  Logs what the toolstack wrote wrongly,
 * rate-limited.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/log.h"
#include "tools/ctl/hello.h"
#include "tools/tapback/store.h"
#include "tools/tapback/tap.h"

#define BACKEND_NO_STATE (-1)

struct backend {
	char dir[128]; /* /local/domain/BE/backend/NAME/DOMID/DEVID */
	char error_dir[160]; /* /local/domain/BE/error/backend/... */
	uint32_t domid, devid;
	struct log_limit limit;

	/* as last read */
	bool exists;
	char frontend[STORE_VALUE_MAX];
	int state; /* a XenbusState, or BACKEND_NO_STATE */
	bool online; /* also if nothing is said */
	bool connected; /* hotplug-status: the image is there */
	bool writable;
	int mode_err; /* of writable: -EINVAL... */
	int pid; /* 0: no tapdisk is named */
	uint16_t minor;
	struct tap_polling polling;
};

/* Name the directories: @self is our domain, @name the type ("vbd3"). */
void backend_init(struct backend *backend, uint32_t self, const char *name,
		  uint32_t domid, uint32_t devid);

/* Read it all again.  -errno of the store, and then nothing has changed. */
int backend_read(struct store *store, struct backend *backend);

struct backend_offer {
	const struct hello *disk; /* NULL: only the state changes */
	uint32_t info;
	bool barrier; /* if the disk has it */
	int pid; /* of the tapdisk: kthread-pid */
	int state; /* to show */
	int shown; /* what we showed before, or BACKEND_NO_STATE */
};

/*
 * Publish the offer and show the state.  A state of Connected that is shown
 * already is written again if the size has changed: so a frontend hears of it.
 * -ENOENT if the device is gone; -ECANCELED if the toolstack asked to close
 * it and the offer is to go on; -EAGAIN if others kept interfering; -errno.
 */
int backend_offer(struct store *store, struct backend *backend,
		  const struct backend_offer *offer);

/* The error node, as a Linux backend writes it: "22 what". */
void backend_set_error(struct store *store, const struct backend *backend,
		       int err, const char *what);
void backend_clear_error(struct store *store, const struct backend *backend);

/* Remove the whole directory, and the domain's if it is empty then. */
void backend_remove(struct store *store, struct backend *backend);
