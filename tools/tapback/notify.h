/* SPDX-License-Identifier: BSD-3-Clause */
/* Tell the service manager that we are there, as sd_notify(3) would. */
#pragma once

/*
 * Send @state ("READY=1") to where the environment's NOTIFY_SOCKET says, if it
 * does.  0, -EINVAL (no such address), -errno.  Never logs.
 */
int notify_service(const char *state);
