/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key by key.  An error names the key, because the guest's administrator gets
 * to read it.
 */
#include "tools/tapback/frontend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xen/event_channel.h>
#include <xen/io/xenbus.h>
#include "tools/tapback/keys.h"

#define PORT_MAX (EVTCHN_FIFO_NR_CHANNELS - 1)

struct reading {
	struct store *store;
	uint32_t tx;
	const char *dir;
	struct frontend_keys *out;
};

/* Text of @key: 1; 0 if there is none; -errno.  Remembers what it looks at. */
static int find(const struct reading *r, const char *key,
		char text[STORE_VALUE_MAX])
{
	int ret = store_get(r->store, r->tx, r->dir, key, text);

	snprintf(r->out->why, sizeof(r->out->why), "%s", key);
	if (ret == -ENOENT)
		return 0;
	return ret < 0 ? ret : 1;
}

static int find_u32(const struct reading *r, const char *key, uint32_t min,
		    uint32_t max, uint32_t *out)
{
	char text[STORE_VALUE_MAX];
	int ret = find(r, key, text), err;

	if (ret != 1)
		return ret;
	err = keys_u32(text, min, max, out);
	return err < 0 ? err : 1;
}

static int need_u32(const struct reading *r, const char *key, uint32_t min,
		    uint32_t max, uint32_t *out)
{
	int ret = find_u32(r, key, min, max, out);

	return ret == 1 ? 0 : ret < 0 ? ret : -ENOENT;
}

/*
 * Without ring-page-order, ring-ref is the ring.  With order 0 it is ring-ref0
 * by the book, but ring-ref for many frontends.
 */
static int read_refs(const struct reading *r, unsigned order_max)
{
	struct frontend_keys *out = r->out;
	char key[32];
	uint32_t order;
	int ret, found;

	out->nr_refs = 1;
	found = find_u32(r, "ring-page-order", 0, order_max, &order);
	if (found < 0)
		return found;
	if (!found)
		return need_u32(r, "ring-ref", 0, UINT32_MAX, &out->refs[0]);
	if (order == 0) {
		ret = find_u32(r, "ring-ref0", 0, UINT32_MAX, &out->refs[0]);
		if (ret)
			return ret < 0 ? ret : 0;
		return need_u32(r, "ring-ref", 0, UINT32_MAX, &out->refs[0]);
	}
	out->nr_refs = 1u << order;
	for (unsigned i = 0; i < out->nr_refs; i++) {
		snprintf(key, sizeof(key), "ring-ref%u", i);
		ret = need_u32(r, key, 0, UINT32_MAX, &out->refs[i]);
		if (ret < 0)
			return ret;
		/* one page at two places of the ring cannot be meant */
		for (unsigned j = 0; j < i; j++)
			if (out->refs[i] == out->refs[j])
				return -EINVAL;
	}
	return 0;
}

static int read_protocol(const struct reading *r)
{
	char text[STORE_VALUE_MAX];
	int ret = find(r, "protocol", text);

	if (ret < 0)
		return ret;
	return abi_from_name(ret ? text : NULL, &r->out->abi);
}

static int read_type(const struct reading *r)
{
	char text[STORE_VALUE_MAX];
	int ret = find(r, "device-type", text);

	r->out->cdrom = false;
	if (ret <= 0)
		return ret;
	r->out->cdrom = !strcmp(text, "cdrom");
	return r->out->cdrom || !strcmp(text, "disk") ? 0 : -EOPNOTSUPP;
}

/* What we do not offer, and a frontend must not use then. */
static int read_options(const struct reading *r)
{
	char text[STORE_VALUE_MAX];
	uint32_t queues;
	bool persistent;
	int ret;

	ret = find(r, "feature-persistent", text);
	if (ret == 1)
		ret = keys_bool(text, &persistent);
	if (ret < 0)
		return ret;
	ret = find_u32(r, "multi-queue-num-queues", 1, UINT32_MAX, &queues);
	if (ret < 0)
		return ret;
	return ret == 1 && queues > 1 ? -ENOTSUP : 0;
}

int frontend_read(struct store *store, const char *dir, unsigned order_max,
		  struct frontend_keys *out)
{
	struct reading r = { .store = store, .dir = dir, .out = out };
	int err;

	memset(out, 0, sizeof(*out));
	err = store->ops->begin(store, &r.tx);
	if (err < 0)
		return err;
	err = read_type(&r);
	if (err == 0)
		err = read_options(&r);
	if (err == 0)
		err = read_protocol(&r);
	if (err == 0)
		err = read_refs(&r, order_max);
	if (err == 0)
		err = need_u32(&r, "event-channel", 1, PORT_MAX, &out->port);
	store->ops->end(store, r.tx, false);
	return err;
}

bool frontend_same_ring(const struct frontend_keys *a,
			const struct frontend_keys *b)
{
	return a->abi == b->abi && a->port == b->port &&
	       a->nr_refs == b->nr_refs &&
	       !memcmp(a->refs, b->refs, a->nr_refs * sizeof(a->refs[0]));
}

int frontend_state(struct store *store, const char *dir, int *out)
{
	char text[STORE_VALUE_MAX];
	uint32_t state;
	int ret;

	ret = store_get(store, STORE_NO_TX, dir, "state", text);
	if (ret == -ENOENT) {
		*out = FRONTEND_ABSENT;
		return 0;
	}
	if (ret < 0 && ret != -EINVAL && ret != -E2BIG)
		return ret;
	*out = FRONTEND_JUNK;
	if (ret >= 0 && keys_u32(text, XenbusStateUnknown,
				 XenbusStateReconfigured, &state) == 0)
		*out = (int)state;
	return 0;
}
