/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting a tapdisk.
 */
#pragma once

struct options;

/*
 * Start one and return its process id once its control socket listens.
 * -EPERM if it announced nothing (callers try that again), -EINTR if it was
 * killed, -ETIMEDOUT, or what it exited with; said.
 */
int spawn_tapdisk(const struct options *options);
