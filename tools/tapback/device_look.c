/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From xenstore to one event.  It is the present that counts: what was there
 * between two looks is not known, and must not matter.
 */
#include "tools/tapback/device_look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xen/io/xenbus.h>
#include "tools/tapback/device_say.h"

static bool is_ready_front(const struct device *device)
{
	return device->front == XenbusStateInitialised ||
	       device->front == XenbusStateConnected;
}

static int watch_front(struct device *device)
{
	struct store *store = device->env->store;
	char path[sizeof(device->watched)];
	int err;

	snprintf(path, sizeof(path), "%s/state", device->backend.frontend);
	if (!strcmp(path, device->watched))
		return 0;
	if (device->watched[0])
		store->ops->unwatch(store, device->watched, device->token);
	device->watched[0] = '\0';
	err = store->ops->watch(store, path, device->token);
	if (err == 0)
		memcpy(device->watched, path, sizeof(path));
	return err;
}

static int look_at_backend(struct device *device)
{
	struct backend *backend = &device->backend;
	int err;

	err = backend_read(device->env->store, backend);
	if (err < 0)
		return err;
	if (!backend->exists) {
		device->front_seen = false;
		return 0;
	}
	if (device->polling.duration_us != backend->polling.duration_us ||
	    device->polling.idle_threshold != backend->polling.idle_threshold)
		device->polls = false;
	/* The first look, and perhaps not the first tapback. */
	if (device->shown == BACKEND_NO_STATE &&
	    backend->state >= XenbusStateInitWait)
		device->front_seen = true;
	return watch_front(device);
}

static int look_at_frontend(struct device *device, bool wrote)
{
	int err;

	err = frontend_state(device->env->store, device->backend.frontend,
			     &device->front);
	if (err < 0)
		return err;
	if (device->front != FRONTEND_ABSENT)
		device->front_seen = true;
	if (wrote && (device->front == FRONTEND_JUNK ||
		      device->front == XenbusStateInitWait ||
		      device->front > XenbusStateClosed))
		device_say_fault(device, -EINVAL, "state");
	return 0;
}

int device_look(struct device *device, unsigned dirty)
{
	const struct device_env *env = device->env;
	int err;

	if (dirty & DEVICE_DOMAIN && env->domains && device->domid != env->self)
		device->dead = env->domains->dead(env->domains, device->domid);
	if (dirty & DEVICE_BACKEND) {
		err = look_at_backend(device);
		if (err < 0)
			return err;
	}
	if (!device->backend.exists || !(dirty & ~(unsigned)DEVICE_LOOK))
		return 0;
	return look_at_frontend(device, dirty & DEVICE_FRONTEND);
}

/* The frontend is ready: is it still about the ring that we know? */
static enum device_event ready_event(struct device *device, bool wrote)
{
	struct frontend_keys keys;

	if (device->state == DEVICE_CONNECTING) {
		device->missed |= wrote;
		return DEVICE_NOTHING;
	}
	if (device->state == DEVICE_CLOSING)
		return wrote ? DEVICE_FE_RENEWED : DEVICE_NOTHING;
	if (device->state != DEVICE_CONNECTED)
		return DEVICE_FE_READY;
	if (!wrote ||
	    frontend_read(device->env->store, device->backend.frontend,
			  device->tap.disk.ring_order_max, &keys) < 0 ||
	    frontend_same_ring(&device->ring, &keys))
		return DEVICE_NOTHING;
	return DEVICE_FE_RENEWED;
}

/* The toolstack wants it closed.  What we wrote ourselves says nothing. */
static bool is_unplugged(const struct device *device)
{
	const struct backend *backend = &device->backend;

	if (backend->state == XenbusStateClosing &&
	    device->shown != XenbusStateClosing)
		return true;
	/* of a connected one it is said by the state */
	return !backend->online &&
	       (!is_ready_front(device) || device->shown == XenbusStateClosing);
}

/* To begin with a tapdisk, there has to be one. */
static bool can_begin(const struct device *device)
{
	return device->backend.connected && device->backend.pid &&
	       !device->rest.armed;
}

static bool is_beginning(enum device_state state)
{
	return state == DEVICE_UNKNOWN || state == DEVICE_IDLE ||
	       state == DEVICE_WAITING || state == DEVICE_CLOSED;
}

static enum device_event front_event(struct device *device, bool wrote)
{
	if (is_beginning(device->state) && !can_begin(device))
		return DEVICE_NOTHING;
	if (is_ready_front(device))
		return ready_event(device, wrote);
	if (device->front == XenbusStateInitialising)
		return DEVICE_FE_INITIALISING;
	return DEVICE_NOTHING;
}

enum device_event device_look_event(struct device *device, unsigned dirty)
{
	if (!device->backend.exists)
		return device->tap.call == TAP_DISCONNECT ? DEVICE_NOTHING
							  : DEVICE_REMOVED;
	if (device->dead || device->front == XenbusStateClosed ||
	    (device->front == FRONTEND_ABSENT && device->front_seen))
		return DEVICE_FE_CLOSED;
	if (device->front == XenbusStateClosing)
		return DEVICE_FE_CLOSING;
	if (is_unplugged(device))
		return is_ready_front(device) ? DEVICE_UNPLUGGED
					      : DEVICE_FE_CLOSED;
	return front_event(device, dirty & DEVICE_FRONTEND);
}
