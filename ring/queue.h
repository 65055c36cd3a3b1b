/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One ring and the data thread that serves it: take, check, copy, submit,
 * complete, answer, wait.  It opens nothing, formats nothing (but a fault) and
 * takes no lock on its path.
 *
 * main makes a queue, starts it and from then on only sends it commands; every
 * answer comes back by mail to main's mailbox.  What is marked "data" below is
 * the thread's own.
 *
 * Logs what a guest did wrong, rate-limited.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include "drivers/image.h"
#include "evtchn/guest.h"
#include "poll/log.h"
#include "poll/mailbox.h"
#include "poll/sync.h"
#include "poll/wait.h"
#include "ring/meter.h"
#include "ring/req.h"
#include "ring/ring.h"
#include "ring/ring_state.h"

struct queue;

/* What main can ask.  At most one letter of a kind is on its way. */
enum queue_command_kind {
	QUEUE_HOLD, /* take no more, finish, close the port, then answer */
	QUEUE_RELEASE, /* open a port on .image and go on */
	QUEUE_DISCONNECT, /* leave the guest alone, then answer; drain */
	QUEUE_CONFIGURE, /* wait as .settings say from now on */
	QUEUE_TRACE, /* record every wait in .trace, or with NULL no more */
	QUEUE_FORCE, /* spin for .force_ns, whatever the mode is */
	NR_QUEUE_COMMANDS
};

struct queue_command {
	struct mail mail;
	struct queue *queue;
	enum queue_command_kind kind;
	bool posted; /* main's own: between queue_send and done */
	int err; /* the answer: 0 or -errno */
	struct image *image; /* RELEASE */
	struct wait_settings settings; /* CONFIGURE */
	enum sync_mode sync; /* CONFIGURE */
	struct gaps_trace *trace; /* TRACE */
	uint64_t force_ns; /* FORCE */
};

/* What the thread tells main unasked. */
struct queue_notice {
	struct mail mail;
	struct queue *queue;
};

/* Run by main, from its mailbox. */
struct queue_callbacks {
	void (*done)(struct queue_command *command);
	void (*broken)(struct queue *queue);
	void (*active)(struct queue *queue); /* see meter_must_tell */
	void (*gone)(struct queue *queue); /* the thread ends: queue_destroy */
};

/* Written by the data thread only, read by anyone (relaxed). */
struct queue_counters {
	uint64_t requests; /* taken */
	uint64_t responses;
	uint64_t read_sect, write_sect; /* of requests taken, 512 bytes */
	uint64_t guest_events;
	uint64_t notifications;
	uint64_t bad_requests;
	uint64_t copy_errors;
	uint64_t io_errors;
};

struct queue {
	/* data: hot, in the order of use */
	struct ring ring;
	struct wait wait;
	struct image_port *port; /* NULL: held or not yet released */
	const struct guest_ops *guest_ops;
	struct guest *guest;
	enum ring_state state;
	bool masked; /* an event was taken and the port not yet rearmed */
	bool armed; /* req_event asks for an event */
	struct req *barrier; /* nothing is taken until it is answered */
	struct req *staged, **staged_tail; /* taken this turn */
	struct req *answers, **answers_tail; /* finished, unanswered */
	struct req *retries; /* waiting for their next try */
	struct guest_copy *copies; /* room for every segment of the ring */
	struct req_pool pool;
	struct sync sync; /* lone requests: at once or later */
	struct queue_counters counters;
	struct wait_source ring_source, box_source, clock_source;
	uint64_t trim_ns; /* when to give the buffers back */
	struct log_limit limit;
	struct queue_command *holding; /* answered once idle */
	struct gaps gaps; /* read by anyone, see gaps.h */
	struct meter meter; /* likewise, see meter.h */

	/* set before the thread starts */
	struct mailbox box;
	struct mailbox *main_box;
	const struct queue_callbacks *callbacks;
	void *owner;
	uint32_t domid, devid;
	uint16_t minor;
	uint16_t retry_s;
	struct queue_command commands[NR_QUEUE_COMMANDS];
	struct queue_notice broken_notice, active_notice, gone_notice;
	pthread_t thread;
	sem_t born, go; /* of the thread: see queue_start */
	int tid;

	bool started;
};

struct queue_setup {
	enum abi abi;
	unsigned nr_refs;
	const uint32_t *refs;
	uint32_t domid, devid, port;
	uint16_t minor;
	uint16_t retry_s;
	const char *guest; /* guest_open's name */
	struct mailbox *main_box;
	const struct queue_callbacks *callbacks;
	void *owner;
	struct wait_settings settings;
	enum sync_mode sync;
};

/*
 * Open and map the guest, bind its port.  The queue is HELD.  -ENOMEM or what
 * guest_open, map, bind and ring_attach say (see guest.h, ring.h); then
 * nothing is left behind.
 */
int queue_create(const struct queue_setup *setup, struct queue **out);

/*
 * Start the thread: running on @image, or, with NULL, held.  0 or -errno; an
 * error leaves the queue as queue_create made it.
 */
int queue_start(struct queue *queue, struct image *image);

/* The queue never started, or its gone came: joins the thread. */
void queue_destroy(struct queue *queue);

/*
 * Send a command; callbacks->done runs later, with command->err.  The letter
 * must not be under way (command->posted).
 */
void queue_send(struct queue *queue, enum queue_command_kind kind);

/* Most io it has in flight. */
unsigned queue_depth(const struct queue *queue);

/* Add the counters of @from to @to. */
void queue_counters_add(const struct queue_counters *from,
			struct queue_counters *to);
