/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small blkfront, see frontend.h.  The slot layouts are written down here a
 * second time, from Xen's public headers and not from ring/abi.c, so that each
 * can catch the other's mistakes.
 *
 * Memory, in pages: the domain's own, the ring, then 11 for the data of each
 * tag.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "poll/clock.h"
#include "poll/relax.h"
#include "tests/domain.h"
#include "tests/frontend.h"

enum {
	ORDER_MAX = 4,
	RING_PAGE = 1, /* the first; page 0 is the domain's own */
	SLOT_MAX = 112,
	LOOKS = 8, /* between two readings of the clock: some 200 ns */
	VDEV_XVDA = 202 << 8,
};

#define FIRST_GENERATION 0x5eed0001u

/* The start of the shared ring page, the same in every ABI. */
struct sring {
	uint32_t req_prod, req_event;
	uint32_t rsp_prod, rsp_event;
	uint8_t pad[48];
	uint8_t slots[];
};
_Static_assert(sizeof(struct sring) == 64, "wire");

/* Where the fields are that are not in the same place in every ABI. */
static const struct layout {
	uint8_t slot; /* bytes from one to the next */
	uint8_t id;
	uint8_t sector;
	uint8_t rest; /* the segments; in a discard nr_sectors */
} layouts[NR_ABIS] = {
	[ABI_NATIVE] = { sizeof(struct blkif_request),
			 offsetof(struct blkif_request, id),
			 offsetof(struct blkif_request, sector_number),
			 offsetof(struct blkif_request, seg) },
	[ABI_X86_32] = { 108, 4, 12, 20 },
	[ABI_X86_64] = { 112, 8, 16, 24 },
};

struct tag {
	uint32_t generation; /* the upper half of the id */
	bool in_flight;
	uint8_t op;
	uint64_t user;
};

struct frontend {
	struct frontend_options options;
	const struct layout *layout;
	unsigned slots;

	struct domain *domain;

	struct sring *sring;
	uint32_t req_prod; /* private: queued */
	uint32_t pushed; /* published */
	uint32_t rsp_cons;
	struct tag *tags;
	unsigned *free_tags; /* a stack */
	unsigned nr_free;
	struct frontend_counters counters;
};

/* ---- the ring ---- */

static void ring_init(struct frontend *f)
{
	unsigned i;

	memset(f->sring, 0, (size_t)FRONTEND_PAGE << f->options.ring_order);
	__atomic_store_n(&f->sring->req_event, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&f->sring->rsp_event, 1, __ATOMIC_RELAXED);
	f->req_prod = 0;
	f->pushed = 0;
	f->rsp_cons = 0;
	f->nr_free = f->slots;
	for (i = 0; i < f->slots; i++) {
		f->tags[i].in_flight = false;
		f->free_tags[i] = f->slots - 1 - i; /* tag 0 on top */
	}
}

void frontend_reset(struct frontend *f)
{
	/* generations go on, so that an answer from before is unknown now */
	ring_init(f);
}

void frontend_fill(struct frontend_request *r, uint8_t op, uint64_t sector,
		   size_t len)
{
	size_t part;

	memset(r, 0, sizeof(*r));
	r->op = op;
	r->sector = sector;
	if (op == BLKIF_OP_DISCARD) {
		r->nr_sectors = len / 512;
		return;
	}
	for (; len && r->nr_segments < FRONTEND_SEGMENTS_MAX; len -= part) {
		part = len < FRONTEND_PAGE ? len : FRONTEND_PAGE;
		r->segments[r->nr_segments++].last = (uint8_t)(part / 512 - 1);
	}
}

int frontend_next_tag(struct frontend *f)
{
	return f->nr_free ? (int)f->free_tags[f->nr_free - 1] : -EAGAIN;
}

/* Where the data pages of @tag are. */
static uint32_t data_page(const struct frontend *f, unsigned tag)
{
	return RING_PAGE + frontend_nr_refs(f) + tag * FRONTEND_SEGMENTS_MAX;
}

uint32_t frontend_data_ref(struct frontend *f, unsigned tag, unsigned page)
{
	return f->domain->refs[data_page(f, tag) + page];
}

void *frontend_data(struct frontend *f, unsigned tag)
{
	return f->domain->memory + (size_t)data_page(f, tag) * FRONTEND_PAGE;
}

static uint8_t *slot_at(struct frontend *f, uint32_t index)
{
	return f->sring->slots +
	       (size_t)(index & (f->slots - 1)) * f->layout->slot;
}

static uint64_t id_of(const struct frontend *f, unsigned tag)
{
	return (uint64_t)f->tags[tag].generation << 32 | tag;
}

static void put_segments(struct frontend *f, uint8_t *to, unsigned tag,
			 const struct frontend_request *r)
{
	unsigned i;

	for (i = 0; i < r->nr_segments && i < FRONTEND_SEGMENTS_MAX; i++) {
		uint32_t gref = frontend_data_ref(f, tag, i);

		memcpy(to + 8 * i, &gref, sizeof(gref));
		to[8 * i + 4] = r->segments[i].first;
		to[8 * i + 5] = r->segments[i].last;
	}
}

int frontend_queue(struct frontend *f, const struct frontend_request *r)
{
	const struct layout *l = f->layout;
	uint8_t slot[SLOT_MAX] = { 0 };
	uint16_t handle = VDEV_XVDA;
	int tag = frontend_next_tag(f);
	struct tag *t;
	uint64_t id;

	if (tag < 0)
		return tag;
	t = &f->tags[tag];
	t->generation++;
	t->in_flight = true;
	t->op = r->op;
	t->user = r->user;
	f->nr_free--;

	id = id_of(f, (unsigned)tag);
	slot[0] = r->op;
	memcpy(slot + 2, &handle, sizeof(handle));
	memcpy(slot + l->id, &id, sizeof(id));
	memcpy(slot + l->sector, &r->sector, sizeof(r->sector));
	if (r->op == BLKIF_OP_DISCARD) {
		memcpy(slot + l->rest, &r->nr_sectors, sizeof(r->nr_sectors));
	} else {
		slot[1] = (uint8_t)r->nr_segments;
		put_segments(f, slot + l->rest, (unsigned)tag, r);
	}
	memcpy(slot_at(f, f->req_prod++), slot, l->slot);
	f->counters.requests++;
	return tag;
}

void frontend_kick(struct frontend *f)
{
	if (domain_ring(f->domain))
		f->counters.kicks++;
}

bool frontend_push(struct frontend *f)
{
	uint32_t old = f->pushed, new = f->req_prod;
	uint32_t event;

	/* the slots before the index that offers them */
	__atomic_store_n(&f->sring->req_prod, new, __ATOMIC_RELEASE);
	f->pushed = new;
	/* our req_prod before their req_event: they write and read the other
	 * way round, so that one of us sees the other */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	event = __atomic_load_n(&f->sring->req_event, __ATOMIC_RELAXED);
	if ((uint32_t)(new - event) >= (uint32_t)(new - old))
		return false;
	frontend_kick(f);
	return true;
}

static int check_response(struct frontend *f, uint64_t id, uint8_t op,
			  int16_t status)
{
	uint32_t tag = (uint32_t)id;

	if (tag >= f->slots || !f->tags[tag].in_flight || id != id_of(f, tag))
		return -EPROTO;
	if (op != f->tags[tag].op)
		return -EPROTO;
	if (status > BLKIF_RSP_OKAY || status < BLKIF_RSP_EOPNOTSUPP)
		return -EPROTO;
	return 0;
}

int frontend_take(struct frontend *f, struct frontend_response *out)
{
	/* rsp_prod before the slots that it offers */
	uint32_t prod = __atomic_load_n(&f->sring->rsp_prod, __ATOMIC_ACQUIRE);
	const uint8_t *slot = slot_at(f, f->rsp_cons);
	struct tag *t;
	uint64_t id;
	int err;

	if (prod == f->rsp_cons)
		return 0;
	if (prod - f->rsp_cons > f->pushed - f->rsp_cons)
		return -EPROTO;
	memcpy(&id, slot, sizeof(id));
	memcpy(&out->op, slot + 8, sizeof(out->op));
	memcpy(&out->status, slot + 10, sizeof(out->status));
	err = check_response(f, id, out->op, out->status);
	if (err)
		return err;

	f->rsp_cons++;
	out->tag = (uint32_t)id;
	t = &f->tags[out->tag];
	out->user = t->user;
	t->in_flight = false;
	f->free_tags[f->nr_free++] = out->tag;
	f->counters.responses++;
	return 1;
}

/* ---- waiting ---- */

/* False if @end_ns came first. */
static bool spin_until(struct frontend *f, uint64_t end_ns)
{
	unsigned i;

	do {
		for (i = 0; i < LOOKS; i++) {
			if (__atomic_load_n(&f->sring->rsp_prod,
					    __ATOMIC_RELAXED) != f->rsp_cons)
				return true;
			relax();
		}
	} while (clock_ns() < end_ns);
	return false;
}

/*
 * Ask for an event with the next response, look once more, sleep.  What was
 * heard is read first: an event that comes after that ends the sleep.  False if
 * @end_ns has come.
 */
static bool sleep_until(struct frontend *f, uint64_t end_ns)
{
	uint32_t seen = domain_heard(f->domain);
	uint64_t now_ns = clock_ns();

	__atomic_store_n(&f->sring->rsp_event, f->rsp_cons + 1,
			 __ATOMIC_RELAXED);
	/* our rsp_event before their rsp_prod, against frontend_push's twin */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&f->sring->rsp_prod, __ATOMIC_RELAXED) !=
	    f->rsp_cons)
		return true;
	if (now_ns >= end_ns)
		return false;
	if (domain_listen(f->domain, seen, end_ns - now_ns))
		f->counters.wakeups++;
	return true;
}

int frontend_wait(struct frontend *f, uint64_t timeout_ns,
		  struct frontend_response *out)
{
	uint64_t end_ns = 0;
	bool more;
	int n;

	for (;;) {
		n = frontend_take(f, out);
		if (n)
			return n;
		if (!end_ns) {
			end_ns = clock_ns() + timeout_ns;
			if (end_ns < timeout_ns)
				end_ns = CLOCK_NEVER;
		}
		more = f->options.sleep ? sleep_until(f, end_ns)
					: spin_until(f, end_ns);
		if (!more)
			return -ETIMEDOUT;
	}
}

int frontend_do(struct frontend *f, const struct frontend_request *r,
		uint64_t timeout_ns, unsigned *tag)
{
	struct frontend_response response;
	int n;

	if (frontend_in_flight(f))
		return -EBUSY; /* whose answer would that be? */
	n = frontend_queue(f, r);
	if (n < 0)
		return n;
	if (tag)
		*tag = (unsigned)n;
	frontend_push(f);
	n = frontend_wait(f, timeout_ns, &response);
	return n < 0 ? n : response.status;
}

/* ---- the whole ---- */

static int tags_make(struct frontend *f)
{
	unsigned i;

	f->tags = calloc(f->slots, sizeof(*f->tags));
	f->free_tags = calloc(f->slots, sizeof(*f->free_tags));
	if (!f->tags || !f->free_tags)
		return -ENOMEM;
	for (i = 0; i < f->slots; i++)
		f->tags[i].generation = FIRST_GENERATION;
	ring_init(f);
	return 0;
}

static unsigned ring_slots(const struct frontend *f)
{
	size_t room = ((size_t)FRONTEND_PAGE << f->options.ring_order) -
		      sizeof(struct sring);
	unsigned slots = 1;

	while (2 * slots * f->layout->slot <= room)
		slots *= 2;
	return slots;
}

int frontend_open(const struct frontend_options *options, struct frontend **out)
{
	struct frontend *f;
	uint32_t nr_pages;
	int err;

	if (options->ring_order > ORDER_MAX || options->abi >= NR_ABIS)
		return -EINVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->options = *options;
	f->options.socket = NULL; /* the caller's, and of no more use */
	f->layout = &layouts[options->abi];
	f->slots = ring_slots(f);
	nr_pages = data_page(f, f->slots);
	err = options->socket
		      ? domain_local_open(options->socket, nr_pages, &f->domain)
		      : domain_xen_open(nr_pages, &f->domain);
	if (err) {
		free(f);
		return err;
	}
	f->sring = (void *)(f->domain->memory + RING_PAGE * FRONTEND_PAGE);
	err = tags_make(f);
	if (err) {
		frontend_close(f);
		return err;
	}
	*out = f;
	return 0;
}

void frontend_close(struct frontend *f)
{
	domain_close(f->domain);
	free(f->tags);
	free(f->free_tags);
	free(f);
}

unsigned frontend_slots(const struct frontend *f)
{
	return f->slots;
}

unsigned frontend_nr_refs(const struct frontend *f)
{
	return 1u << f->options.ring_order;
}

const uint32_t *frontend_refs(const struct frontend *f)
{
	return f->domain->refs + RING_PAGE;
}

uint32_t frontend_port(const struct frontend *f)
{
	return f->domain->port;
}

unsigned frontend_in_flight(const struct frontend *f)
{
	return f->slots - f->nr_free;
}

const struct frontend_counters *frontend_counters(const struct frontend *f)
{
	return &f->counters;
}

void *frontend_sring(struct frontend *f)
{
	return f->sring;
}

void *frontend_memory(struct frontend *f, size_t *bytes)
{
	if (bytes)
		*bytes = f->domain->bytes;
	return f->domain->memory;
}
