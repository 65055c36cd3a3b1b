/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slot layouts.  x86_64 is what every 64-bit machine compiles blkif.h to, the
 * ARM ones included; x86_32 differs because a 64-bit member of a structure is
 * aligned to 4 bytes there.  See abi.h.
 */
#include <assert.h>
#include <errno.h>
#include "ring/abi.h"

struct x86_32_rw {
	uint8_t operation;
	uint8_t nr_segments;
	uint16_t handle;
	uint64_t id;
	uint64_t sector_number;
	struct blkif_request_segment seg[BLKIF_MAX_SEGMENTS_PER_REQUEST];
} __attribute__((packed, aligned(4)));

struct x86_32_discard {
	uint8_t operation;
	uint8_t flag;
	uint16_t handle;
	uint64_t id;
	uint64_t sector_number;
	uint64_t nr_sectors;
} __attribute__((packed, aligned(4)));

struct x86_32_response {
	uint64_t id;
	uint8_t operation;
	uint8_t pad;
	int16_t status;
} __attribute__((packed, aligned(4)));

struct x86_64_response {
	uint64_t id;
	uint8_t operation;
	uint8_t pad;
	int16_t status;
	uint32_t tail;
};

static_assert(sizeof(union abi_slot) == 112, "native slots are x86_64's");
static_assert(offsetof(struct blkif_request, id) == 8, "blkif.h");
static_assert(offsetof(struct blkif_request, sector_number) == 16, "blkif.h");
static_assert(offsetof(struct blkif_request, seg) == 24, "blkif.h");
static_assert(sizeof(struct blkif_request_segment) == 8, "blkif.h");
static_assert(offsetof(struct blkif_request_segment, first_sect) == 4, "");
static_assert(offsetof(struct blkif_request_segment, last_sect) == 5, "");
static_assert(offsetof(struct blkif_request_discard, flag) == 1, "blkif.h");
static_assert(offsetof(struct blkif_request_discard, id) == 8, "blkif.h");
static_assert(offsetof(struct blkif_request_discard, sector_number) == 16, "");
static_assert(offsetof(struct blkif_request_discard, nr_sectors) == 24, "");
static_assert(offsetof(struct blkif_request_indirect, id) == 8, "blkif.h");
static_assert(sizeof(struct x86_64_response) == sizeof(struct blkif_response),
	      "blkif.h");
static_assert(offsetof(struct x86_64_response, status) == 10, "");
static_assert(sizeof(struct x86_32_rw) == 108, "x86_32");
static_assert(offsetof(struct x86_32_rw, id) == 4, "x86_32");
static_assert(offsetof(struct x86_32_rw, sector_number) == 12, "x86_32");
static_assert(offsetof(struct x86_32_rw, seg) == 20, "x86_32");
static_assert(sizeof(struct x86_32_discard) == 28, "x86_32");
static_assert(offsetof(struct x86_32_discard, nr_sectors) == 20, "x86_32");
static_assert(sizeof(struct x86_32_response) == 12, "x86_32");
static_assert(offsetof(struct x86_32_response, status) == 10, "x86_32");

enum {
	SLOT_X86_32 = sizeof(struct x86_32_rw),
	SLOT_X86_64 = sizeof(union abi_slot),
	RING_HEADER = 64, /* indices and padding before the first slot */
	XEN_PAGE = 4096, /* whatever the page size of the host */
};

size_t abi_slot_size(enum abi abi)
{
	return abi == ABI_X86_32 ? SLOT_X86_32 : SLOT_X86_64;
}

unsigned abi_ring_slots(enum abi abi, unsigned pages)
{
	size_t fit =
		((size_t)pages * XEN_PAGE - RING_HEADER) / abi_slot_size(abi);
	unsigned slots = 1;

	while (slots * 2 <= fit)
		slots *= 2;
	return slots;
}

/* From a private copy: the guest's memory is behind us. */
static void from_x86_32(const struct x86_32_rw *in, union abi_slot *out)
{
	struct x86_32_discard discard;

	memset(out, 0, sizeof(*out));
	if (in->operation == BLKIF_OP_DISCARD) {
		memcpy(&discard, in, sizeof(discard));
		out->discard.operation = discard.operation;
		out->discard.flag = discard.flag;
		out->discard.handle = discard.handle;
		out->discard.id = discard.id;
		out->discard.sector_number = discard.sector_number;
		out->discard.nr_sectors = discard.nr_sectors;
		return;
	}
	/* an id lies at the same place whatever the operation */
	out->rw.operation = in->operation;
	out->rw.nr_segments = in->nr_segments;
	out->rw.handle = in->handle;
	out->rw.id = in->id;
	out->rw.sector_number = in->sector_number;
	memcpy(out->rw.seg, in->seg, sizeof(in->seg));
}

void abi_read_slot(enum abi abi, const void *shared, union abi_slot *out)
{
	struct x86_32_rw copy;

	if (abi == ABI_X86_32)
		memcpy(&copy, shared, sizeof(copy));
	else
		memcpy(out, shared, sizeof(*out));
	/*
	 * Without this the compiler may read the guest's memory again where
	 * the copy is used: between a check and what was checked.
	 */
	__asm__ volatile("" ::: "memory");
	if (abi == ABI_X86_32)
		from_x86_32(&copy, out);
}

void abi_write_response(enum abi abi, void *shared, uint64_t id, uint8_t op,
			int16_t status)
{
	const struct x86_32_response r32 = { .id = id,
					     .operation = op,
					     .status = status };
	const struct x86_64_response r64 = { .id = id,
					     .operation = op,
					     .status = status };

	if (abi == ABI_X86_32)
		memcpy(shared, &r32, sizeof(r32));
	else
		memcpy(shared, &r64, sizeof(r64));
}

int abi_from_name(const char *name, enum abi *out)
{
	static const struct {
		const char *name;
		enum abi abi;
	} names[] = {
		{ "x86_32-abi", ABI_X86_32 },
		{ "x86_64-abi", ABI_X86_64 },
		{ "arm-abi", ABI_NATIVE },
		{ "native", ABI_NATIVE },
	};

	if (!name) {
		*out = ABI_X86_32;
		return 0;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i].name) == 0) {
			*out = names[i].abi;
			return 0;
		}
	}
	return -EPROTONOSUPPORT;
}
