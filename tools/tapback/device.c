/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Look, make an event of what is seen, do what the table says, then whatever
 * is left to do in that state.
 */
#include "tools/tapback/device.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xen/xen.h>
#include <xen/io/blkif.h>
#include <xen/io/xenbus.h>
#include "tools/tapback/device_look.h"
#include "tools/tapback/device_say.h"

#define MS UINT64_C(1000000)
#define REST_MIN_MS 100
#define REST_MAX_MS 10000

static void happened(struct device *device, enum device_event event);

/* --- resting between attempts */

static void rest(struct device *device)
{
	if (device->rest.armed)
		return;
	device->rest_ms = device->rest_ms ? 2 * device->rest_ms : REST_MIN_MS;
	if (device->rest_ms > REST_MAX_MS)
		device->rest_ms = REST_MAX_MS;
	loop_timer_set(device->env->loop, &device->rest, device->rest_ms * MS);
}

static void rested(void *arg)
{
	struct device *device = arg;

	happened(device, DEVICE_RESTED);
	device_poke(device, DEVICE_LOOK);
}

static void end_rest(struct device *device)
{
	device->rest_ms = 0;
	loop_timer_clear(device->env->loop, &device->rest);
}

/* --- showing */

static uint32_t info(const struct device *device, bool cdrom)
{
	uint32_t bits = device->tap.disk.info;

	if (cdrom)
		bits |= VDISK_CDROM;
	if (!device->backend.writable)
		bits |= VDISK_READONLY;
	return bits;
}

static void show(struct device *device)
{
	const struct device_env *env = device->env;
	struct backend_offer offer = {
		.state = device_state_shows(device->state),
		.shown = device->shown,
		.barrier = env->barrier && device->backend.writable,
		.pid = device->tap.pid,
	};
	struct hello disk = device->tap.disk;
	struct frontend_keys keys;
	int err;

	if (offer.state < XenbusStateClosing) {
		/* of an early or wrong frontend this much is known */
		frontend_read(env->store, device->backend.frontend, 0, &keys);
		offer.info = info(device, keys.cdrom);
		disk.discard &= device->backend.writable;
		offer.disk = &disk;
	}
	device->show_again = false;
	err = backend_offer(env->store, &device->backend, &offer);
	if (err == 0) {
		device->shown = offer.state;
		return;
	}
	if (err == -ENOENT || err == -ECANCELED) {
		device_poke(device, DEVICE_BACKEND);
		return;
	}
	if (device_say_allowed(device))
		log_warn("%s: state %d: %s", device->backend.dir, offer.state,
			 strerror(-err));
	device->show_again = true;
	rest(device);
}

/* --- doing what a state is there for */

static void ask(struct device *device)
{
	tap_point(&device->tap, device->backend.pid, device->backend.minor);
	tap_ask(&device->tap);
}

static void connect_ring(struct device *device)
{
	struct frontend_keys keys;
	int err;

	device->missed = false;
	if (device->backend.mode_err < 0) {
		device_say_fault(device, device->backend.mode_err, "mode");
		happened(device, DEVICE_REFUSED);
		return;
	}
	err = frontend_read(device->env->store, device->backend.frontend,
			    device->tap.disk.ring_order_max, &keys);
	if (err < 0) {
		device_say_fault(device, err, keys.why);
		happened(device, DEVICE_REFUSED);
		return;
	}
	/* an earlier call may have been heard, though we were not answered */
	if (device->asked_to_serve &&
	    !frontend_same_ring(&device->ring, &keys)) {
		happened(device, DEVICE_STALE);
		return;
	}
	device->ring = keys;
	device->asked_to_serve = true;
	device->polling = device->backend.polling;
	tap_connect(&device->tap, &keys, &device->polling);
}

static void disconnect_ring(struct device *device)
{
	/* what we rested from does not matter any more */
	loop_timer_clear(device->env->loop, &device->rest);
	if (!device->tap.pid)
		tap_point(&device->tap, device->backend.pid,
			  device->backend.minor);
	if (device->tap.pid)
		tap_disconnect(&device->tap);
	else
		happened(device, DEVICE_DISCONNECTED);
}

static void connected(struct device *device)
{
	show(device);
	backend_clear_error(device->env->store, &device->backend);
	if (device_say_allowed(device))
		log_info("%s: connected to tapdisk %d, minor %u%s",
			 device->backend.dir, device->tap.pid,
			 device->tap.minor,
			 device->tap.ours ? "" : ", which is a stock one");
	if (device->missed)
		device_poke(device, DEVICE_FRONTEND);
}

static void closed(struct device *device)
{
	if (device->backend.state != XenbusStateClosed ||
	    device->shown != XenbusStateClosed)
		show(device);
	/* nobody else may be left to do it */
	if (device->dead && device->front == FRONTEND_ABSENT)
		backend_remove(device->env->store, &device->backend);
}

static void enter(struct device *device)
{
	switch (device->state) {
	case DEVICE_IDLE:
		device->asked_to_serve = false;
		device_poke(device, DEVICE_LOOK);
		break;
	case DEVICE_ASKING:
	case DEVICE_PREPARING:
		ask(device);
		break;
	case DEVICE_WAITING:
		show(device);
		device_poke(device, DEVICE_LOOK);
		break;
	case DEVICE_CONNECTING:
		connect_ring(device);
		break;
	case DEVICE_CONNECTED:
		connected(device);
		device_poke(device, DEVICE_LOOK);
		break;
	case DEVICE_CLOSING:
		show(device);
		if (device->missed)
			device_poke(device, DEVICE_FRONTEND);
		break;
	case DEVICE_DISCONNECTING:
		disconnect_ring(device);
		break;
	case DEVICE_CLOSED:
		closed(device);
		break;
	default:
		device_poke(device, DEVICE_LOOK);
	}
}

static void happened(struct device *device, enum device_event event)
{
	enum device_state next = device_state_next(device->state, event);

	if (next == DEVICE_NONE)
		return;
	if (next != device->state && device->env->verbose)
		log_debug("%s: %s, then %s", device->backend.dir,
			  device_state_name(device->state),
			  device_state_name(next));
	/* An answer that nobody waits for any more. */
	if (device->tap.call == TAP_ASK || device->tap.call == TAP_POLL)
		tap_cancel(&device->tap);
	device->show_again = false;
	device->state = next;
	enter(device);
}

/* --- what became of calls */

static void recovered(struct device *device)
{
	device->tap_err = 0;
	end_rest(device);
}

static void asked(struct device *device, int err)
{
	bool again = device->state == DEVICE_WAITING ||
		     device->state == DEVICE_CONNECTED;

	if (err == 0) {
		/* of a connect, the worse half is still to come */
		if (device->state != DEVICE_PREPARING)
			recovered(device);
		if (again)
			show(device); /* perhaps of another size */
		else
			happened(device, DEVICE_ASKED);
		return;
	}
	device_say_trouble(device, "what it can", err);
	if (again && tap_is_gone(err)) {
		happened(device, DEVICE_LOST);
		return;
	}
	rest(device);
	device->ask_again |= again;
	happened(device, DEVICE_FAILED);
}

/* A refusal that will pass, whatever the frontend does. */
static bool is_passing(int err)
{
	return err == -EBUSY || err == -EAGAIN || err == -ENOMEM ||
	       err == -ENODEV || err == -ESHUTDOWN || err == -EINTR;
}

static void served(struct device *device, int err)
{
	if (err == 0 || err == -EALREADY) {
		recovered(device);
		/* it was connected with the polling of another time */
		device->polls = err == 0;
		happened(device, DEVICE_SERVED);
	} else if (device->tap.refused && !is_passing(err)) {
		device->asked_to_serve = false;
		device_say_fault(device, err, "connect");
		happened(device, DEVICE_REFUSED);
	} else {
		device_say_trouble(device, "connect", err);
		rest(device);
		happened(device, DEVICE_FAILED);
	}
}

static void disconnected(struct device *device, int err)
{
	if (err == 0) {
		recovered(device);
		happened(device, DEVICE_DISCONNECTED);
		return;
	}
	device_say_trouble(device, "disconnect", err);
	rest(device);
}

static void polled(struct device *device, int err)
{
	if (err < 0 && !device->tap.refused) {
		device_say_trouble(device, "polling", err);
		rest(device);
		return;
	}
	if (err < 0 && device_say_allowed(device))
		log_warn("%s: tapdisk %d: polling: %s", device->backend.dir,
			 device->tap.pid, strerror(-err));
	device->polls = true; /* as said, or as well as it can */
}

static void tap_done(void *arg, enum tap_call call, int err)
{
	struct device *device = arg;

	switch (call) {
	case TAP_ASK:
		asked(device, err);
		break;
	case TAP_CONNECT:
		served(device, err);
		break;
	case TAP_DISCONNECT:
		disconnected(device, err);
		break;
	case TAP_POLL:
		polled(device, err);
		break;
	case TAP_NONE:
		break;
	}
	device_poke(device, DEVICE_LOOK);
}

static void tap_told(void *arg, enum tap_event event)
{
	struct device *device = arg;

	if (event == TAP_RING_BROKEN)
		device_say_fault(device, -EPROTO, "ring");
	else
		device->ask_again = true;
	device_poke(device, DEVICE_LOOK);
}

/* --- a turn */

/* What is left to do where nothing else happens. */
static void work(struct device *device)
{
	bool is_connected = device->state == DEVICE_CONNECTED;

	if (device->rest.armed)
		return;
	if (device->show_again)
		show(device);
	if (device->tap.call != TAP_NONE ||
	    !(is_connected || device->state == DEVICE_WAITING))
		return;
	if (device->ask_again) {
		device->ask_again = false;
		tap_ask(&device->tap);
	} else if (is_connected && !device->polls) {
		device->polling = device->backend.polling;
		device->polls = true;
		if (device->tap.ours)
			tap_poll(&device->tap, &device->polling);
		else if (device_say_allowed(device))
			log_warn("%s: a stock tapdisk takes another polling "
				 "when the guest connects again",
				 device->backend.dir);
	}
}

/* Whom we wait for may have been replaced meanwhile. */
static int look(struct device *device, unsigned dirty)
{
	const struct backend *backend = &device->backend;
	int pid = backend->pid, minor = backend->minor, err;

	err = device_look(device, dirty);
	if ((pid != backend->pid || minor != backend->minor) &&
	    device->state != DEVICE_DISCONNECTING)
		end_rest(device);
	return err;
}

static void turn(void *arg)
{
	struct device *device = arg;
	unsigned dirty = device->dirty;
	int err;

	device->dirty = 0;
	err = look(device, dirty);
	if (err < 0) {
		if (device_say_allowed(device))
			log_err("%s: xenstore: %s", device->backend.dir,
				strerror(-err));
		device->dirty = dirty; /* when rested */
		rest(device);
		return;
	}
	happened(device, device_look_event(device, dirty));
	if (device->state == DEVICE_GONE) {
		backend_clear_error(device->env->store, &device->backend);
		device->gone(device->arg, device);
		return;
	}
	work(device);
}

void device_poke(struct device *device, unsigned what)
{
	device->dirty |= what;
	loop_defer(device->env->loop, &device->turn);
}

int device_create(const struct device_env *env, uint32_t domid, uint32_t devid,
		  void (*gone)(void *arg, struct device *device), void *arg,
		  struct device **out)
{
	struct device *device = calloc(1, sizeof(*device));

	if (!device)
		return -ENOMEM;
	device->domid = domid;
	device->devid = devid;
	device->state = DEVICE_UNKNOWN;
	device->env = env;
	device->gone = gone;
	device->arg = arg;
	backend_init(&device->backend, env->self, env->name, domid, devid);
	device->tap = (struct tap){
		.loop = env->loop,
		.domid = domid,
		.devid = devid,
		.timeout_ms = env->timeout_ms,
		.guest = env->guest,
		.done = tap_done,
		.event = tap_told,
		.arg = device,
	};
	tap_init(&device->tap);
	device->turn.fn = turn;
	device->rest.fn = rested;
	device->turn.arg = device->rest.arg = device;
	device->front = FRONTEND_ABSENT;
	device->shown = BACKEND_NO_STATE;
	snprintf(device->token, sizeof(device->token), "%" PRIu32 "/%" PRIu32,
		 domid, devid);
	device_poke(device, DEVICE_BACKEND | DEVICE_DOMAIN);
	*out = device;
	return 0;
}

void device_destroy(struct device *device)
{
	struct store *store = device->env->store;

	if (device->watched[0])
		store->ops->unwatch(store, device->watched, device->token);
	tap_fini(&device->tap);
	loop_defer_cancel(device->env->loop, &device->turn);
	loop_timer_clear(device->env->loop, &device->rest);
	free(device);
}
