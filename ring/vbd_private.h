/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of vbd.h share: vbd.c (the image's life), vbd_ring.c (the
 * rings), vbd_report.c (what both are doing).  Nobody else includes this.
 */
#pragma once

#include "poll/cpu.h"
#include "poll/loop.h"
#include "poll/mailbox.h"
#include "ring/main_port.h"
#include "ring/queue.h"
#include "ring/vbd.h"
#include "ring/vbd_state.h"

/* What other programs read of a ring: files under host_shm_dir. */
struct vbd_metrics {
	bool open;
	bool told; /* by the data thread's letter: it may be used again */
	int vbd_fd, statistics_fd; /* -1: could not be made */
	struct loop_timer timer; /* set while there is activity */
	uint64_t read; /* meter_read's number of what was written last */
	uint64_t io_ring_read; /* likewise, for io_ring */
	uint64_t io_ring_ns; /* when that may be written again */
};

/* main's half of a queue */
struct vbd_ring {
	struct vbd_ring *next;
	struct vbd *vbd;
	struct queue *queue;
	bool held; /* takes nothing and has no port */
	bool disconnected; /* told to; drains */
	bool broken;
	bool reconfigure; /* settings changed while a letter was under way */
	struct vbd_reply *reply; /* of the disconnect */
	struct loop_timer timer; /* the disconnect's patience */
	struct loop_watch death; /* of a guest that can die visibly; fd -1 */
	struct gaps_trace
		*trace; /* of its thread, or on the way to or from it */
	bool poll_now; /* said while a letter was under way */
	struct vbd_metrics metrics;
};

struct vbd {
	struct loop *loop;
	struct mailbox box; /* from data threads */
	struct loop_watch box_watch;
	struct loop_defer progress;
	struct vbd_listener listener;
	uint16_t minor;
	int marker_fd;

	enum vbd_state state;
	uint32_t closed_word; /* what an EMPTY one shows */
	bool forced; /* closed by force: the image goes without a flush */
	bool destroyed; /* free it when the last ring is gone */
	char spec[VBD_SPEC_MAX];
	struct vbd_open_options options;
	struct vbd_disk_info info;
	struct image *image; /* until the last I/O on it has ended */
	struct main_port *port;
	struct io flush; /* before the image is closed */
	bool flushing, flushed;
	int flush_err;
	struct loop_timer flush_again; /* it was refused */
	uint64_t flush_since_ns;

	struct vbd_user user; /* fn NULL: none */
	unsigned user_io; /* between vbd_submit and done */
	struct io *user_again; /* refused */
	struct loop_timer user_timer;

	struct vbd_reply *pause_replies, *close_replies;
	struct {
		struct vbd_reply *reply; /* NULL: no resume under way */
		struct loop_timer timer;
		unsigned tries;
		bool shrink;
		unsigned driver_flags;
		char spec[VBD_SPEC_MAX];
	} resume;

	struct vbd_ring *rings; /* newest first */
	struct queue_counters dead; /* of rings that are gone */
	struct wait_counters dead_waits;
	struct gaps_histogram dead_gaps[GAPS_KINDS];
	struct gaps_histogram dead_latency[NR_METER_LATENCIES];

	bool tracing; /* somebody asked lately */
	uint64_t trace_next; /* numbers of waits go on from ring to ring */
	struct loop_timer trace_timer;

	struct granularity granularity;
	struct cpu_governor *governor;
	struct loop_watch governor_watch;
	struct loop_timer governor_timer;
	struct vbd_polling base, override;
	enum vbd_polling_source base_source;
	bool overridden; /* by tap-ctl */
};

/* Look at everything anew, from the loop: what can go on goes on. */
void vbd_progress_later(struct vbd *vbd);

void vbd_tell(struct vbd *vbd, enum vbd_event event);

/* ---- vbd_ring.c ---- */

/* No ring uses the image: each is held, or gone. */
bool vbd_rings_quiet(const struct vbd *vbd);
bool vbd_rings_draining(const struct vbd *vbd);
void vbd_rings_hold(struct vbd *vbd);
void vbd_rings_release(struct vbd *vbd); /* those that are held */
void vbd_rings_disconnect(struct vbd *vbd);

/* ---- vbd_user.c ---- */

void vbd_user_tell(struct vbd *vbd, enum vbd_user_event event);

/* ---- vbd_trace.c ---- */

/* The ring's thread gets or gives back what it records into. */
void vbd_trace_step(struct vbd_ring *ring);
void vbd_trace_gone(struct vbd_ring *ring); /* the ring is about to be */
void vbd_trace_end(struct vbd *vbd);

/* ---- vbd_report.c ---- */

const struct vbd_polling *vbd_polling_now(const struct vbd *vbd);
void vbd_wait_settings(const struct vbd *vbd, struct wait_settings *out);
enum sync_mode vbd_sync(const struct vbd *vbd);
uint64_t vbd_window_ns(const struct vbd *vbd); /* one, also in event mode */
void vbd_waits_add(const struct wait_counters *from, struct wait_counters *to);

/* ---- vbd_metrics.c ---- */

/* The process's directory.  Without it, or without a file, we serve on. */
void vbd_metrics_init(const struct vbd *vbd);
void vbd_metrics_fini(const struct vbd *vbd);

void vbd_metrics_open(struct vbd_ring *ring);
void vbd_metrics_active(struct vbd_ring *ring); /* the data thread says so */
void vbd_metrics_close(struct vbd_ring *ring); /* open or not */

/* ---- vbd_governor.c ---- */

int vbd_governor_open(struct vbd *vbd); /* 0, or what cpu_open says */
void vbd_governor_close(struct vbd *vbd);
void vbd_governor_configure(struct vbd *vbd); /* as the polling settings say */
