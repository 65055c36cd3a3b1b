/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who sends which I/O when; see load.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "poll/clock.h"
#include "tests/bench/load_state.h"
#include "tests/bench/random.h"
#include "tests/bench/watchdog.h"
#include "tests/frontend.h"

static const struct {
	bool random;
	bool reads, writes, discards;
} modes[NR_LOAD_MODES] = {
	[LOAD_RANDREAD] = { .random = true, .reads = true },
	[LOAD_RANDWRITE] = { .random = true, .writes = true },
	[LOAD_READ] = { .reads = true },
	[LOAD_WRITE] = { .writes = true },
	[LOAD_RANDRW] = { .random = true, .reads = true, .writes = true },
	[LOAD_DISCARD] = { .random = true, .discards = true },
};

/* Data that no layer below can mistake for a hole. */
static void fill_pages(struct frontend *f, uint64_t *seed)
{
	unsigned tag, i;
	uint64_t *words;

	for (tag = 0; tag < frontend_slots(f); tag++) {
		words = frontend_data(f, tag);
		for (i = 0; i < LOAD_REQUEST_BYTES / 8; i++)
			words[i] = random_next(seed);
	}
}

int load_open(const struct load_options *options, struct frontend *f,
	      struct watchdog *watchdog, struct load **out)
{
	uint64_t nr_blocks = options->size / options->block_bytes;
	struct load *l = calloc(1, sizeof(*l));
	int err = -ENOMEM;

	if (!l)
		return err;
	l->options = *options;
	l->frontend = f;
	l->watchdog = watchdog;
	l->seed = clock_ns();
	l->nr_ios = options->burst ? options->burst : options->depth;
	l->ios = calloc(l->nr_ios + 1, sizeof(*l->ios));
	l->waiting = calloc(l->nr_ios + 1, sizeof(*l->waiting));
	if (!l->ios || !l->waiting)
		goto out;
	err = blocks_init(&l->blocks, nr_blocks, modes[options->mode].random,
			  options->verify, random_next(&l->seed));
	if (!err && options->verify)
		err = stamps_init(&l->stamps, options->block_bytes, nr_blocks,
				  random_next(&l->seed));
	if (err)
		goto out;
	fill_pages(f, &l->seed);
	*out = l;
	l = NULL;
out:
	if (l)
		load_close(l);
	return err;
}

void load_close(struct load *l)
{
	blocks_fini(&l->blocks);
	stamps_fini(&l->stamps);
	free(l->ios);
	free(l->waiting);
	free(l);
}

const struct load_result *load_result(const struct load *l)
{
	return &l->result;
}

/* ---- sending ---- */

static uint8_t pick_op(struct load *l)
{
	enum load_mode mode = l->options.mode;

	if (modes[mode].discards)
		return BLKIF_OP_DISCARD;
	if (modes[mode].reads && modes[mode].writes)
		return random_next(&l->seed) & 1 ? BLKIF_OP_READ
						 : BLKIF_OP_WRITE;
	return modes[mode].reads ? BLKIF_OP_READ : BLKIF_OP_WRITE;
}

/* False if every block is in flight. */
static bool send_io(struct load *l, struct load_io *io, uint64_t begin_ns)
{
	if (blocks_take(&l->blocks, &io->block))
		return false;
	io->op = pick_op(l);
	io->offset = io->block * l->options.block_bytes;
	io->len = l->options.block_bytes;
	if (l->options.verify)
		io->generation = stamps_generation(&l->stamps, io->block) + 1;
	io->begin_ns = begin_ns;
	if (io->end_ns) {
		l->result.thoughts++;
		l->result.think_ns += begin_ns - io->end_ns;
	}
	transfer_start(l, io);
	l->since_flush++;
	return true;
}

static bool flush_is_due(const struct load *l)
{
	return l->options.flush_every &&
	       l->since_flush >= l->options.flush_every;
}

static void send_flush(struct load *l)
{
	struct load_io *io = &l->ios[l->nr_ios];

	io->op = BLKIF_OP_FLUSH_DISKCACHE;
	io->offset = 0;
	io->len = 0;
	transfer_start(l, io);
}

/* When arrival @n of a load with a rate is due; bursts arrive together. */
static uint64_t arrival_ns(const struct load *l, uint64_t n)
{
	uint64_t burst = l->options.burst ? l->options.burst : 1;
	uint64_t first = n / burst * burst; /* of its burst */
	double seconds = (double)first / l->options.rate;

	return l->start_ns + (uint64_t)(seconds * 1e9);
}

static void send_arrivals(struct load *l, uint64_t now_ns)
{
	uint64_t due_ns;
	uint32_t i;

	for (i = 0; i < l->nr_ios && !flush_is_due(l); i++) {
		if (l->ios[i].active)
			continue;
		due_ns = arrival_ns(l, l->arrivals);
		l->ios[i].end_ns = 0; /* nobody thinks */
		if (due_ns > now_ns || !send_io(l, &l->ios[i], due_ns))
			break;
		l->arrivals++;
	}
}

/* How many I/Os the next one has. */
static uint32_t begin_batch(struct load *l)
{
	l->batches++;
	if (l->options.burst_every && l->batches % l->options.burst_every)
		return 1;
	return l->options.burst;
}

static void send_batch(struct load *l, uint64_t now_ns)
{
	uint32_t i;

	if (!l->batch_left && !l->active && now_ns >= l->batch_due_ns)
		l->batch_left = begin_batch(l);
	for (i = 0; i < l->nr_ios && l->batch_left && !flush_is_due(l); i++) {
		if (l->ios[i].active)
			continue;
		if (!send_io(l, &l->ios[i], now_ns))
			break;
		l->batch_left--;
	}
}

static void send_users(struct load *l, uint64_t now_ns)
{
	uint32_t i;

	for (i = 0; i < l->nr_ios && !flush_is_due(l); i++) {
		if (l->ios[i].active || now_ns < l->ios[i].due_ns)
			continue;
		if (!send_io(l, &l->ios[i], now_ns))
			break;
	}
}

static void send_what_is_due(struct load *l)
{
	uint64_t now_ns = clock_ns();

	if (flush_is_due(l)) {
		if (!l->active)
			send_flush(l);
		return;
	}
	if (l->options.rate)
		send_arrivals(l, now_ns);
	else if (l->options.burst)
		send_batch(l, now_ns);
	else
		send_users(l, now_ns);
}

/* The first time something is to be sent if nothing is answered before. */
static uint64_t next_due_ns(const struct load *l)
{
	uint64_t due_ns = CLOCK_NEVER;
	uint32_t i;

	if (flush_is_due(l))
		return l->active ? CLOCK_NEVER : 0;
	if (l->options.rate)
		return l->active < l->nr_ios ? arrival_ns(l, l->arrivals)
					     : CLOCK_NEVER;
	if (l->options.burst)
		return l->active ? CLOCK_NEVER : l->batch_due_ns;
	for (i = 0; i < l->nr_ios; i++)
		if (!l->ios[i].active && l->ios[i].due_ns < due_ns)
			due_ns = l->ios[i].due_ns;
	return due_ns;
}

/* ---- answers ---- */

static uint64_t think_ns(struct load *l)
{
	double mean = (double)l->options.think_ns;

	if (!l->options.think_exp)
		return l->options.think_ns;
	return (uint64_t)(-log(random_unit(&l->seed)) * mean);
}

static void flush_ended(struct load *l, uint64_t now_ns)
{
	uint32_t i;

	l->since_flush = 0;
	l->result.flushes++;
	l->batch_due_ns = now_ns + think_ns(l);
	for (i = 0; i < l->nr_ios; i++) {
		if (l->ios[i].end_ns)
			l->ios[i].end_ns = now_ns;
		l->ios[i].due_ns = now_ns + think_ns(l);
	}
}

static void remember(struct load *l, const struct load_io *io)
{
	if (io->op == BLKIF_OP_WRITE && io->failed)
		stamps_unsure(&l->stamps, io->block);
	else if (io->op == BLKIF_OP_WRITE)
		stamps_written(&l->stamps, io->block, io->generation);
	else if (io->op == BLKIF_OP_DISCARD)
		stamps_discarded(&l->stamps, io->block);
}

/* A batch thinks once, after its last answer: all of it ended then. */
static void batch_ended(struct load *l, uint64_t now_ns)
{
	uint32_t i;

	l->batch_due_ns = now_ns + think_ns(l);
	for (i = 0; i < l->nr_ios; i++)
		l->ios[i].end_ns = i == 0 ? now_ns : 0;
}

static void io_ended(struct load *l, struct load_io *io, uint64_t now_ns)
{
	if (io == &l->ios[l->nr_ios]) {
		flush_ended(l, now_ns);
		return;
	}
	l->result.ios++;
	histogram_add(&l->result.latency,
		      now_ns > io->begin_ns ? now_ns - io->begin_ns : 0);
	if (l->options.verify)
		remember(l, io);
	blocks_give(&l->blocks, io->block);
	io->end_ns = l->options.burst ? 0 : now_ns;
	io->due_ns = now_ns + think_ns(l);
	if (l->options.burst && !l->active && !l->batch_left)
		batch_ended(l, now_ns);
}

/* Wait for an answer until @until_ns, then take all there are. */
static int take_answers(struct load *l, uint64_t until_ns)
{
	struct frontend_response response;
	uint64_t now_ns = clock_ns();
	struct load_io *io;
	int n, err = 0;

	n = frontend_wait(l->frontend,
			  until_ns > now_ns ? until_ns - now_ns : 0, &response);
	now_ns = clock_ns();
	if (n == -ETIMEDOUT)
		return transfer_stalled(l, now_ns);
	while (n > 0) {
		l->progress_ns = now_ns;
		io = transfer_answer(l, &response, &err);
		if (err)
			return err;
		if (io)
			io_ended(l, io, now_ns);
		n = frontend_take(l->frontend, &response);
	}
	return n;
}

/* Nothing is in flight: think, or wait for the next arrival. */
static void idle_until(struct load *l, uint64_t until_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / CLOCK_SECOND),
		.tv_nsec = (long)(until_ns % CLOCK_SECOND),
	};

	if (!l->options.spin)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	do
		l->progress_ns = clock_ns();
	while (l->progress_ns < until_ns);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What is still in flight: its time is not the load's to waste. */
static int drain(struct load *l)
{
	int err = 0;

	while (l->active && !err) {
		transfer_pump(l);
		err = take_answers(l, clock_ns() + WATCHDOG_SLICE_NS);
	}
	return err;
}

int load_run(struct load *l)
{
	uint64_t now_ns = clock_ns(), end_ns = now_ns + l->options.runtime_ns;
	uint64_t until_ns, arrived;
	int err = 0;

	l->start_ns = now_ns;
	l->progress_ns = now_ns;
	while (now_ns < end_ns && !err) {
		send_what_is_due(l);
		transfer_pump(l);
		until_ns = earlier(next_due_ns(l), now_ns + WATCHDOG_SLICE_NS);
		until_ns = earlier(until_ns, end_ns);
		if (l->active)
			err = take_answers(l, until_ns);
		else
			idle_until(l, until_ns);
		now_ns = clock_ns();
		if (!err)
			err = watchdog_look(l->watchdog, now_ns);
	}
	if (!err)
		err = drain(l);
	l->result.elapsed_ns = clock_ns() - l->start_ns;
	if (l->options.rate) {
		arrived = (uint64_t)((double)l->options.runtime_ns / 1e9 *
				     l->options.rate);
		if (arrived > l->arrivals)
			l->result.late = arrived - l->arrivals;
	}
	return err;
}
