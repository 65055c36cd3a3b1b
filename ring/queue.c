/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data thread: its life, its commands, what it waits for.  What it does
 * with requests is in serve.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/counter.h"
#include "poll/host.h"
#include "ring/queue.h"
#include "ring/serve.h"

enum {
	STACK_SIZE = 128 * 1024,
	DEPTH_MAX = 128, /* AIO events reserved for a ring at most */
};

#define TRIM_NS (3 * CLOCK_SECOND) /* idle for so long: buffers go back */

/* ---- waiting ---- */

static void tell_activity(struct queue *queue)
{
	if (meter_must_tell(&queue->meter))
		mailbox_post(queue->main_box, &queue->active_notice.mail);
}

static bool ring_source_arm(void *arg)
{
	struct queue *queue = arg;
	bool more;

	if (queue->pool.dirty && queue->pool.used == 0 &&
	    queue->trim_ns == CLOCK_NEVER) {
		queue->trim_ns = clock_ns() + TRIM_NS;
		serve_set_due(queue);
	}
	/* nothing the guest sends could be taken: it need not wake us */
	if (!serve_takes(queue))
		return false;
	if (queue->masked) {
		queue->masked = false;
		queue->guest_ops->rearm(queue->guest);
	}
	queue->armed = true;
	more = ring_arm(&queue->ring);
	/* behind ring_arm's barrier: what main missed it is told now */
	tell_activity(queue);
	return more;
}

static void ring_source_disarm(void *arg)
{
	struct queue *queue = arg;

	if (queue->armed)
		ring_disarm(&queue->ring);
	queue->armed = false;
}

static void ring_source_woken(void *arg)
{
	struct queue *queue = arg;

	/* unmasked before the next sleep, when the ring has been served */
	if (queue->guest_ops->take(queue->guest) > 0)
		counter_add(&queue->counters.guest_events, 1);
	queue->masked = true;
}

/* What a spin looks at: the guest's index, if it may send anything. */
static void watch_ring(struct queue *queue)
{
	if (serve_takes(queue))
		wait_watch(&queue->wait, &queue->ring_source,
			   &queue->ring.shared->req_prod, queue->ring.req_cons);
	else
		wait_watch(&queue->wait, &queue->ring_source, NULL, 0);
}

/* ---- the image ---- */

unsigned queue_depth(const struct queue *queue)
{
	unsigned slots = ring_slots(&queue->ring);

	return slots < DEPTH_MAX ? slots : DEPTH_MAX;
}

static int release(struct queue *queue, struct image *image)
{
	int err;

	if (queue->state != RING_HELD)
		return 0;
	err = image_port_open(image, &queue->wait, queue_depth(queue),
			      &queue->port);
	if (err)
		return err;
	queue->state = ring_state_next(queue->state, RING_EV_RELEASE);
	return 0;
}

static void disconnect(struct queue *queue)
{
	queue->state = ring_state_next(queue->state, RING_EV_DISCONNECT);
	watch_ring(queue);
	queue->armed = false;
	queue->guest_ops->unbind(queue->guest);
	queue->guest_ops->unmap(queue->guest);
	serve_abandon(queue);
	queue->trim_ns = CLOCK_NEVER;
	serve_set_due(queue);
}

static void close_port(struct queue *queue)
{
	image_port_close(queue->port);
	queue->port = NULL;
}

/* ---- commands, run by the data thread from its mailbox ---- */

static void answer(struct queue_command *command, int err);

static void run_command(struct mail *mail)
{
	struct queue_command *command = (struct queue_command *)mail;
	struct queue *queue = command->queue;

	switch (command->kind) {
	case QUEUE_HOLD:
		queue->state = ring_state_next(queue->state, RING_EV_HOLD);
		queue->holding = command; /* answered once idle */
		break;
	case QUEUE_RELEASE:
		answer(command, release(queue, command->image));
		break;
	case QUEUE_DISCONNECT:
		disconnect(queue);
		answer(command, 0);
		break;
	case QUEUE_CONFIGURE:
		wait_configure(&queue->wait, &command->settings);
		queue->sync.mode = command->sync;
		answer(command, 0);
		break;
	case QUEUE_TRACE:
		queue->gaps.trace = command->trace;
		answer(command, 0);
		break;
	case QUEUE_FORCE:
		wait_force(&queue->wait, command->force_ns);
		answer(command, 0);
		break;
	case NR_QUEUE_COMMANDS:
		break;
	}
}

/* ---- answers and notices, run by main from its mailbox ---- */

static void command_done(struct mail *mail)
{
	struct queue_command *command = (struct queue_command *)mail;

	command->posted = false;
	command->queue->callbacks->done(command);
}

static void answer(struct queue_command *command, int err)
{
	command->err = err;
	command->mail.fn = command_done;
	mailbox_post(command->queue->main_box, &command->mail);
}

static void broken_notice(struct mail *mail)
{
	struct queue_notice *notice = (struct queue_notice *)mail;

	notice->queue->callbacks->broken(notice->queue);
}

static void active_notice(struct mail *mail)
{
	struct queue_notice *notice = (struct queue_notice *)mail;

	notice->queue->callbacks->active(notice->queue);
}

static void gone_notice(struct mail *mail)
{
	struct queue_notice *notice = (struct queue_notice *)mail;

	notice->queue->callbacks->gone(notice->queue);
}

void queue_send(struct queue *queue, enum queue_command_kind kind)
{
	struct queue_command *command = &queue->commands[kind];

	command->posted = true;
	command->mail.fn = run_command;
	mailbox_post(&queue->box, &command->mail);
}

/* ---- the thread ---- */

static bool box_arm(void *arg)
{
	return mailbox_arm(arg);
}

static void box_disarm(void *arg)
{
	mailbox_disarm(arg);
}

static enum wait_kind kind_of_wait(const struct queue *queue)
{
	if (queue->state != RING_RUNNING)
		return WAIT_NOBODY;
	switch (queue->pool.used) {
	case 0:
		return WAIT_GUEST;
	case 1:
		return WAIT_DEVICE;
	default:
		return WAIT_BOTH;
	}
}

static void *data_thread(void *arg)
{
	struct queue *queue = arg;
	bool was_broken = false, active;
	uint32_t word;

	queue->tid = (int)syscall(SYS_gettid);
	sem_post(&queue->born);
	sem_wait(&queue->go);
	/* for top and ps; the process keeps its name */
	prctl(PR_SET_NAME, "tapdisk-ring");
	/* dates of retries and delays are kept to the nanosecond */
	prctl(PR_SET_TIMERSLACK, 1);
	while (queue->state != RING_GONE) {
		/* before the letters: what comes while they run is not seen */
		word = __atomic_load_n(&queue->box.word, __ATOMIC_ACQUIRE);
		wait_seen(&queue->wait, &queue->box_source, word);
		active = mailbox_run(&queue->box) > 0;
		active |= serve_turn(queue);
		tell_activity(queue);
		watch_ring(queue);
		if (queue->state == RING_BROKEN && !was_broken) {
			was_broken = true;
			mailbox_post(queue->main_box,
				     &queue->broken_notice.mail);
		}
		if (serve_idle(queue)) {
			queue->state =
				ring_state_next(queue->state, RING_EV_IDLE);
			if (queue->holding) {
				close_port(queue);
				answer(queue->holding, 0);
				queue->holding = NULL;
			}
			if (queue->state == RING_GONE)
				break;
		}
		wait_for(&queue->wait, active, kind_of_wait(queue));
	}
	close_port(queue);
	/* last: main joins us and frees the queue */
	mailbox_post(queue->main_box, &queue->gone_notice.mail);
	return NULL;
}

/* The thread opens nothing: what it reads of itself is opened for it. */
static void open_schedstat(struct queue *queue)
{
	char path[64];

	sem_wait(&queue->born);
	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat",
		 queue->tid);
	queue->wait.schedstat_fd = host_open(path, O_RDONLY);
	sem_post(&queue->go);
}

int queue_start(struct queue *queue, struct image *image)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	if (image) {
		err = release(queue, image);
		if (err)
			return err;
	}
	err = -pthread_attr_init(&attr);
	if (err)
		goto close_port;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = -pthread_create(&queue->thread, &attr, data_thread, queue);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		goto close_port;
	queue->started = true;
	open_schedstat(queue);
	return 0;
close_port:
	close_port(queue);
	queue->state = RING_HELD;
	return err;
}

static int attach_guest(struct queue *queue, const struct queue_setup *setup)
{
	void *shared;
	int err;

	err = guest_open(setup->guest, setup->domid, &queue->guest);
	if (err)
		return err;
	queue->guest_ops = queue->guest->ops;
	err = queue->guest_ops->map(queue->guest, setup->refs, setup->nr_refs,
				    &shared);
	if (err)
		return err;
	err = ring_attach(&queue->ring, setup->abi, shared, setup->nr_refs);
	if (err)
		return err;
	return queue->guest_ops->bind(queue->guest, setup->port, &queue->wait,
				      &queue->ring_source);
}

static int init_sources(struct queue *queue)
{
	int err;

	queue->staged_tail = &queue->staged;
	queue->answers_tail = &queue->answers;
	queue->trim_ns = CLOCK_NEVER;
	queue->ring_source = (struct wait_source){
		.arm = ring_source_arm,
		.disarm = ring_source_disarm,
		.woken = ring_source_woken,
		.arg = queue,
		.due_ns = CLOCK_NEVER,
	};
	queue->clock_source = (struct wait_source){ .due_ns = CLOCK_NEVER };
	err = wait_add(&queue->wait, &queue->ring_source, NULL);
	if (err)
		return err;
	return wait_add(&queue->wait, &queue->clock_source, NULL);
}

int queue_create(const struct queue_setup *setup, struct queue **out)
{
	struct queue *queue;
	unsigned slots = abi_ring_slots(setup->abi, setup->nr_refs);
	int err;

	queue = aligned_alloc(64, (sizeof(*queue) + 63) & ~63ul);
	if (!queue)
		return -ENOMEM;
	memset(queue, 0, sizeof(*queue));
	queue->domid = setup->domid;
	queue->devid = setup->devid;
	queue->minor = setup->minor;
	queue->retry_s = setup->retry_s;
	queue->main_box = setup->main_box;
	queue->callbacks = setup->callbacks;
	queue->owner = setup->owner;
	queue->state = RING_HELD;
	for (unsigned i = 0; i < NR_QUEUE_COMMANDS; i++) {
		queue->commands[i].queue = queue;
		queue->commands[i].kind = (enum queue_command_kind)i;
	}
	queue->broken_notice = (struct queue_notice){ .mail.fn = broken_notice,
						      .queue = queue };
	queue->active_notice = (struct queue_notice){ .mail.fn = active_notice,
						      .queue = queue };
	queue->gone_notice =
		(struct queue_notice){ .mail.fn = gone_notice, .queue = queue };
	sem_init(&queue->born, 0, 0);
	sem_init(&queue->go, 0, 0);
	err = mailbox_init(&queue->box);
	if (err)
		goto free_queue;
	err = wait_init(&queue->wait, false);
	if (err)
		goto fini_box;
	wait_configure(&queue->wait, &setup->settings);
	queue->wait.gaps = &queue->gaps;
	queue->sync.mode = setup->sync;
	queue->copies = calloc((size_t)slots * PARSE_SEGMENTS_MAX,
			       sizeof(*queue->copies));
	err = queue->copies ? req_pool_init(&queue->pool, slots, queue)
			    : -ENOMEM;
	if (err)
		goto fini_wait;
	queue->box_source = (struct wait_source){
		.arm = box_arm,
		.disarm = box_disarm,
		.arg = &queue->box,
		.due_ns = CLOCK_NEVER,
	};
	err = init_sources(queue);
	if (!err)
		err = wait_add(&queue->wait, &queue->box_source,
			       &queue->box.word);
	if (!err)
		err = wait_add_fd(&queue->wait, &queue->box_source,
				  queue->box.fd, EPOLLIN);
	if (!err)
		err = attach_guest(queue, setup);
	if (err)
		goto close_guest;
	*out = queue;
	return 0;
close_guest:
	if (queue->guest)
		queue->guest_ops->close(queue->guest);
	req_pool_fini(&queue->pool);
fini_wait:
	free(queue->copies);
	wait_fini(&queue->wait);
fini_box:
	mailbox_fini(&queue->box);
free_queue:
	free(queue);
	return err;
}

void queue_destroy(struct queue *queue)
{
	if (queue->started)
		pthread_join(queue->thread, NULL);
	/* letters the thread left unread are ours, and go with us */
	queue->box.newest = NULL;
	queue->guest_ops->close(queue->guest);
	req_pool_fini(&queue->pool);
	free(queue->copies);
	wait_fini(&queue->wait);
	mailbox_fini(&queue->box);
	free(queue);
}

void queue_counters_add(const struct queue_counters *from,
			struct queue_counters *to)
{
	const uint64_t *f = (const uint64_t *)from;
	uint64_t *t = (uint64_t *)to;

	for (size_t i = 0; i < sizeof(*from) / sizeof(*f); i++)
		t[i] += counter_read(&f[i]);
}
