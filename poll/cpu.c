/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The governor: see cpu.h.  It gathers, in this order: the host (cpu_host), the
 * other tapdisks (host_page), the costs of a sleep (calibrate); lets cpu_price
 * decide, and tells the data threads (cpu_verdict) and the page.
 */
#include "poll/cpu.h"
#include "poll/clock.h"
#include "poll/cpu_host.h"
#include "poll/host.h"
#include "poll/host_page.h"
#include "poll/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

/*
 * The time between two turns: short at first, so that tapdisks which start
 * together see each other soon, and longer the more there are, so that their
 * governors together cost the same.
 */
#define TURN_FIRST_NS (10 * MS)
#define TURN_NS (200 * MS)
#define TURN_PEER_NS MS
#define QUIET_NS CLOCK_SECOND /* without waits, then the timer stops */
#define CALIBRATE_RETRY_NS (60 * CLOCK_SECOND) /* after a failure */
#define PAGE_RETRY_NS (60 * CLOCK_SECOND)

struct cpu_governor {
	struct cpu_verdict verdict;
	struct cpu_price_settings settings;
	struct cpu_price price;
	struct cpu_price_answer answer;
	struct cpu_host host;
	struct host_page *page;
	char page_path[PATH_MAX];
	uint64_t page_retry_ns;
	int page_err;
	int fd;
	/* the turn before */
	bool asleep;
	bool first; /* turn since it was */
	uint64_t turned_ns;
	uint64_t busy_ns; /* the last turn that saw a wait */
	uint64_t turn_ns; /* until the next */
	uint64_t spent_ns; /* the data threads' counters, as we saw them */
	uint32_t asked, refused, lost;
	size_t nr_peers;
	/* the costs of a sleep */
	struct calibration costs;
	enum calibration_source costs_source;
	uint64_t costs_ns; /* when they were measured */
	uint64_t costs_oldest_ns; /* older ones will not do */
	uint64_t costs_retry_ns;
	int costs_err;
	struct calibrate run;
};

static const struct cpu_price_settings default_settings = {
	.cap_pct = 100,
};

static void use_costs(struct cpu_governor *g)
{
	__atomic_store_n(&g->verdict.wake_ns, g->costs.wake_ns,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&g->verdict.sleep_cpu_ns, g->costs.block_ns,
			 __ATOMIC_RELAXED);
}

static void open_page(struct cpu_governor *g, uint64_t now_ns)
{
	g->page_retry_ns = now_ns + PAGE_RETRY_NS;
	g->page_err = host_page_open(g->page_path, &g->page);
	if (g->page_err)
		log_warn("cpu: %s: the spinning of other tapdisks is not known:"
			 " %s",
			 g->page_path, strerror(-g->page_err));
}

int cpu_open(const char *proc, uint64_t now_ns, struct cpu_governor **out)
{
	struct cpu_governor *g;
	int err;

	g = aligned_alloc(_Alignof(struct cpu_governor), sizeof(*g));
	if (!g)
		return -ENOMEM;
	memset(g, 0, sizeof(*g));
	g->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (g->fd < 0) {
		err = -errno;
		free(g);
		return err;
	}
	g->asleep = true;
	g->settings = default_settings;
	cpu_price_init(&g->price, &g->settings);
	calibrate_defaults(&g->costs);
	g->verdict = (struct cpu_verdict){ .price_q16 = CPU_PRICE_BASE,
					   .allowed = 1,
					   .watch = CPU_ASLEEP,
					   .wake_fd = g->fd };
	use_costs(g);
	g->answer = (struct cpu_price_answer){ .price_q16 = CPU_PRICE_BASE,
					       .allowed = true };
	cpu_host_open(&g->host, proc, now_ns);
	snprintf(g->page_path, sizeof(g->page_path), "%s/tapdisk-poll",
		 host_shm_dir());
	open_page(g, now_ns);
	*out = g;
	return 0;
}

void cpu_close(struct cpu_governor *g)
{
	struct calibration unused;

	if (!g)
		return;
	calibrate_finish(&g->run, true, &unused);
	host_page_close(g->page);
	cpu_host_close(&g->host);
	close(g->fd);
	free(g);
}

void cpu_leave(struct cpu_governor *g)
{
	host_page_close(g->page);
	g->page = NULL;
	g->page_retry_ns = CLOCK_NEVER;
}

struct cpu_verdict *cpu_verdict(struct cpu_governor *g)
{
	return &g->verdict;
}

int cpu_fd(const struct cpu_governor *g)
{
	return g->fd;
}

void cpu_set_guest(struct cpu_governor *g, pid_t pid)
{
	cpu_host_set_guest(&g->host, pid);
}

static void wake_ourselves(struct cpu_governor *g)
{
	const uint64_t one = 1;

	/* it can fail only if it is readable anyway */
	while (write(g->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void cpu_recalibrate(struct cpu_governor *g, uint64_t now_ns)
{
	g->costs_oldest_ns = now_ns;
	g->costs_retry_ns = 0;
}

/* Adopt what a measurement of ours found. */
static void finish_costs(struct cpu_governor *g, uint64_t now_ns)
{
	int err = calibrate_finish(&g->run, false, &g->costs);

	if (err == -EAGAIN)
		return;
	g->costs_err = err;
	if (err) {
		g->costs_retry_ns = now_ns + CALIBRATE_RETRY_NS;
	} else {
		g->costs_source = CALIBRATION_MEASURED;
		g->costs_ns = now_ns;
		use_costs(g);
	}
	if (g->page)
		host_page_calibrated(g->page, now_ns, err ? NULL : &g->costs);
}

/* Somebody waits: get figures that are younger than an hour. */
static void want_costs(struct cpu_governor *g, uint64_t now_ns)
{
	uint64_t oldest = g->costs_oldest_ns;

	if (now_ns > CALIBRATE_VALID_NS && oldest < now_ns - CALIBRATE_VALID_NS)
		oldest = now_ns - CALIBRATE_VALID_NS;
	if (g->run.running || now_ns < g->costs_retry_ns ||
	    (g->costs_source != CALIBRATION_DEFAULT && g->costs_ns >= oldest))
		return;
	if (g->page && !host_page_calibration(g->page, oldest, now_ns,
					      &g->costs, &g->costs_ns)) {
		g->costs_source = CALIBRATION_SHARED;
		g->costs_err = 0;
		use_costs(g);
		return;
	}
	if (g->page && host_page_calibrating(g->page) == -EAGAIN)
		return; /* somebody else does: look again at the next turn */
	g->costs_err = calibrate_start(&g->run, g->fd);
	if (g->costs_err) {
		g->costs_retry_ns = now_ns + CALIBRATE_RETRY_NS;
		if (g->page)
			host_page_calibrated(g->page, now_ns, NULL);
	}
}

static void publish(struct cpu_governor *g, uint64_t now_ns, bool active)
{
	struct host_page_slot slot = {
		.written_ns = now_ns,
		.spin_ns = g->spent_ns,
		.rate = g->answer.rate,
		.active = active,
		.hungry = g->answer.hungry,
	};

	if (!g->page && now_ns >= g->page_retry_ns)
		open_page(g, now_ns);
	if (!g->page || !host_page_publish(g->page, &slot))
		return;
	/* removed or cut under us: the others will find the new one too */
	host_page_close(g->page);
	g->page = NULL;
	open_page(g, now_ns);
	if (g->page)
		host_page_publish(g->page, &slot);
}

/* All that tapdisks spin, ns a second; a claim counts up to a fair share. */
static uint64_t all_spinning(const struct cpu_governor *g,
			     const struct cpu_price_peer *peers, size_t n)
{
	uint64_t sum = 0, most = g->answer.share;

	if (!most || most > CPU_PRICE_CPU)
		most = CPU_PRICE_CPU;
	for (size_t i = 0; i < n; i++)
		sum += peers[i].rate < most ? peers[i].rate : most;
	return sum;
}

/* The data threads' counters, and how they grew. */
static void read_counters(struct cpu_governor *g, struct cpu_price_inputs *in)
{
	struct cpu_verdict *v = &g->verdict;
	uint64_t spent = counter_read(&v->spent_ns);
	uint32_t asked = __atomic_load_n(&v->asked, __ATOMIC_RELAXED);
	uint32_t refused = __atomic_load_n(&v->refused, __ATOMIC_RELAXED);
	uint32_t lost = __atomic_load_n(&v->lost, __ATOMIC_RELAXED);

	in->wanted_ns = __atomic_exchange_n(&v->wanted_ns, 0, __ATOMIC_RELAXED);
	in->spent_ns = spent - g->spent_ns;
	in->asked = asked - g->asked;
	in->refused = refused - g->refused;
	in->lost = lost - g->lost;
	g->spent_ns = spent;
	g->asked = asked;
	g->refused = refused;
	g->lost = lost;
}

/* Decide anew, and tell the data threads. */
static void step(struct cpu_governor *g, uint64_t now_ns)
{
	struct cpu_price_inputs in = {
		.elapsed_ns = now_ns > g->turned_ns ? now_ns - g->turned_ns : 0,
		.first = g->first,
		.next_ns = g->turn_ns,
	};
	struct cpu_price_answer *answer = &g->answer;

	read_counters(g, &in);
	if (g->page)
		in.nr_peers = host_page_peers(g->page, now_ns, &in.peers);
	g->nr_peers = in.nr_peers;
	cpu_host_read(&g->host, now_ns, g->spent_ns,
		      all_spinning(g, in.peers, in.nr_peers));
	in.idle_bp = g->host.idle_bp;
	in.pressure_bp = g->host.pressure_bp;
	cpu_price_step(&g->price, &g->settings, &in, answer);
	g->turned_ns = now_ns;
	g->first = false;

	__atomic_store_n(&g->verdict.price_q16, answer->price_q16,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&g->verdict.allowed, answer->allowed,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&g->verdict.limit_ns,
			 answer->purse_ns == UINT64_MAX
				 ? UINT64_MAX
				 : g->spent_ns + answer->purse_ns,
			 __ATOMIC_RELAXED);
}

void cpu_configure(struct cpu_governor *g,
		   const struct cpu_price_settings *settings)
{
	g->settings = *settings;
	cpu_price_init(&g->price, settings);
	/* at once if data threads wait, or else at their next wait */
	if (!g->asleep)
		wake_ourselves(g);
}

/* Has a wait begun since the last turn? */
static bool waits(struct cpu_governor *g)
{
	uint32_t watch = CPU_BUSY;

	return __atomic_compare_exchange_n(&g->verdict.watch, &watch, CPU_QUIET,
					   false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

/* False: a wait has begun just now. */
static bool fall_asleep(struct cpu_governor *g, uint64_t now_ns)
{
	uint32_t watch = CPU_QUIET;

	if (!__atomic_compare_exchange_n(&g->verdict.watch, &watch, CPU_ASLEEP,
					 false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return false;
	g->asleep = true;
	publish(g, now_ns, false);
	return true;
}

static void next_turn(struct cpu_governor *g)
{
	uint64_t most = TURN_NS + g->nr_peers * TURN_PEER_NS;

	/* not all in step: up to a tenth more, by process */
	most += most / 10 * ((unsigned)getpid() % 16) / 16;
	g->turn_ns = g->turn_ns ? 2 * g->turn_ns : TURN_FIRST_NS;
	if (g->turn_ns > most)
		g->turn_ns = most;
}

uint64_t cpu_run(struct cpu_governor *g, uint64_t now_ns)
{
	uint64_t kicks;

	/* before the counters: a kick that comes later is for a later run */
	if (read(g->fd, &kicks, sizeof(kicks)) < 0 && errno == EINTR)
		wake_ourselves(g);
	if (g->run.running)
		finish_costs(g, now_ns);
	if (waits(g)) {
		g->busy_ns = now_ns;
		if (g->asleep) {
			g->turn_ns = 0;
			g->first = true;
		}
		g->asleep = false;
		want_costs(g, now_ns);
	} else if (g->asleep || (now_ns - g->busy_ns >= QUIET_NS &&
				 fall_asleep(g, now_ns))) {
		return CLOCK_NEVER;
	}
	next_turn(g);
	publish(g, now_ns, true);
	step(g, now_ns);
	return g->turn_ns;
}

static void say(char *out, size_t size, const char *what, int err)
{
	if (err)
		snprintf(out, size, "%s: %s", what, strerror(-err));
	else
		out[0] = '\0';
}

void cpu_report(const struct cpu_governor *g, struct cpu_report *out)
{
	*out = (struct cpu_report){
		.price_q16 = g->answer.price_q16,
		.allowed = g->answer.allowed,
		.idle_bp = g->host.idle_bp,
		.pressure_bp = g->host.pressure_bp,
		.cpumond_bp = g->host.cpumond_bp,
		.idle_source = g->host.idle_source,
		.tapdisks = (uint32_t)g->nr_peers + !g->asleep,
		.rate = g->asleep ? 0 : g->answer.rate,
		.share = g->settings.cap_pct ? g->answer.share : UINT32_MAX,
		.costs = g->costs,
		.costs_source = g->costs_source,
	};
	say(out->page_why, sizeof(out->page_why),
	    "the spinning of other tapdisks is not known", g->page_err);
	say(out->idle_why, sizeof(out->idle_why),
	    "idle CPU is not known, spinning is not gated", g->host.err);
	say(out->costs_why, sizeof(out->costs_why),
	    "the costs of a sleep are assumed", g->costs_err);
}
