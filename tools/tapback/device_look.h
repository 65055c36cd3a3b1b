/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device's half of a turn that only looks: at xenstore, and at what that
 * means in the device's state.  Changes no state.  Logs.
 */
#pragma once

#include "tools/tapback/device.h"

/* Read again what @dirty (DEVICE_LOOK...) says.  -errno of the store. */
int device_look(struct device *device, unsigned dirty);

/* The one event that it makes, DEVICE_NOTHING often. */
enum device_event device_look_event(struct device *device, unsigned dirty);
