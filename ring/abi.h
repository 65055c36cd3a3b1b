/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The three layouts a ring slot can have, turned into one.
 *
 * Sizes and offsets are those of Xen's public io/blkif.h compiled for each
 * ABI.  Reading copies the whole slot once into private memory; nothing here
 * looks at a slot twice or judges what it says.  512-byte sectors.  Never logs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xen/xen.h>
#include <xen/io/blkif.h>

enum abi { ABI_NATIVE, ABI_X86_32, ABI_X86_64, NR_ABIS };

/* A private copy, in the native layout whatever the guest's. */
union abi_slot {
	struct blkif_request rw;
	struct blkif_request_discard discard;
	struct blkif_request_indirect indirect;
};

/* Bytes from one slot to the next. */
size_t abi_slot_size(enum abi abi);

/* Slots of a ring of @pages pages: the largest power of two that fits. */
unsigned abi_ring_slots(enum abi abi, unsigned pages);

/* Copy @shared, which the guest may be writing, to @out. */
void abi_read_slot(enum abi abi, const void *shared, union abi_slot *out);

/* Write a response, every byte of it, over the slot at @shared. */
void abi_write_response(enum abi abi, void *shared, uint64_t id, uint8_t op,
			int16_t status);

/*
 * The xenstore key "protocol": x86_32-abi, x86_64-abi, arm-abi, native; NULL
 * (no such key) is x86_32, as every Linux backend has it.  -EPROTONOSUPPORT.
 */
int abi_from_name(const char *name, enum abi *out);
