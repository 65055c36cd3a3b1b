/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log's line and the error node always say the same.
 */
#include "tools/tapback/device_say.h"

#include <stdio.h>
#include <string.h>

bool device_say_allowed(struct device *device)
{
	return log_allow(&device->limit, device->backend.dir);
}

void device_say_fault(struct device *device, int err, const char *what)
{
	if (device_say_allowed(device))
		log_warn("%s: frontend: %s: %s", device->backend.dir, what,
			 strerror(-err));
	backend_set_error(device->env->store, &device->backend, err, what);
}

void device_say_trouble(struct device *device, const char *what, int err)
{
	char text[64];

	if (err == device->tap_err)
		return;
	device->tap_err = err;
	snprintf(text, sizeof(text), "tapdisk %d: %s", device->tap.pid, what);
	if (device_say_allowed(device))
		log_warn("%s: %s: %s", device->backend.dir, text,
			 strerror(-err));
	backend_set_error(device->env->store, &device->backend, err, text);
}
