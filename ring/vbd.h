/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One virtual disk: an image, and the rings of the guests that use it.  Start
 * reading here.
 *
 * Everything in this file belongs to the main thread.  A ring's data thread
 * (queue.h) does the I/O; main talks to it by mail and never waits for it, so
 * a thread that is stuck in a device delays no answer.  What cannot be
 * answered at once is answered through a struct vbd_reply.
 *
 * Logs what an operator did and what a guest did wrong (rate-limited).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "drivers/image.h"
#include "poll/cpu.h"
#include "poll/granularity.h"
#include "poll/sync.h"
#include "poll/wait.h"
#include "ring/abi.h"
#include "ring/meter.h"

#define VBD_RING_PAGES_MAX 16
#define VBD_CAP_MAX 102400 /* per cent of a CPU: 1024 CPUs */
#define VBD_CAP_DEFAULT 100
#define VBD_SPEC_MAX                                             \
	256 /* "type:path" with its NUL: the control wire's size \
	     */

struct loop;
struct vbd;

/*
 * Called once, later or from within the call that takes it; err is 0 or
 * -errno.  The caller keeps the structure until then.
 */
struct vbd_reply {
	void (*fn)(struct vbd_reply *reply, int err);
	struct vbd_reply *next; /* vbd's own */
};

/* What happens to the disk, for those who listen (control message 134). */
enum vbd_event {
	VBD_RESIZED, /* unpaused with a larger image */
	VBD_RING_BROKEN, /* a guest broke the rules of the ring */
	VBD_PAUSED,
	VBD_CLOSING,
};

struct vbd_listener {
	void (*fn)(void *arg, enum vbd_event event);
	void *arg;
};

/*
 * A vbd without an image.  @marker_fd is the locked marker file, which the
 * vbd owns from here on (-1: none).  -ENOMEM, -errno.
 */
int vbd_create(struct loop *loop, uint16_t minor, int marker_fd,
	       const struct vbd_listener *listener, struct vbd **out);

/*
 * Give up a vbd that is EMPTY.  -EBUSY if an image is open; rings that are
 * still draining after a forced close do not matter.
 */
int vbd_destroy(struct vbd *vbd);

/*
 * The process is about to die: take away what other processes see of the vbd.
 * Nothing else may be called after it but vbd_destroy.
 */
void vbd_leave_host(struct vbd *vbd);

struct vbd_open_options {
	unsigned driver_flags; /* enum driver_flags */
	uint16_t retry_s; /* how long transient errors are retried; 0: 120 */
	bool cdrom; /* info bit VDISK_CDROM */
};

/*
 * Open @spec.  -EALREADY if one is open, -ENAMETOOLONG, -EBUSY while I/O of a
 * forced close is still in flight, or what image_open says.
 */
int vbd_open(struct vbd *vbd, const char *spec,
	     const struct vbd_open_options *options);

/*
 * Take no more requests, answer all that were taken, flush, close the image.
 * Replies when that is done: 0 (also if paused already), -EINVAL (nothing
 * open), -EBUSY (closing), or -errno of the flush: then it is paused all the
 * same, and the log says so.
 */
void vbd_pause(struct vbd *vbd, struct vbd_reply *reply);

/*
 * Open @spec (NULL: the same as before) and go on.  A failed open is tried
 * again for ten seconds.  -EINVAL unless paused; -EMEDIUMTYPE if the image is
 * smaller than before and @shrink is false.  After an error it stays paused,
 * state RESUME_FAILED.
 */
void vbd_resume(struct vbd *vbd, const char *spec, unsigned driver_flags,
		bool shrink, struct vbd_reply *reply);

/*
 * Disconnect every ring, wait for their I/O, flush, close the image.  @force:
 * reply at once; a stuck I/O ends whenever it ends, and the vbd is EMPTY
 * meanwhile (but cannot be opened).  Closing what is closed is fine.
 */
void vbd_close(struct vbd *vbd, bool force, struct vbd_reply *reply);

enum vbd_polling_source {
	VBD_FROM_DEFAULT,
	VBD_FROM_CONNECT,
	VBD_FROM_XENSTORE,
	VBD_FROM_TAP_CTL,
};

struct vbd_polling {
	enum wait_mode mode;
	uint32_t duration_us; /* as requested; 0: the mode's default */
	uint8_t idle_threshold; /* per cent */
	bool align;
	bool has_cap; /* asked for; else it is VBD_CAP_DEFAULT */
	uint32_t cap; /* per cent of one CPU that all tapdisks of the host
		       * together may spend spinning; 0: no limit */
	enum sync_mode sync;
};

/* The cap in force, asked for or not. */
static inline uint32_t vbd_polling_cap(const struct vbd_polling *polling)
{
	return polling->has_cap ? polling->cap : VBD_CAP_DEFAULT;
}

struct vbd_connect {
	uint32_t domid;
	uint32_t devid;
	enum abi abi;
	const char *guest; /* see guest_open */
	uint32_t port;
	unsigned nr_refs; /* 1, 2, 4, 8 or 16 */
	uint32_t refs[VBD_RING_PAGES_MAX];
	bool has_polling; /* else event mode, or what xenstore said */
	struct vbd_polling polling;
};

/*
 * Serve a frontend.  -ENODEV (no image was opened), -EALREADY (connected),
 * -EINVAL (number of pages), -EBUSY (two earlier rings of this device are still
 * draining), or -errno of guest_open, map, bind. A ring connected while the vbd
 * is paused is held until it is resumed.
 */
int vbd_connect(struct vbd *vbd, const struct vbd_connect *connect);

/*
 * Stop serving it.  Replies as soon as the guest's memory is no longer used,
 * and within 100 ms in any case; the ring drains by itself.  -ENODEV if there
 * is no such ring.
 */
void vbd_disconnect(struct vbd *vbd, uint32_t domid, uint32_t devid,
		    struct vbd_reply *reply);

/*
 * Change how the disk's rings wait, now.  VBD_FROM_TAP_CTL holds until detach
 * or until it is taken back with @polling NULL; of the others the newest
 * counts.  -EINVAL: duration, threshold or cap out of range.
 */
int vbd_set_polling(struct vbd *vbd, enum vbd_polling_source source,
		    const struct vbd_polling *polling);

struct vbd_polling_report {
	struct vbd_polling polling;
	enum vbd_polling_source source;
	uint32_t effective_us;
	struct granularity granularity;
	struct wait_counters waits; /* of all rings since attach, as below */
	uint64_t requests;
	uint64_t guest_events; /* events the guest sent and we saw */
	uint64_t notifications; /* events we sent */
	struct cpu_report governor; /* with what a sleep costs */
	struct adapt_shown policy; /* of the newest live ring */
	uint64_t gaps[GAPS_KINDS]; /* waits recorded, of all rings */
};
void vbd_polling_report(const struct vbd *vbd, struct vbd_polling_report *out);

/* Add the waits of all rings since attach, by gaps_index, to @out. */
void vbd_gaps(const struct vbd *vbd, struct gaps_histogram out[GAPS_KINDS]);

/* Add the latencies of all rings since attach to @out. */
void vbd_latencies(const struct vbd *vbd,
		   struct gaps_histogram out[NR_METER_LATENCIES]);

/*
 * Single waits of the newest ring, while they happen.  The first call starts
 * the recording; five seconds after the last it ends and its memory goes back.
 * @cursor is where to go on, VBD_TRACE_NOW for what comes from now on, and then
 * where to go on the next time; @lost counts what was overwritten meanwhile.
 * Returns how many were put into @out (at most @size, 0 while there is no ring)
 * or -ENOMEM.
 */
#define VBD_TRACE_NOW UINT64_MAX
int vbd_trace(struct vbd *vbd, uint64_t *cursor, struct gaps_entry *out,
	      unsigned size, uint64_t *lost);

/*
 * Whoever uses the disk beside its rings, on the main thread: NBD.  Its I/O is
 * held, and its claim on the disk ends, as those of a ring.
 */
struct vbd_io {
	struct io io; /* op, offset, len, buf: the submitter's */
	void (*done)(struct vbd_io *io, int err); /* from the loop */
	/* vbd's own, until done */
	struct vbd *vbd;
	uint64_t since_ns;
};

enum vbd_user_event {
	VBD_USER_HOLD, /* nothing may be submitted any more */
	VBD_USER_GO_ON, /* it may again; the image may be a larger one */
	VBD_USER_END, /* it never may again */
};

struct vbd_user {
	void (*fn)(void *arg, enum vbd_user_event event);
	void *arg;
};

/* At most one, after vbd_open and until VBD_USER_END. */
void vbd_set_user(struct vbd *vbd, const struct vbd_user *user);

/* Whether there may be a vbd_submit or vbd_extents now. */
bool vbd_serves(const struct vbd *vbd);

/*
 * As image_submit, but what was refused is tried again, as long as a guest's
 * would be.
 */
void vbd_submit(struct vbd *vbd, struct vbd_io *io);

/* As image_extents. */
int vbd_extents(struct vbd *vbd, uint64_t offset, uint64_t len,
		struct extent *out, unsigned max);

/* SIGUSR2, "poll now": every ring spins for one window, whatever the mode. */
void vbd_poll_now(struct vbd *vbd);

struct vbd_ring_stats {
	uint32_t domid, devid;
	uint64_t requests; /* taken */
	uint64_t responses;
	uint64_t guest_events, notifications;
	uint64_t bad_requests; /* malformed, or the wrong operation */
	uint64_t copy_errors; /* grants that could not be copied */
	uint64_t io_errors; /* answered with an error by the disk */
	bool broken;
};

struct vbd_stats {
	uint64_t read_sect, write_sect; /* taken from rings since attach */
	uint64_t outstanding;
	unsigned depth; /* most io the image takes at a time */
	bool buffered;
	unsigned nr_layers;
	struct image_layer_stats layers[8];
	bool has_ring; /* the newest live one */
	struct vbd_ring_stats ring;
};
void vbd_stats_read(const struct vbd *vbd, struct vbd_stats *out);

uint16_t vbd_minor(const struct vbd *vbd);
const char *vbd_spec(const struct vbd *vbd); /* NULL if none */
/* The state word of list and its parsers: upstream's tapdisk-vbd.h bits. */
uint32_t vbd_state_word(const struct vbd *vbd);
bool vbd_is_empty(const struct vbd *vbd); /* no image, nothing open */
/* Closed by force, and its I/O is not over: threads of it run. */
bool vbd_is_left_behind(const struct vbd *vbd);

struct vbd_disk_info {
	uint64_t bytes; /* 0: nothing was opened; kept while paused */
	uint32_t logical_block; /* what the guest may see: always 512 */
	uint32_t physical_block;
	uint32_t discard_granularity;
	uint32_t info; /* VDISK_CDROM 1, VDISK_READONLY 4 */
	bool writable;
};
void vbd_disk_info(const struct vbd *vbd, struct vbd_disk_info *out);

/* SIGUSR1: what every ring is doing, into the log. */
void vbd_dump(const struct vbd *vbd);
