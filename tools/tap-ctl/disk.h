/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of a disk's life, for the commands that are made of several.
 * Tapdisk and minor are those of @options.  0 or -errno, said.
 */
#pragma once

#include "tools/ctl/client_request.h"

struct options;

int disk_attach(const struct options *options);
int disk_detach(const struct options *options);

/*
 * The OPEN that the command line asks for; reads the key from stdin.  Errors
 * of client_request_open, and -EPERM (key of another size).  Finish it.
 */
int disk_open_request(const struct options *options,
		      struct client_request *out);
