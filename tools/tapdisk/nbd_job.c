/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NBD request being carried out, piece by piece.  Knows the disk and no
 * socket.  Never logs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tools/tapdisk/nbd_client.h"

enum {
	PAGE = 4096,
};

static bool has_payload(const struct nbd_job *job)
{
	return job->request.type == NBD_WRITE;
}

static bool is_read_or_write(const struct nbd_request *request)
{
	return request->type == NBD_READ || request->type == NBD_WRITE;
}

static bool is_known(uint16_t type)
{
	return type == NBD_READ || type == NBD_WRITE || type == NBD_FLUSH ||
	       type == NBD_TRIM || type == NBD_WRITE_ZEROES ||
	       type == NBD_BLOCK_STATUS;
}

static uint16_t flags_allowed(uint16_t type)
{
	switch (type) {
	case NBD_WRITE:
	case NBD_TRIM:
		return NBD_FUA;
	case NBD_WRITE_ZEROES:
		return NBD_FUA | NBD_NO_HOLE;
	case NBD_BLOCK_STATUS:
		return NBD_ONE_EXTENT;
	default:
		return 0;
	}
}

/* What the export's flags must say. */
static uint16_t needs(uint16_t type)
{
	switch (type) {
	case NBD_FLUSH:
		return NBD_CAN_FLUSH;
	case NBD_TRIM:
		return NBD_CAN_TRIM;
	case NBD_WRITE_ZEROES:
		return NBD_CAN_WRITE_ZEROES;
	default:
		return NBD_HAS_FLAGS;
	}
}

/* Everything that is wrong before anything is done. */
static int check(const struct nbd_client *client,
		 const struct nbd_request *request)
{
	const struct nbd_export *export = &client->server->export;
	bool changes = request->type == NBD_WRITE ||
		       request->type == NBD_TRIM ||
		       request->type == NBD_WRITE_ZEROES;

	if (changes && export->flags & NBD_READ_ONLY)
		return -EPERM;
	if (!is_known(request->type) ||
	    !(export->flags & needs(request->type)) ||
	    request->flags & ~flags_allowed(request->type))
		return -EINVAL;
	if (request->type == NBD_FLUSH)
		return 0;
	if (request->type != NBD_READ && !changes && !client->allocation)
		return -EINVAL;
	if (!request->len)
		return -EINVAL;
	if (is_read_or_write(request) && request->len > NBD_LEN_MAX)
		return -EOVERFLOW;
	if (request->len > export->bytes ||
	    request->offset > export->bytes - request->len)
		return changes ? -ENOSPC : -EINVAL;
	/* reading a part of a block harms nobody */
	if (request->type != NBD_READ &&
	    (request->offset | request->len) & (NBD_BLOCK - 1))
		return -EINVAL;
	return 0;
}

/* Bytes from the block in which @job's next byte is. */
static uint32_t in_block(const struct nbd_job *job)
{
	return (uint32_t)((job->request.offset + job->at) & (NBD_BLOCK - 1));
}

static void next_piece(struct nbd_job *job)
{
	uint64_t left = job->request.len - job->at, most;

	most = is_read_or_write(&job->request) ? NBD_PIECE - in_block(job)
					       : NBD_ZERO_PIECE;
	job->piece = left < most ? left : most;
	job->filled = 0;
}

/* The buffer that @request wants; 0: none. */
static uint32_t buffer_size(const struct nbd_request *request, int err)
{
	uint32_t len = request->len;

	if (!is_read_or_write(request) || (err && request->type == NBD_READ))
		return 0;
	if (len > NBD_PIECE)
		return NBD_PIECE;
	len += (uint32_t)(request->offset & (NBD_BLOCK - 1));
	len = (len + NBD_BLOCK - 1) & ~(NBD_BLOCK - 1);
	return len < NBD_PIECE ? len : NBD_PIECE;
}

static bool may_have(const struct nbd_client *client, uint32_t size)
{
	return !size || !client->buffered ||
	       client->server->buffered + size <= NBD_BUDGET;
}

struct nbd_job *nbd_job_start(struct nbd_client *client,
			      const struct nbd_request *request)
{
	struct nbd_job *job = client->free;
	int err = check(client, request);
	uint32_t size = buffer_size(request, err);
	void *buf = NULL;

	if (!job || !may_have(client, size)) {
		client->server->starved = true;
		return NULL;
	}
	if (size && posix_memalign(&buf, PAGE, size)) {
		nbd_client_drop(client);
		return NULL;
	}
	client->free = job->next;
	client->busy++;
	*job = (struct nbd_job){ .client = client,
				 .request = *request,
				 .err = err,
				 .buf = buf,
				 .buf_size = size };
	client->buffered += size;
	client->server->buffered += size;
	next_piece(job);
	return job;
}

void nbd_job_free(struct nbd_job *job)
{
	struct nbd_client *client = job->client;

	free(job->buf);
	client->buffered -= job->buf_size;
	client->server->buffered -= job->buf_size;
	job->buf = NULL;
	job->next = client->free;
	client->free = job;
	client->busy--;
	if (client->server->starved)
		loop_defer(client->server->loop, &client->server->room);
}

/* All is done, or it failed. */
static void answer(struct nbd_job *job)
{
	job->header_len =
		nbd_wire_done(job->client->structured, job->request.cookie,
			      job->err, job->header);
	job->data_len = 0;
	job->last = true;
	nbd_send(job->client, job);
}

static void fail(struct nbd_job *job, int err)
{
	if (!job->err)
		job->err = err;
	/* the client believes that data follow, and nothing can tell it else */
	if (job->request.type == NBD_READ && job->at &&
	    !job->client->structured)
		nbd_client_drop(job->client);
	else
		answer(job);
}

static void send_data(struct nbd_job *job)
{
	const struct nbd_request *r = &job->request;

	job->last = job->at + job->piece == r->len;
	job->data_len = job->piece;
	job->header_len = 0;
	if (job->client->structured)
		job->header_len = nbd_wire_data(r->cookie, r->offset + job->at,
						(uint32_t)job->piece, job->last,
						job->header);
	else if (!job->at)
		job->header_len = nbd_wire_simple_data(r->cookie, job->header);
	nbd_send(job->client, job);
}

/* The piece of what changes the disk is done. */
static void step(struct nbd_job *job)
{
	job->at += job->piece;
	if (job->at < job->request.len) {
		next_piece(job);
		if (has_payload(job))
			nbd_client_go_on(job->client); /* receive it */
		else
			nbd_job_run(job);
	} else if (job->request.flags & NBD_FUA && !job->err) {
		job->flushing = true;
		nbd_job_run(job);
	} else {
		answer(job);
	}
}

/* A part of @job is done, or failed. */
static void part_done(struct nbd_job *job, int err)
{
	struct nbd_client *client = job->client;

	job->in_flight = false;
	client->in_flight--;
	if (client->state == NBD_GONE) {
		nbd_job_free(job);
		nbd_client_job_ended(client);
		return;
	}
	if (err && has_payload(job) &&
	    job->at + job->piece < job->request.len) {
		job->err = err; /* the rest of its data still comes */
		step(job);
	} else if (err) {
		fail(job, err);
	} else if (job->request.type == NBD_READ) {
		send_data(job);
	} else if (job->flushing || job->request.type == NBD_FLUSH) {
		answer(job);
	} else {
		step(job);
	}
	nbd_client_job_ended(client);
}

static void io_done(struct vbd_io *io, int err)
{
	struct nbd_job *job = (struct nbd_job *)io;
	struct nbd_server *server = job->client->server;

	if (server->order == job)
		server->order = NULL;
	part_done(job, err);
	nbd_job_next_order(server);
}

static enum io_op io_op(const struct nbd_job *job)
{
	switch (job->request.type) {
	case NBD_READ:
		return IO_READ;
	case NBD_WRITE:
		return IO_WRITE;
	case NBD_TRIM:
		return IO_DISCARD;
	case NBD_WRITE_ZEROES:
		return IO_WRITE_ZEROES;
	default:
		return IO_FLUSH;
	}
}

static bool is_order(const struct nbd_job *job)
{
	return !job->flushing && (job->request.type == NBD_TRIM ||
				  job->request.type == NBD_WRITE_ZEROES);
}

static void submit(struct nbd_job *job)
{
	uint32_t before = in_block(job);
	struct io *io = &job->io.io;

	*io = (struct io){ .op = job->flushing ? IO_FLUSH : io_op(job) };
	if (io->op != IO_FLUSH) {
		io->offset = job->request.offset + job->at - before;
		io->len = (before + job->piece + NBD_BLOCK - 1) &
			  ~(uint64_t)(NBD_BLOCK - 1);
		io->buf = job->buf;
	}
	if (is_order(job))
		job->client->server->order = job;
	job->io.done = io_done;
	job->in_flight = true;
	job->client->in_flight++;
	vbd_submit(job->client->server->vbd, &job->io);
}

static void tell_extents(struct nbd_job *job)
{
	const struct nbd_request *r = &job->request;
	struct extent extents[NBD_EXTENTS_MAX];
	struct nbd_extent told[NBD_EXTENTS_MAX];
	int n;

	n = vbd_extents(job->client->server->vbd, r->offset, r->len, extents,
			r->flags & NBD_ONE_EXTENT ? 1 : NBD_EXTENTS_MAX);
	if (n < 0) {
		fail(job, n);
		return;
	}
	for (int i = 0; i < n; i++)
		told[i] = (struct nbd_extent){
			.len = (uint32_t)extents[i].len,
			.flags = extents[i].kind == EXTENT_DATA
					 ? 0
					 : NBD_HOLE | NBD_ZERO,
		};
	job->header_len =
		nbd_wire_extents(r->cookie, told, (unsigned)n, job->header);
	job->data_len = 0;
	job->last = true;
	nbd_send(job->client, job);
}

void nbd_job_run(struct nbd_job *job)
{
	struct nbd_server *server = job->client->server;

	if (job->err) {
		answer(job);
	} else if (server->ending) {
		fail(job, -ESHUTDOWN);
	} else if (server->held) {
		job->next = NULL;
		*server->waiting_tail = job;
		server->waiting_tail = &job->next;
	} else if (job->request.type == NBD_BLOCK_STATUS) {
		tell_extents(job);
	} else if (is_order(job) && (server->order || server->orders)) {
		job->next = NULL;
		*server->orders_tail = job;
		server->orders_tail = &job->next;
	} else {
		submit(job);
	}
}

void nbd_job_next_order(struct nbd_server *server)
{
	struct nbd_job *job = server->orders;

	if (!job || server->order || server->held)
		return;
	server->orders = job->next;
	if (!server->orders)
		server->orders_tail = &server->orders;
	submit(job);
}

char *nbd_job_data(const struct nbd_job *job)
{
	return job->buf + in_block(job);
}

void nbd_job_sent(struct nbd_job *job)
{
	if (job->last) {
		nbd_job_free(job);
		return;
	}
	job->at += job->piece;
	next_piece(job);
	nbd_job_run(job);
}

uint32_t nbd_job_lacks(const struct nbd_job *job, void **to)
{
	*to = job->buf + job->filled;
	return job->in_flight ? 0 : (uint32_t)job->piece - job->filled;
}

void nbd_job_received(struct nbd_job *job, uint32_t n)
{
	struct nbd_client *client = job->client;

	job->filled += n;
	if (job->filled < job->piece)
		return;
	if (job->at + job->piece == job->request.len)
		client->receiving = NULL;
	if (!job->err) {
		nbd_job_run(job);
	} else if (client->receiving) {
		job->at += job->piece; /* what is not wanted is thrown away */
		next_piece(job);
	} else {
		answer(job);
	}
}
