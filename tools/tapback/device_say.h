/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes wrong with a device, for those who operate it: a line in the log,
 * rate-limited, and the error node in xenstore.
 */
#pragma once

#include <stdbool.h>
#include "tools/tapback/device.h"

bool device_say_allowed(struct device *device);

/* The frontend's doing, at @what: may come any number of times. */
void device_say_fault(struct device *device, int err, const char *what);

/* The tapdisk's, when it was asked for @what: said when @err is another. */
void device_say_trouble(struct device *device, const char *what, int err);
