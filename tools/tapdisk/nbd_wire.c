/* SPDX-License-Identifier: BSD-3-Clause */
/* See nbd_wire.h; the numbers are the NBD protocol's. */
#include <errno.h>
#include "tools/tapdisk/nbd_bytes.h"
#include "tools/tapdisk/nbd_wire.h"

#define REQUEST_MAGIC 0x25609513
#define SIMPLE_MAGIC 0x67446698
#define STRUCTURED_MAGIC 0x668e33ef

enum chunk {
	CHUNK_NONE = 0,
	CHUNK_DATA = 1,
	CHUNK_STATUS = 5,
	CHUNK_ERROR = 0x8001,
};

enum {
	CHUNK_DONE = 1,
	CONTEXT_ID = 1, /* base:allocation, the only one */
};

static const struct {
	int err;
	uint32_t wire;
} errors[] = {
	{ 0, 0 },
	{ -EPERM, 1 },
	{ -EIO, 5 },
	{ -ENOMEM, 12 },
	{ -EINVAL, 22 },
	{ -ENOSPC, 28 },
	{ -EOVERFLOW, 75 },
	{ -EOPNOTSUPP, 95 },
	{ -ESHUTDOWN, 108 },
	/* words that NBD has not */
	{ -EROFS, 1 },
	{ -EACCES, 1 },
	{ -EDQUOT, 28 },
	{ -EFBIG, 28 },
};

int nbd_wire_request(const uint8_t *bytes, struct nbd_request *out)
{
	if (nbd_bytes_get32(bytes) != REQUEST_MAGIC)
		return -EPROTO;
	*out = (struct nbd_request){
		.flags = nbd_bytes_get16(bytes + 4),
		.type = nbd_bytes_get16(bytes + 6),
		.cookie = nbd_bytes_get64(bytes + 8),
		.offset = nbd_bytes_get64(bytes + 16),
		.len = nbd_bytes_get32(bytes + 24),
	};
	return 0;
}

static uint32_t wire_error(int err)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].err == err)
			return errors[i].wire;
	return 5;
}

static uint8_t *put_simple(uint8_t *at, uint64_t cookie, int err)
{
	at = nbd_bytes_put32(at, SIMPLE_MAGIC);
	at = nbd_bytes_put32(at, wire_error(err));
	return nbd_bytes_put64(at, cookie);
}

static uint8_t *put_chunk(uint8_t *at, bool last, enum chunk type,
			  uint64_t cookie, uint32_t len)
{
	at = nbd_bytes_put32(at, STRUCTURED_MAGIC);
	at = nbd_bytes_put16(at, last ? CHUNK_DONE : 0);
	at = nbd_bytes_put16(at, (uint16_t)type);
	at = nbd_bytes_put64(at, cookie);
	return nbd_bytes_put32(at, len);
}

size_t nbd_wire_done(bool structured, uint64_t cookie, int err, uint8_t *out)
{
	uint8_t *at = out;

	if (!structured) {
		at = put_simple(at, cookie, err);
	} else if (err) {
		at = put_chunk(at, true, CHUNK_ERROR, cookie, 6);
		at = nbd_bytes_put32(at, wire_error(err));
		at = nbd_bytes_put16(at, 0); /* no message */
	} else {
		at = put_chunk(at, true, CHUNK_NONE, cookie, 0);
	}
	return (size_t)(at - out);
}

size_t nbd_wire_simple_data(uint64_t cookie, uint8_t *out)
{
	return (size_t)(put_simple(out, cookie, 0) - out);
}

size_t nbd_wire_data(uint64_t cookie, uint64_t offset, uint32_t len, bool last,
		     uint8_t *out)
{
	uint8_t *at = put_chunk(out, last, CHUNK_DATA, cookie, 8 + len);

	return (size_t)(nbd_bytes_put64(at, offset) - out);
}

size_t nbd_wire_extents(uint64_t cookie, const struct nbd_extent *extents,
			unsigned n, uint8_t *out)
{
	uint8_t *at = put_chunk(out, true, CHUNK_STATUS, cookie, 4 + 8 * n);

	at = nbd_bytes_put32(at, CONTEXT_ID);
	for (unsigned i = 0; i < n; i++) {
		at = nbd_bytes_put32(at, extents[i].len);
		at = nbd_bytes_put32(at, extents[i].flags);
	}
	return (size_t)(at - out);
}
