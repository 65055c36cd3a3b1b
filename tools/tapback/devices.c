/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three kinds of watches: the backend tree, the end of domains, and each
 * frontend's state, whose token is its device's number.
 */
#include "tools/tapback/devices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "poll/clock.h"
#include "tools/tapback/keys.h"

#define EVENTS_PER_TURN 256 /* then the others have their turn */
#define PULSE (60 * CLOCK_SECOND)

static const char tree_token[] = "backend";
static const char domain_token[] = "domain";

struct devices {
	const struct device_env *env;
	struct devices_owner owner;
	uint32_t only;
	char root[128]; /* /local/domain/BE/backend/NAME */
	char tree[160]; /* the part of it that we serve */
	bool watches_tree, watches_domains;
	struct loop_watch events;
	struct loop_defer more;
	struct loop_timer pulse;
	struct device *first;
};

/* What the toolstack writes and we read; the rest is mostly our own. */
static const char *const keys[] = {
	"",
	"frontend",
	"state",
	"online",
	"mode",
	"hotplug-status",
	"physical-device-path",
	"physical-device",
	"polling-duration",
	"polling-idle-threshold",
};

static bool matters(const char *key)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

struct device *devices_find(struct devices *devices, uint32_t domid,
			    uint32_t devid)
{
	struct device *device = devices->first;

	while (device && (device->domid != domid || device->devid != devid))
		device = device->next;
	return device;
}

static void gone(void *arg, struct device *device)
{
	struct devices *devices = arg;
	struct device **at = &devices->first;

	while (*at != device)
		at = &(*at)->next;
	*at = device->next;
	log_info("%s: gone", device->backend.dir);
	device_destroy(device);
	if (!devices->first && devices->only != DEVICES_ALL &&
	    devices->owner.left)
		devices->owner.left(devices->owner.arg);
}

/* Something of this device may have changed: it may be new, too. */
static void touch(struct devices *devices, uint32_t domid, uint32_t devid)
{
	struct device *device = devices_find(devices, domid, devid);
	char path[192], value[STORE_VALUE_MAX];
	int err;

	if (device) {
		device_poke(device, DEVICE_BACKEND);
		return;
	}
	snprintf(path, sizeof(path), "%s/%" PRIu32 "/%" PRIu32, devices->root,
		 domid, devid);
	/* what is just going away is not new */
	if (store_get(devices->env->store, STORE_NO_TX, path, "frontend",
		      value) < 0)
		return;
	err = device_create(devices->env, domid, devid, gone, devices, &device);
	if (err < 0) {
		log_err("%s: %s", path, strerror(-err));
		return;
	}
	device->next = devices->first;
	devices->first = device;
}

static void poke_all(struct devices *devices, uint32_t domid, unsigned what)
{
	struct device *device = devices->first;

	for (; device; device = device->next)
		if (domid == DEVICES_ALL || device->domid == domid)
			device_poke(device, what);
}

static void scan_domain(struct devices *devices, uint32_t domid)
{
	struct store *store = devices->env->store;
	char path[192], **names;
	uint32_t devid;
	unsigned n;

	poke_all(devices, domid, DEVICE_BACKEND);
	snprintf(path, sizeof(path), "%s/%" PRIu32, devices->root, domid);
	if (store->ops->list(store, STORE_NO_TX, path, &names, &n) < 0)
		return;
	for (unsigned i = 0; i < n; i++)
		if (keys_u32(names[i], 0, UINT32_MAX, &devid) == 0)
			touch(devices, domid, devid);
	free(names);
}

static void scan(struct devices *devices)
{
	struct store *store = devices->env->store;
	char **names;
	uint32_t domid;
	unsigned n;

	poke_all(devices, DEVICES_ALL, DEVICE_BACKEND);
	if (store->ops->list(store, STORE_NO_TX, devices->root, &names, &n) < 0)
		return;
	for (unsigned i = 0; i < n; i++)
		if (keys_u32(names[i], 0, UINT32_MAX - 1, &domid) == 0)
			scan_domain(devices, domid);
	free(names);
}

/*
 * The part of @path up to the next slash as a number; *rest is what follows
 * the slash.  -EINVAL.
 */
static int split(const char *path, uint32_t *out, const char **rest)
{
	const char *end = strchrnul(path, '/');
	char part[16];

	if ((size_t)(end - path) >= sizeof(part))
		return -EINVAL;
	memcpy(part, path, (size_t)(end - path));
	part[end - path] = '\0';
	*rest = *end ? end + 1 : end;
	return keys_u32(part, 0, UINT32_MAX - 1, out) < 0 ? -EINVAL : 0;
}

static void tree_event(struct devices *devices, const char *path)
{
	size_t len = strlen(devices->root);
	uint32_t domid, devid;
	const char *rest;

	if (strncmp(path, devices->root, len) ||
	    (path[len] && path[len] != '/')) {
		scan(devices); /* something above it was removed */
		return;
	}
	path += len + (path[len] == '/');
	if (!*path) {
		if (devices->only == DEVICES_ALL)
			scan(devices);
		else
			scan_domain(devices, devices->only);
		return;
	}
	if (split(path, &domid, &rest) < 0 ||
	    (devices->only != DEVICES_ALL && devices->only != domid))
		return;
	if (!*rest) {
		scan_domain(devices, domid);
		return;
	}
	if (split(rest, &devid, &rest) < 0 || !matters(rest))
		return;
	touch(devices, domid, devid);
}

static void front_event(struct devices *devices, const char *token)
{
	struct device *device;
	uint32_t domid, devid;
	const char *rest;

	if (split(token, &domid, &rest) < 0 || split(rest, &devid, &rest) < 0)
		return;
	device = devices_find(devices, domid, devid);
	if (device)
		device_poke(device, DEVICE_FRONTEND);
}

static void take(struct devices *devices, const struct store_event *event)
{
	if (!strcmp(event->token, tree_token))
		tree_event(devices, event->path);
	else if (!strcmp(event->token, domain_token))
		poke_all(devices, DEVICES_ALL, DEVICE_DOMAIN);
	else
		front_event(devices, event->token);
}

static void lost(struct devices *devices, int err)
{
	log_err("xenstore: %s", strerror(-err));
	loop_unwatch(devices->env->loop, &devices->events);
	loop_timer_clear(devices->env->loop, &devices->pulse);
	if (devices->owner.lost)
		devices->owner.lost(devices->owner.arg, err);
}

/* No descriptor tells that xenstored has died: only calls do. */
static void feel_pulse(void *arg)
{
	struct devices *devices = arg;
	struct store *store = devices->env->store;
	char value[STORE_VALUE_MAX];
	int ret;

	loop_timer_set(devices->env->loop, &devices->pulse, PULSE);
	ret = store->ops->read(store, STORE_NO_TX, devices->root, value,
			       sizeof(value));
	if (ret < 0 && ret != -ENOENT && ret != -EAGAIN)
		lost(devices, ret);
}

/* libxenstore may have queued what its descriptor does not tell about. */
static void take_some(void *arg)
{
	struct devices *devices = arg;
	struct store *store = devices->env->store;
	struct store_event event;
	int ret = 0;

	for (int i = 0; i < EVENTS_PER_TURN; i++) {
		ret = store->ops->next(store, &event);
		if (ret <= 0)
			break;
		take(devices, &event);
	}
	if (ret == 1)
		loop_defer(devices->env->loop, &devices->more);
	if (ret < 0)
		lost(devices, ret);
}

static void events_ready(void *arg, uint32_t events)
{
	(void)events;
	take_some(arg);
}

static int start_watching(struct devices *devices)
{
	struct store *store = devices->env->store;
	int err;

	devices->events.fn = events_ready;
	devices->events.arg = devices;
	devices->more.fn = take_some;
	devices->more.arg = devices;
	devices->pulse.fn = feel_pulse;
	devices->pulse.arg = devices;
	loop_timer_set(devices->env->loop, &devices->pulse, PULSE);
	err = store->ops->watch(store, "@releaseDomain", domain_token);
	if (err < 0) {
		log_err("xenstore: watch @releaseDomain: %s", strerror(-err));
		return err;
	}
	devices->watches_domains = true;
	/* its first event finds what is there already */
	err = store->ops->watch(store, devices->tree, tree_token);
	if (err < 0) {
		log_err("xenstore: watch %s: %s", devices->tree,
			strerror(-err));
		return err;
	}
	devices->watches_tree = true;
	devices->events.fd = store->ops->fd(store);
	err = loop_watch(devices->env->loop, &devices->events, EPOLLIN);
	if (err < 0)
		log_err("xenstore: %s", strerror(-err));
	return err;
}

int devices_open(const struct device_env *env, uint32_t only,
		 const struct devices_owner *owner, struct devices **out)
{
	struct devices *devices = calloc(1, sizeof(*devices));
	int err;

	if (!devices)
		return -ENOMEM;
	devices->env = env;
	devices->only = only;
	devices->owner = *owner;
	devices->events.fd = -1;
	snprintf(devices->root, sizeof(devices->root),
		 "/local/domain/%" PRIu32 "/backend/%s", env->self, env->name);
	if (only == DEVICES_ALL)
		snprintf(devices->tree, sizeof(devices->tree), "%s",
			 devices->root);
	else
		snprintf(devices->tree, sizeof(devices->tree), "%s/%" PRIu32,
			 devices->root, only);
	err = start_watching(devices);
	if (err < 0) {
		devices_close(devices);
		return err;
	}
	*out = devices;
	return 0;
}

void devices_close(struct devices *devices)
{
	struct store *store = devices->env->store;
	struct device *device;

	while ((device = devices->first)) {
		devices->first = device->next;
		device_destroy(device);
	}
	if (devices->watches_tree)
		store->ops->unwatch(store, devices->tree, tree_token);
	if (devices->watches_domains)
		store->ops->unwatch(store, "@releaseDomain", domain_token);
	loop_unwatch(devices->env->loop, &devices->events);
	loop_defer_cancel(devices->env->loop, &devices->more);
	loop_timer_clear(devices->env->loop, &devices->pulse);
	free(devices);
}
