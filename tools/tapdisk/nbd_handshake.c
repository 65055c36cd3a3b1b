/* SPDX-License-Identifier: BSD-3-Clause */
/* See nbd_handshake.h; the numbers are the NBD protocol's. */
#include <assert.h>
#include <errno.h>
#include "tools/tapdisk/nbd_bytes.h"
#include "tools/tapdisk/nbd_handshake.h"
#include "tools/tapdisk/nbd_wire.h"

#define PASSWORD UINT64_C(0x4e42444d41474943) /* NBDMAGIC */
#define OPTION_MAGIC UINT64_C(0x49484156454f5054) /* IHAVEOPT */
#define OLD_MAGIC UINT64_C(0x00420281861253)
#define REPLY_MAGIC UINT64_C(0x0003e889045565a9)
#define EXPORT_LISTED                                          \
	"tapdisk_client" /* upstream's; any other does as well \
			  */
#define ALLOCATION "base:allocation"

enum handshake_flags {
	FIXED_NEWSTYLE = 1 << 0,
	NO_ZEROES = 1 << 1,
};

enum option {
	OPTION_EXPORT_NAME = 1,
	OPTION_ABORT = 2,
	OPTION_LIST = 3,
	OPTION_INFO = 6,
	OPTION_GO = 7,
	OPTION_STRUCTURED_REPLY = 8,
	OPTION_LIST_META_CONTEXT = 9,
	OPTION_SET_META_CONTEXT = 10,
};

enum reply {
	REPLY_ACK = 1,
	REPLY_SERVER = 2,
	REPLY_INFO = 3,
	REPLY_META_CONTEXT = 4,
	REPLY_UNSUPPORTED = (int)(1u << 31 | 1),
	REPLY_INVALID = (int)(1u << 31 | 3),
	REPLY_TOO_BIG = (int)(1u << 31 | 9),
};

enum {
	INFO_EXPORT = 0,
	INFO_BLOCK_SIZE = 3,
	FLAGS_SIZE = 4,
	HEADER_SIZE = 16,
	ZEROES = 124,
	CONTEXT_ID = 1,
};

static uint8_t *room(struct nbd_handshake *h, size_t len)
{
	uint8_t *at = h->out + h->out_len;

	assert(h->out_len + len <= sizeof(h->out));
	h->out_len += len;
	return at;
}

/* A reply's head; the @len bytes that follow are returned, to be filled. */
static uint8_t *reply(struct nbd_handshake *h, enum reply type, size_t len)
{
	uint8_t *at = room(h, 20 + len);

	at = nbd_bytes_put64(at, REPLY_MAGIC);
	at = nbd_bytes_put32(at, h->option);
	at = nbd_bytes_put32(at, (uint32_t)type);
	return nbd_bytes_put32(at, (uint32_t)len);
}

static void await(struct nbd_handshake *h, enum nbd_handshake_state state,
		  size_t due)
{
	h->state = state;
	h->got = 0;
	h->due = due;
}

static void describe_export(struct nbd_handshake *h)
{
	uint8_t *at = reply(h, REPLY_INFO, 12);

	at = nbd_bytes_put16(at, INFO_EXPORT);
	at = nbd_bytes_put64(at, h->export.bytes);
	nbd_bytes_put16(at, h->export.flags);
	at = reply(h, REPLY_INFO, 14);
	at = nbd_bytes_put16(at, INFO_BLOCK_SIZE);
	at = nbd_bytes_put32(at, h->export.block_min);
	at = nbd_bytes_put32(at, h->export.block_preferred);
	nbd_bytes_put32(at, h->export.block_max);
}

/* A name's length, the name, a count of 16-bit numbers, the numbers. */
static bool is_info_request(const struct nbd_handshake *h)
{
	uint32_t name;

	if (h->option_len < 6)
		return false;
	name = nbd_bytes_get32(h->in);
	if (name > h->option_len - 6)
		return false;
	return h->option_len - 6 - name ==
	       2u * nbd_bytes_get16(h->in + 4 + name);
}

static void option_info(struct nbd_handshake *h)
{
	if (!is_info_request(h)) {
		reply(h, REPLY_INVALID, 0);
		return;
	}
	describe_export(h);
	reply(h, REPLY_ACK, 0);
	if (h->option == OPTION_GO)
		h->state = NBD_TRANSMISSION;
}

static void option_export_name(struct nbd_handshake *h)
{
	uint8_t *at = room(h, 10);

	nbd_bytes_put16(nbd_bytes_put64(at, h->export.bytes), h->export.flags);
	if (!h->no_zeroes)
		memset(room(h, ZEROES), 0, ZEROES);
	h->state = NBD_TRANSMISSION;
}

static void option_list(struct nbd_handshake *h)
{
	const size_t len = strlen(EXPORT_LISTED);
	uint8_t *at;

	if (h->option_len) {
		reply(h, REPLY_INVALID, 0);
		return;
	}
	at = reply(h, REPLY_SERVER, 4 + len);
	memcpy(nbd_bytes_put32(at, (uint32_t)len), EXPORT_LISTED, len);
	reply(h, REPLY_ACK, 0);
}

static void option_structured_reply(struct nbd_handshake *h)
{
	h->structured = !h->option_len;
	if (!h->structured)
		h->allocation = false; /* it is told in structured replies */
	reply(h, h->structured ? REPLY_ACK : REPLY_INVALID, 0);
}

/* Whether a query of @len bytes means base:allocation. */
static bool matches(const struct nbd_handshake *h, const uint8_t *query,
		    uint32_t len)
{
	if (len == strlen(ALLOCATION))
		return !memcmp(query, ALLOCATION, len);
	return h->option == OPTION_LIST_META_CONTEXT &&
	       len == strlen("base:") && !memcmp(query, "base:", len);
}

/*
 * A name, a count of queries, the queries, all with a length before them.
 * -EINVAL if they do not fill the option exactly.
 */
static int find_context(const struct nbd_handshake *h, bool *found)
{
	uint32_t at, n, len;

	if (h->option_len < 8)
		return -EINVAL;
	len = nbd_bytes_get32(h->in);
	if (len > h->option_len - 8)
		return -EINVAL;
	n = nbd_bytes_get32(h->in + 4 + len);
	at = 8 + len;
	*found = !n && h->option == OPTION_LIST_META_CONTEXT;
	for (; n; n--) {
		if (h->option_len - at < 4)
			return -EINVAL;
		len = nbd_bytes_get32(h->in + at);
		at += 4;
		if (len > h->option_len - at)
			return -EINVAL;
		*found = *found || matches(h, h->in + at, len);
		at += len;
	}
	return at == h->option_len ? 0 : -EINVAL;
}

static void option_meta_context(struct nbd_handshake *h)
{
	const size_t len = strlen(ALLOCATION);
	bool set = h->option == OPTION_SET_META_CONTEXT, found;
	uint8_t *at;

	if (set)
		h->allocation = false;
	if (find_context(h, &found) || (set && !h->structured)) {
		reply(h, REPLY_INVALID, 0);
		return;
	}
	if (found) {
		at = reply(h, REPLY_META_CONTEXT, 4 + len);
		memcpy(nbd_bytes_put32(at, set ? CONTEXT_ID : 0), ALLOCATION,
		       len);
	}
	reply(h, REPLY_ACK, 0);
	if (set)
		h->allocation = found;
}

static void option(struct nbd_handshake *h)
{
	await(h, NBD_OPTION_HEADER, HEADER_SIZE);
	switch (h->option) {
	case OPTION_EXPORT_NAME:
		option_export_name(h);
		break;
	case OPTION_ABORT:
		reply(h, REPLY_ACK, 0);
		h->state = NBD_HANG_UP;
		break;
	case OPTION_LIST:
		option_list(h);
		break;
	case OPTION_INFO:
	case OPTION_GO:
		option_info(h);
		break;
	case OPTION_STRUCTURED_REPLY:
		option_structured_reply(h);
		break;
	case OPTION_LIST_META_CONTEXT:
	case OPTION_SET_META_CONTEXT:
		option_meta_context(h);
		break;
	default:
		reply(h, REPLY_UNSUPPORTED, 0);
		break;
	}
}

/* An option whose data was not kept: a name may be any, so nor this long. */
static void skipped(struct nbd_handshake *h)
{
	await(h, NBD_OPTION_HEADER, HEADER_SIZE);
	if (h->option == OPTION_EXPORT_NAME)
		h->state = NBD_HANG_UP; /* it has no error reply */
	else
		reply(h, REPLY_TOO_BIG, 0);
}

static void option_header(struct nbd_handshake *h)
{
	h->option = nbd_bytes_get32(h->in + 8);
	h->option_len = nbd_bytes_get32(h->in + 12);
	h->state = NBD_HANG_UP;
	if (nbd_bytes_get64(h->in) != OPTION_MAGIC ||
	    h->option_len > NBD_OPTION_MAX || ++h->options > NBD_OPTIONS_MAX)
		return;
	/* who does not speak the fixed form understands no replies */
	if (!h->fixed && h->option != OPTION_EXPORT_NAME)
		return;
	h->left = h->option_len;
	if (h->option_len > NBD_OPTION_KEPT)
		await(h, NBD_OPTION_SKIPPED, 0);
	else if (h->option_len)
		await(h, NBD_OPTION_DATA, h->option_len);
	else
		option(h);
}

static void client_flags(struct nbd_handshake *h)
{
	uint32_t flags = nbd_bytes_get32(h->in);

	h->fixed = flags & FIXED_NEWSTYLE;
	h->no_zeroes = flags & NO_ZEROES;
	await(h, NBD_OPTION_HEADER, HEADER_SIZE);
	if (flags & ~(uint32_t)(FIXED_NEWSTYLE | NO_ZEROES))
		h->state = NBD_HANG_UP;
}

static void greet_old(struct nbd_handshake *h)
{
	uint8_t *at = room(h, 28);

	at = nbd_bytes_put64(at, PASSWORD);
	at = nbd_bytes_put64(at, OLD_MAGIC);
	at = nbd_bytes_put64(at, h->export.bytes);
	nbd_bytes_put32(at, h->export.flags);
	memset(room(h, ZEROES), 0, ZEROES);
	h->state = NBD_TRANSMISSION;
}

static void greet_new(struct nbd_handshake *h)
{
	uint8_t *at = room(h, 18);

	at = nbd_bytes_put64(at, PASSWORD);
	at = nbd_bytes_put64(at, OPTION_MAGIC);
	nbd_bytes_put16(at, FIXED_NEWSTYLE | NO_ZEROES);
	await(h, NBD_CLIENT_FLAGS, FLAGS_SIZE);
}

void nbd_handshake_init(struct nbd_handshake *handshake, enum nbd_style style,
			const struct nbd_export *export)
{
	memset(handshake, 0, sizeof(*handshake));
	handshake->export = *export;
	if (style == NBD_OLD_STYLE)
		greet_old(handshake);
	else
		greet_new(handshake);
}

size_t nbd_handshake_space(struct nbd_handshake *handshake, void **to)
{
	struct nbd_handshake *h = handshake;

	assert(h->state < NBD_TRANSMISSION && !h->out_len);
	if (h->state == NBD_OPTION_SKIPPED) {
		*to = h->in;
		return h->left < sizeof(h->in) ? h->left : sizeof(h->in);
	}
	*to = h->in + h->got;
	return h->due - h->got;
}

void nbd_handshake_received(struct nbd_handshake *handshake, size_t n)
{
	struct nbd_handshake *h = handshake;

	if (h->state == NBD_OPTION_SKIPPED) {
		h->left -= (uint32_t)n;
		if (!h->left)
			skipped(h);
		return;
	}
	h->got += n;
	if (h->got < h->due)
		return;
	if (h->state == NBD_CLIENT_FLAGS)
		client_flags(h);
	else if (h->state == NBD_OPTION_HEADER)
		option_header(h);
	else
		option(h);
}
