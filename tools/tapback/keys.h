/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of xenstore keys, read strictly: exactly what the writer must write
 * and nothing else, judged before anything is computed from it.  Pure; @text
 * may be anything that a guest could write.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Decimal as printf writes it: no sign, no space, no leading zero.  -EINVAL
 * if it is none, -ERANGE outside of @min to @max.
 */
int keys_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);
int keys_u32(const char *text, uint32_t min, uint32_t max, uint32_t *out);

/* "0" or "1".  -EINVAL. */
int keys_bool(const char *text, bool *out);

/*
 * physical-device-path, the NBD socket of a disk: RUN_DIR/nbdPID.MINOR.
 * -EINVAL.
 */
int keys_device_path(const char *text, int *pid, uint16_t *minor);

/*
 * physical-device, MAJOR:MINOR in hexadecimal.  -EINVAL; -ENXIO if the major
 * is not 0: then it is a real block device, whose minor is another disk's.
 */
int keys_device_numbers(const char *text, uint16_t *minor);
