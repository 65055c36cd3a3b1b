/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See ranges.h.  One list in order of arrival: as long as there are writes in
 * flight that need a lock, which are few.  Knows nothing of io or ports.
 */
#include <stddef.h>
#include "drivers/ranges.h"

void ranges_init(struct ranges *ranges)
{
	pthread_mutex_init(&ranges->mutex, NULL);
	ranges->oldest = NULL;
	ranges->newest = &ranges->oldest;
}

void ranges_fini(struct ranges *ranges)
{
	pthread_mutex_destroy(&ranges->mutex);
}

static bool overlap(const struct range *a, const struct range *b)
{
	return a->start < b->end && b->start < a->end;
}

bool ranges_lock(struct ranges *ranges, struct range *range)
{
	bool granted;

	pthread_mutex_lock(&ranges->mutex);
	range->blockers = 0;
	range->next = NULL;
	for (struct range *r = ranges->oldest; r; r = r->next)
		range->blockers += overlap(r, range);
	*ranges->newest = range;
	ranges->newest = &range->next;
	granted = !range->blockers; /* by now somebody may be unblocking it */
	pthread_mutex_unlock(&ranges->mutex);
	return granted;
}

void ranges_unlock(struct ranges *ranges, struct range *range)
{
	struct range **link = &ranges->oldest, *r;

	pthread_mutex_lock(&ranges->mutex);
	while (*link != range)
		link = &(*link)->next;
	*link = range->next;
	if (ranges->newest == &range->next)
		ranges->newest = link;
	for (r = *link; r; r = r->next)
		if (overlap(r, range) && !--r->blockers)
			r->granted(r);
	pthread_mutex_unlock(&ranges->mutex);
}

void ranges_settle(struct ranges *ranges)
{
	pthread_mutex_lock(&ranges->mutex);
	pthread_mutex_unlock(&ranges->mutex);
}
