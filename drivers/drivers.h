/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What driver.c's tables are made of: each file's one struct driver.  Nobody
 * else includes this; a node is reached through driver_open.
 */
#pragma once

#include "drivers/driver.h"

extern const struct driver raw_driver;
extern const struct driver ram_driver;
extern const struct driver null_driver;
extern const struct driver vhd_driver;
extern const struct driver fault_driver;
extern const struct driver delay_driver;
extern const struct driver record_driver;
extern const struct driver aio_store;
