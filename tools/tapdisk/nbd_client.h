/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the NBD server share: nbd_server.c (sockets, and the disk
 * that comes and goes), nbd_client.c (a connection: its bytes in and out),
 * nbd_job.c (a request being carried out).  Nobody else includes this.
 *
 * Memory: a request of any length is carried out in pieces, so that a job
 * holds one piece at most, however large it is and however slowly its client
 * reads or writes.  All clients share NBD_BUDGET; who holds nothing may always
 * have one piece, so that nobody can keep others from going on.
 */
#pragma once

#include <stdbool.h>
#include "poll/log.h"
#include "poll/loop.h"
#include "ring/vbd.h"
#include "tools/tapdisk/nbd_handshake.h"
#include "tools/tapdisk/nbd_wire.h"

#define NBD_CLIENTS_MAX 64
#define NBD_JOBS_MAX 16 /* of a client, in flight */
#define NBD_PIECE (512u << 10) /* bytes read or written at a time */
#define NBD_ZERO_PIECE (16u << 20) /* trimmed or zeroed at a time */
#define NBD_BUDGET (64u << 20)
#define NBD_LEN_MAX (32u << 20) /* of a read or write */
#define NBD_BLOCK 512u

struct nbd_client;

struct nbd_server {
	struct loop *loop;
	struct vbd *vbd; /* not to be asked while held or ending */
	struct nbd_export export;
	bool held; /* the disk is paused */
	bool ending;
	struct nbd_client *clients; /* oldest first */
	unsigned nr_clients;
	uint64_t buffered; /* bytes that jobs hold */
	struct nbd_job *waiting, **waiting_tail; /* while held */
	/* one trim or zeroing at a time: their worker is the guest's, too */
	struct nbd_job *order; /* being done */
	struct nbd_job *orders, **orders_tail; /* wait for it */
	bool starved; /* a request waits for a job or a buffer */
	struct loop_defer room; /* and now there is one */
	struct log_limit refusals;
	void (*empty)(struct nbd_server *server); /* ending, no client left */
};

struct nbd_job {
	struct vbd_io io; /* first */
	struct nbd_client *client;
	struct nbd_job *next; /* in the one list it is in */
	struct nbd_request request;
	uint64_t at; /* bytes of the request that are done */
	uint64_t piece; /* bytes that are being done */
	bool flushing; /* for FUA: the rest is done */
	bool in_flight; /* it is the vbd's */
	int err; /* the first */
	char *buf;
	uint32_t buf_size;
	uint32_t filled; /* of a piece that is being received */
	/* what is to be sent */
	uint8_t header[NBD_HEADER_MAX];
	size_t header_len, data_len;
	bool last; /* nothing follows */
};

enum nbd_client_state {
	NBD_GREETS, /* handshake */
	NBD_SERVED,
	NBD_LEAVES, /* nothing is read; all that is owed is sent, then */
	NBD_GONE, /* socket closed; jobs in flight keep the memory */
};

struct nbd_client {
	struct nbd_server *server;
	struct nbd_client *next;
	struct loop_watch watch;
	uint32_t events; /* watched for */
	struct loop_defer send, reap;
	enum nbd_client_state state;
	enum nbd_style style;
	bool passed; /* a socket that somebody gave us: see nbd_client.c */
	bool structured, allocation;
	bool full; /* the socket takes no more now */
	struct nbd_handshake *handshake; /* while it greets */
	size_t handshake_sent;

	uint8_t in[16 << 10]; /* received, and not looked at */
	size_t in_at, in_len;
	struct nbd_job *receiving; /* the write whose data come next */

	struct nbd_job *first, **last; /* to be sent */
	size_t sent; /* of the first */
	struct nbd_job *exclusive; /* a simple reply that has begun */

	struct nbd_job jobs[NBD_JOBS_MAX], *free;
	unsigned busy; /* jobs that are not free */
	unsigned in_flight; /* of these, the vbd's */
	uint64_t buffered;
};

/* ---- nbd_client.c ---- */

/* Takes @fd, whatever happens. */
void nbd_client_add(struct nbd_server *server, int fd, enum nbd_style style,
		    bool passed);
void nbd_client_go_on(struct nbd_client *client); /* something has changed */
void nbd_client_leave(struct nbd_client *client); /* the disk goes */
void nbd_client_drop(struct nbd_client *client);
void nbd_client_job_ended(struct nbd_client *client);

/* ---- nbd_send.c ---- */

/* What @job holds is to be sent, after what others hold already. */
void nbd_send(struct nbd_client *client, struct nbd_job *job);

/* Send until all is sent or the socket is full; may drop the client. */
void nbd_send_replies(struct nbd_client *client);

/* ---- nbd_job.c ---- */

/*
 * A job for @request, or NULL: not now, nbd_client_go_on is called when there
 * may be room.
 */
struct nbd_job *nbd_job_start(struct nbd_client *client,
			      const struct nbd_request *request);

/* Go on: with a read or an order at once, with a write when its piece is
 * there. */
void nbd_job_run(struct nbd_job *job);

/* The bytes of a read's piece. */
char *nbd_job_data(const struct nbd_job *job);
/* What was to be sent is: go on, or end. */
void nbd_job_sent(struct nbd_job *job);

/* How much the piece of a write still lacks, and where it goes. */
uint32_t nbd_job_lacks(const struct nbd_job *job, void **to);
void nbd_job_received(struct nbd_job *job, uint32_t n); /* may run it */

/* The order that waits longest is carried out, unless one is. */
void nbd_job_next_order(struct nbd_server *server);

void nbd_job_free(struct nbd_job *job);
