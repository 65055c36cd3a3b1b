/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ram:SIZE, a disk in anonymous memory that is forgotten at close.  Sparse:
 * what was never written takes no memory.  Every io ends within submit, and
 * the bytes are shared by all ports.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "drivers/drivers.h"
#include "drivers/options.h"
#include "poll/log.h"

#define RAM_BYTES_MAX (UINT64_C(64) << 30)

enum {
	PAGE = 4096,
};

struct ram {
	char *bytes; /* NULL if size is 0 */
	uint64_t size;
};

static int ram_open(const char *arg, struct node *below, unsigned flags,
		    struct driver_info *info, void **priv)
{
	struct ram *ram;
	void *bytes = NULL;
	uint64_t size;

	(void)below;
	(void)flags;
	if (options_size(arg, &size) || size > RAM_BYTES_MAX) {
		log_err("ram: \"%s\": not a size of at most 64g", arg);
		return -EINVAL;
	}
	if (size) {
		bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			     0);
		if (bytes == MAP_FAILED)
			return -ENOMEM;
	}
	ram = malloc(sizeof(*ram));
	if (!ram) {
		if (bytes)
			munmap(bytes, size);
		return -ENOMEM;
	}
	ram->bytes = bytes;
	ram->size = size;
	*info = (struct driver_info){
		.bytes = size,
		.logical_block = 512,
		.physical_block = 512,
		.discard_granularity = 512,
	};
	*priv = ram;
	return 0;
}

static void ram_close(void *priv)
{
	struct ram *ram = priv;

	if (ram->bytes)
		munmap(ram->bytes, ram->size);
	free(ram);
}

/* Whole pages go back to the kernel, the edges are overwritten. */
static int zero(char *from, uint64_t len)
{
	uint64_t head = -(uintptr_t)from % PAGE, whole;

	if (head > len)
		head = len;
	whole = (len - head) / PAGE * PAGE;
	memset(from, 0, head);
	memset(from + head + whole, 0, len - head - whole);
	if (whole && madvise(from + head, whole, MADV_DONTNEED) < 0)
		return -errno;
	return 0;
}

static void ram_submit(struct port *port, struct io *io)
{
	struct ram *ram = port->node->priv;
	int err = 0;

	switch (io->op) {
	case IO_READ:
		memcpy(io->buf, ram->bytes + io->offset, io->len);
		break;
	case IO_WRITE:
		memcpy(ram->bytes + io->offset, io->buf, io->len);
		break;
	case IO_FLUSH:
		break;
	case IO_DISCARD:
	case IO_WRITE_ZEROES:
		err = zero(ram->bytes + io->offset, io->len);
		break;
	default:
		err = -EOPNOTSUPP;
		break;
	}
	io->done(io, err);
}

const struct driver ram_driver = {
	.name = "ram",
	.stats_type = 5,
	.below = DRIVER_ON_NOTHING,
	.open = ram_open,
	.close = ram_close,
	.submit = ram_submit,
};
