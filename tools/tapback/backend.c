/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading is lenient towards what is not there yet, since a toolstack may
 * write key by key and in any order, and strict towards what is there.
 */
#include "tools/tapback/backend.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xen/io/xenbus.h>
#include "poll/granularity.h"
#include "tools/tapback/keys.h"
#include "tools/tapback/marker.h"

#define ATTEMPTS 16 /* at a transaction that others interfere with */
#define SECTOR 512

void backend_init(struct backend *backend, uint32_t self, const char *name,
		  uint32_t domid, uint32_t devid)
{
	memset(backend, 0, sizeof(*backend));
	snprintf(backend->dir, sizeof(backend->dir),
		 "/local/domain/%" PRIu32 "/backend/%s/%" PRIu32 "/%" PRIu32,
		 self, name, domid, devid);
	snprintf(backend->error_dir, sizeof(backend->error_dir),
		 "/local/domain/%" PRIu32 "/error/backend/%s/%" PRIu32
		 "/%" PRIu32,
		 self, name, domid, devid);
	backend->domid = domid;
	backend->devid = devid;
	backend->state = BACKEND_NO_STATE;
}

static void complain(struct backend *backend, const char *key,
		     const char *value, const char *why)
{
	if (log_allow(&backend->limit, backend->dir))
		log_warn("%s/%s: \"%s\": %s", backend->dir, key, value, why);
}

/* 1; 0 if the key is missing, empty or cannot be text; -errno. */
static int get(struct store *store, uint32_t tx, struct backend *backend,
	       const char *key, char text[STORE_VALUE_MAX])
{
	int ret = store_get(store, tx, backend->dir, key, text);

	if (ret == -EINVAL || ret == -E2BIG)
		complain(backend, key, "", strerror(-ret));
	if (ret == -EINVAL || ret == -E2BIG || ret == -ENOENT)
		return 0;
	return ret < 0 ? ret : ret > 0;
}

/* Names a tapdisk; empty values are missing ones. */
static int read_tapdisk(struct store *store, uint32_t tx, struct backend *now)
{
	char text[STORE_VALUE_MAX];
	int ret;

	now->pid = 0;
	ret = get(store, tx, now, "physical-device-path", text);
	if (ret < 0)
		return ret;
	if (ret == 1) {
		if (keys_device_path(text, &now->pid, &now->minor) < 0)
			complain(now, "physical-device-path", text,
				 "not a disk of a tapdisk");
		return 0;
	}
	ret = get(store, tx, now, "physical-device", text);
	if (ret <= 0)
		return ret;
	if (keys_device_numbers(text, &now->minor) < 0) {
		complain(now, "physical-device", text,
			 "not a disk of a tapdisk");
		return 0;
	}
	ret = marker_owner(now->minor);
	if (ret < 0)
		complain(now, "physical-device", text, "no tapdisk has it");
	else
		now->pid = ret;
	return 0;
}

static int read_number(struct store *store, uint32_t tx, struct backend *now,
		       const char *key, uint32_t max, uint32_t *out)
{
	char text[STORE_VALUE_MAX];
	uint64_t n;
	int ret;

	ret = get(store, tx, now, key, text);
	if (ret < 0)
		return ret;
	if (ret == 0) {
		*out = 0;
	} else if (keys_number(text, 0, UINT64_MAX, &n) < 0) {
		/* keep what is in force */
		complain(now, key, text, "not a number");
	} else {
		if (n > max)
			complain(now, key, text, "too much, bent into range");
		*out = n > max ? max : (uint32_t)n;
	}
	return 0;
}

static int read_polling(struct store *store, uint32_t tx, struct backend *now)
{
	uint32_t threshold = now->polling.idle_threshold;
	int ret;

	ret = read_number(store, tx, now, "polling-duration",
			  GRANULARITY_WINDOW_MAX_US, &now->polling.duration_us);
	if (ret == 0)
		ret = read_number(store, tx, now, "polling-idle-threshold", 100,
				  &threshold);
	now->polling.idle_threshold = (uint8_t)threshold;
	return ret;
}

static int read_mode(struct store *store, uint32_t tx, struct backend *now)
{
	char text[STORE_VALUE_MAX];
	int ret = get(store, tx, now, "mode", text);

	if (ret < 0)
		return ret;
	now->writable = ret == 1 && !strcmp(text, "w");
	now->mode_err = ret == 0			      ? -ENOENT
			: now->writable || !strcmp(text, "r") ? 0
							      : -EINVAL;
	return 0;
}

static int read_states(struct store *store, uint32_t tx, struct backend *now)
{
	char text[STORE_VALUE_MAX];
	uint32_t state;
	bool online;
	int ret;

	ret = get(store, tx, now, "state", text);
	if (ret < 0)
		return ret;
	now->state = BACKEND_NO_STATE;
	if (ret == 1 && keys_u32(text, XenbusStateUnknown,
				 XenbusStateReconfigured, &state) == 0)
		now->state = (int)state;

	ret = get(store, tx, now, "online", text);
	if (ret < 0)
		return ret;
	now->online = ret == 0 || keys_bool(text, &online) < 0 || online;

	ret = get(store, tx, now, "hotplug-status", text);
	if (ret < 0)
		return ret;
	now->connected = ret == 1 && !strcmp(text, "connected");
	if (ret == 1 && !now->connected)
		complain(now, "hotplug-status", text, "not \"connected\"");
	return 0;
}

static int read_all(struct store *store, uint32_t tx, struct backend *now)
{
	int ret;

	ret = get(store, tx, now, "frontend", now->frontend);
	now->exists = ret == 1 && now->frontend[0] == '/';
	if (ret < 0 || !now->exists)
		return ret < 0 ? ret : 0;
	ret = read_states(store, tx, now);
	if (ret == 0)
		ret = read_mode(store, tx, now);
	if (ret == 0)
		ret = read_tapdisk(store, tx, now);
	if (ret == 0)
		ret = read_polling(store, tx, now);
	return ret;
}

int backend_read(struct store *store, struct backend *backend)
{
	struct backend now = *backend;
	uint32_t tx;
	int err;

	err = store->ops->begin(store, &tx);
	if (err < 0)
		return err;
	err = read_all(store, tx, &now);
	store->ops->end(store, tx, false);
	if (err == 0)
		*backend = now;
	return err;
}

static int put_discard(struct store *store, uint32_t tx, const char *dir,
		       const struct hello *disk)
{
	int err;

	if (!disk->discard) {
		/* both or none */
		err = store_put(store, tx, dir, "discard-granularity", NULL);
		if (err == 0)
			err = store_put(store, tx, dir, "discard-alignment",
					NULL);
	} else {
		err = store_put_number(store, tx, dir, "discard-granularity",
				       disk->discard_granularity);
		if (err == 0)
			err = store_put_number(store, tx, dir,
					       "discard-alignment", 0);
	}
	if (err == 0)
		err = store_put_number(store, tx, dir, "feature-discard",
				       disk->discard);
	return err;
}

static int put_disk(struct store *store, uint32_t tx, const char *dir,
		    const struct backend_offer *offer)
{
	const struct hello *disk = offer->disk;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "max-ring-page-order", disk->ring_order_max },
		{ "feature-flush-cache", disk->flush },
		{ "feature-barrier", disk->barrier && offer->barrier },
		{ "feature-persistent", 0 },
		/* whatever the medium: some frontends scale by it */
		{ "sector-size", SECTOR },
		{ "physical-sector-size", disk->physical_sector_size },
		{ "sectors", disk->sectors },
		{ "info", offer->info },
		{ "kthread-pid", (uint64_t)offer->pid },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		err = store_put_number(store, tx, dir, numbers[i].key,
				       numbers[i].value);
		if (err < 0)
			return err;
	}
	return put_discard(store, tx, dir, disk);
}

/* Whether the toolstack asked, after what we showed last, to close it. */
static bool asked_to_close(int state, const struct backend_offer *offer)
{
	return state == XenbusStateClosing &&
	       offer->shown != XenbusStateClosing &&
	       offer->state < XenbusStateClosing;
}

static int write_offer(struct store *store, uint32_t tx,
		       struct backend *backend,
		       const struct backend_offer *offer)
{
	char text[STORE_VALUE_MAX], sectors[24];
	char path[sizeof(backend->dir) + 8];
	int err, state;
	bool resized = false;

	err = store_get(store, tx, backend->dir, "frontend", text);
	if (err < 0)
		return err;
	err = read_states(store, tx, backend);
	if (err < 0)
		return err;
	state = backend->state;
	if (asked_to_close(state, offer))
		return -ECANCELED;
	if (offer->disk) {
		snprintf(sectors, sizeof(sectors), "%" PRIu64,
			 offer->disk->sectors);
		resized = store_get(store, tx, backend->dir, "sectors", text) >=
				  0 &&
			  strcmp(text, sectors);
		err = put_disk(store, tx, backend->dir, offer);
		if (err < 0)
			return err;
	}
	if (state == offer->state &&
	    !(resized && state == XenbusStateConnected))
		return 0;
	snprintf(path, sizeof(path), "%s/state", backend->dir);
	snprintf(text, sizeof(text), "%d", offer->state);
	err = store->ops->write(store, tx, path, text);
	if (err == 0)
		backend->state = offer->state;
	return err;
}

int backend_offer(struct store *store, struct backend *backend,
		  const struct backend_offer *offer)
{
	uint32_t tx;
	int err = -EAGAIN;

	for (int i = 0; i < ATTEMPTS && err == -EAGAIN; i++) {
		err = store->ops->begin(store, &tx);
		if (err < 0)
			return err;
		err = write_offer(store, tx, backend, offer);
		if (err < 0)
			store->ops->end(store, tx, false);
		else
			err = store->ops->end(store, tx, true);
	}
	return err;
}

void backend_set_error(struct store *store, const struct backend *backend,
		       int err, const char *what)
{
	char text[STORE_VALUE_MAX];

	snprintf(text, sizeof(text), "%d %s", -err, what);
	/* an error about an error helps nobody */
	store_put(store, STORE_NO_TX, backend->error_dir, "error", text);
}

/* And the directory above if nothing is left in it. */
static void remove_with_parent(struct store *store, const char *dir)
{
	char parent[STORE_PATH_MAX];
	char **names;
	unsigned n;

	store->ops->remove(store, STORE_NO_TX, dir);
	snprintf(parent, sizeof(parent), "%s", dir);
	*strrchr(parent, '/') = '\0';
	if (store->ops->list(store, STORE_NO_TX, parent, &names, &n) < 0)
		return;
	free(names);
	if (n == 0)
		store->ops->remove(store, STORE_NO_TX, parent);
}

void backend_clear_error(struct store *store, const struct backend *backend)
{
	char text[STORE_VALUE_MAX];

	if (store_get(store, STORE_NO_TX, backend->error_dir, "error", text) !=
	    -ENOENT)
		remove_with_parent(store, backend->error_dir);
}

void backend_remove(struct store *store, struct backend *backend)
{
	remove_with_parent(store, backend->dir);
}
