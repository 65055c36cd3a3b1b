/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process has a minor, for toolstacks that name a disk by its minor
 * alone: a tapdisk holds a lock on its minor's marker file, and the kernel
 * tells whose it is.
 */
#pragma once

#include <stdint.h>

/* The pid of the tapdisk of minor @number; -ESRCH if it has none, -errno. */
int marker_owner(uint16_t number);
