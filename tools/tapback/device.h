/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One device: brings its three parties together, the frontend, the toolstack
 * and the tapdisk.  The file to read first after device_state.c.
 *
 * A device is poked when something of it may have changed, any number of times;
 * in its next turn of the loop it looks, once, and acts.  It never waits.
 * Logs: what went wrong, rate-limited, and where a guest was connected.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/log.h"
#include "poll/loop.h"
#include "tools/tapback/backend.h"
#include "tools/tapback/device_state.h"
#include "tools/tapback/domains.h"
#include "tools/tapback/frontend.h"
#include "tools/tapback/store.h"
#include "tools/tapback/tap.h"

/* What all devices share. */
struct device_env {
	struct loop *loop;
	struct store *store;
	struct domains *domains; /* NULL: nobody tells who is dead */
	uint32_t self; /* our domain */
	const char *name; /* "vbd3" */
	bool barrier; /* may be offered */
	bool verbose; /* each change of state on stderr */
	uint64_t timeout_ms; /* of each call to a tapdisk */
	const char *guest; /* what a tapdisk is told to map: "xen" */
};

enum {
	DEVICE_LOOK = 1, /* at what was read last */
	DEVICE_FRONTEND = 2, /* the frontend wrote its state */
	DEVICE_BACKEND = 4, /* the toolstack wrote something */
	DEVICE_DOMAIN = 8, /* some domain died */
};

struct device {
	struct device *next; /* the owner's */
	uint32_t domid, devid;
	enum device_state state;

	/* device's own */
	const struct device_env *env;
	void (*gone)(void *arg, struct device *device);
	void *arg;
	struct backend backend;
	struct tap tap;
	unsigned dirty;
	struct loop_defer turn;
	struct loop_timer rest; /* between attempts */
	unsigned rest_ms;

	int front; /* frontend_state's, as last read */
	bool front_seen; /* it was there */
	bool dead; /* its domain */
	bool missed; /* the frontend wrote its state while we connected */
	char watched[STORE_VALUE_MAX + 8]; /* its state's path, or empty */
	char token[32];

	int shown; /* the XenbusState, or BACKEND_NO_STATE */
	bool show_again; /* it could not be written */
	bool ask_again; /* the tapdisk has news */
	bool asked_to_serve; /* ring: a tapdisk may have it */
	struct frontend_keys ring;
	bool polls; /* as in force: */
	struct tap_polling polling;
	int tap_err; /* said last */
	struct log_limit limit;
};

/*
 * A device that takes its first look in the next turn.  @gone is called from
 * the loop when it has ceased to be.  -ENOMEM.
 */
int device_create(const struct device_env *env, uint32_t domid, uint32_t devid,
		  void (*gone)(void *arg, struct device *device), void *arg,
		  struct device **out);

/* Also one that is in use: its ring is left to its tapdisk. */
void device_destroy(struct device *device);

/* @what: DEVICE_LOOK... */
void device_poke(struct device *device, unsigned what);
