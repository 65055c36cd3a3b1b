/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open the file or block device that keeps an image's bytes, and find out how
 * it wants to be used.  Main thread; logs once what went wrong, and when the
 * page cache is used though nobody asked for it.
 */
#pragma once

#include "drivers/driver.h"

/*
 * Open @path, which must exist, by @flags (enum driver_flags), and describe it
 * in @info.  Returns a descriptor; -EISDIR, -EINVAL (neither file nor block
 * device), -ENOMEDIUM (a device of no size), -EROFS, -ENOMEM, or -errno of
 * open.
 */
int file_open(const char *path, unsigned flags, struct driver_info *info);
