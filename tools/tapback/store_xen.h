/* SPDX-License-Identifier: BSD-3-Clause */
/* The store of a Xen host, through libxenstore. */
#pragma once

#include "tools/tapback/store.h"

/* -errno of xs_open: no xenstored, not Xen. */
int store_xen_open(struct store **out);
