/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests' data between the guest's pages and ours.  Only serve.c calls this.
 */
#pragma once

#include <stdbool.h>
#include "evtchn/guest.h"
#include "ring/req.h"

/*
 * Copy the data of every request of @list that is at @step, in one call.  A
 * request of which any segment failed gets err: -EAGAIN if that may be tried
 * again, else -EIO.  False: there was nothing to copy.
 */
bool copy_requests(struct queue *queue, struct req *list, enum req_step step,
		   enum guest_direction direction);
