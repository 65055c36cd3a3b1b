/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The image's life: open, pause, resume, close.  Each of the slow ones only
 * sets the state and asks the rings; progress() looks at what has come true
 * since, from the loop, and takes the next step.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/log.h"
#include "ring/vbd_private.h"

enum {
	RETRY_DEFAULT_S = 120,
	RESUME_TRIES = 10, /* a second apart */
	INFO_CDROM = 1, /* io/blkif.h: VDISK_CDROM */
	INFO_READONLY = 4, /* VDISK_READONLY */
};

#define FLUSH_AGAIN_NS (CLOCK_SECOND / 100)

/* ---- small things ---- */

void vbd_tell(struct vbd *vbd, enum vbd_event event)
{
	if (vbd->listener.fn)
		vbd->listener.fn(vbd->listener.arg, event);
}

static void move(struct vbd *vbd, enum vbd_state_event event)
{
	enum vbd_state to = vbd_state_next(vbd->state, event);

	assert(to != VBD_STATE_NONE);
	vbd->state = to;
}

static bool allowed(const struct vbd *vbd, enum vbd_state_event event)
{
	return vbd_state_next(vbd->state, event) != VBD_STATE_NONE;
}

static void queue_reply(struct vbd_reply **list, struct vbd_reply *reply)
{
	reply->next = *list;
	*list = reply;
}

static void reply_all(struct vbd_reply **list, int err)
{
	struct vbd_reply *reply;

	while ((reply = *list)) {
		*list = reply->next;
		reply->fn(reply, err);
	}
}

void vbd_progress_later(struct vbd *vbd)
{
	loop_defer(vbd->loop, &vbd->progress);
}

/* ---- the image ---- */

static void describe(struct vbd *vbd)
{
	const struct driver_info *info = image_info(vbd->image);
	bool writable = image_writable(vbd->image);

	vbd->info = (struct vbd_disk_info){
		.bytes = info->bytes,
		/* all blkif quantities are 512-byte sectors; see raw.c */
		.logical_block = 512,
		.physical_block = info->physical_block,
		.discard_granularity = info->discard_granularity,
		.info = (vbd->options.cdrom ? INFO_CDROM : 0) |
			(writable ? 0 : INFO_READONLY),
		.writable = writable,
	};
}

static int open_image(struct vbd *vbd, const char *spec, unsigned flags)
{
	int err;

	err = image_open(spec, flags, &vbd->image);
	if (err)
		return err;
	err = main_port_open(vbd->loop, vbd->image, &vbd->port);
	if (err) {
		log_err("vbd %u: %s: no way to the image for the main thread: "
			"%s",
			vbd->minor, spec, strerror(-err));
		image_close(vbd->image);
		vbd->image = NULL;
		return err;
	}
	vbd->flushed = false;
	vbd->flush_err = 0;
	return 0;
}

static void close_image(struct vbd *vbd)
{
	main_port_close(vbd->port);
	vbd->port = NULL;
	image_close(vbd->image);
	vbd->image = NULL;
}

static void flush_done(struct io *io, int err);

static void flush(void *arg)
{
	struct vbd *vbd = arg;

	vbd->flush = (struct io){ .op = IO_FLUSH, .done = flush_done };
	main_port_submit(vbd->port, &vbd->flush);
}

/* As patient as with a guest's flush. */
static bool flush_may_be_tried_again(const struct vbd *vbd, int err)
{
	return io_refused(err) && !vbd->forced &&
	       clock_ns() - vbd->flush_since_ns <
		       vbd->options.retry_s * CLOCK_SECOND;
}

static void flush_done(struct io *io, int err)
{
	struct vbd *vbd =
		(struct vbd *)((char *)io - offsetof(struct vbd, flush));

	if (flush_may_be_tried_again(vbd, err)) {
		loop_timer_set(vbd->loop, &vbd->flush_again, FLUSH_AGAIN_NS);
		return;
	}
	vbd->flushing = false;
	vbd->flushed = true;
	vbd->flush_err = err;
	if (err)
		log_err("vbd %u: %s: flush before closing the image: %s; what "
			"was written since the last flush may be lost",
			vbd->minor, vbd->spec, strerror(-err));
	vbd_progress_later(vbd);
}

/* No ring uses the image, and no new user.  True once it is durable and closed.
 */
static bool put_away(struct vbd *vbd)
{
	if (!vbd->image)
		return true;
	if (vbd->flushing || vbd->user_io)
		return false;
	if (!vbd->flushed && !vbd->forced && vbd->info.writable) {
		vbd->flushing = true;
		vbd->flush_since_ns = clock_ns();
		flush(vbd);
		return false;
	}
	close_image(vbd);
	return true;
}

/* ---- what goes on by itself ---- */

static void forget(struct vbd *vbd)
{
	loop_defer_cancel(vbd->loop, &vbd->progress);
	loop_timer_clear(vbd->loop, &vbd->resume.timer);
	vbd_governor_close(vbd);
	loop_timer_clear(vbd->loop, &vbd->trace_timer);
	loop_unwatch(vbd->loop, &vbd->box_watch);
	mailbox_run(&vbd->box);
	mailbox_fini(&vbd->box);
	if (vbd->marker_fd >= 0)
		close(vbd->marker_fd);
	free(vbd);
}

static void progress(void *arg)
{
	struct vbd *vbd = arg;

	switch (vbd->state) {
	case VBD_STATE_OPEN:
		/* an old write must not land after a new one */
		if (!vbd_rings_draining(vbd))
			vbd_rings_release(vbd);
		break;
	case VBD_STATE_PAUSING:
		if (!vbd_rings_quiet(vbd) || !put_away(vbd))
			break;
		move(vbd, VBD_EV_QUIET);
		log_info("vbd %u: paused", vbd->minor);
		vbd_tell(vbd, VBD_PAUSED);
		reply_all(&vbd->pause_replies, vbd->flush_err);
		break;
	case VBD_STATE_CLOSING:
		if (vbd->rings || !put_away(vbd))
			break;
		move(vbd, VBD_EV_QUIET);
		log_info("vbd %u: closed", vbd->minor);
		reply_all(&vbd->close_replies, vbd->flush_err);
		break;
	case VBD_STATE_EMPTY:
		/* closed by force: the image goes with its last I/O */
		if (!vbd->rings && put_away(vbd) && vbd->destroyed)
			forget(vbd);
		break;
	case VBD_STATE_PAUSED:
	case VBD_STATE_RESUME_FAILED:
	case VBD_STATE_NONE:
	case NR_VBD_STATES:
		break;
	}
}

static void read_box(void *arg, uint32_t events)
{
	struct vbd *vbd = arg;

	(void)events;
	do {
		mailbox_disarm(&vbd->box);
		mailbox_run(&vbd->box);
	} while (mailbox_arm(&vbd->box));
}

static void trace_out_of_time(void *arg)
{
	vbd_trace_end(arg);
}

/* ---- the interface ---- */

int vbd_create(struct loop *loop, uint16_t minor, int marker_fd,
	       const struct vbd_listener *listener, struct vbd **out)
{
	struct vbd *vbd;
	int err;

	vbd = calloc(1, sizeof(*vbd));
	if (!vbd)
		return -ENOMEM;
	vbd->loop = loop;
	vbd->minor = minor;
	vbd->state = VBD_STATE_EMPTY;
	if (listener)
		vbd->listener = *listener;
	vbd->trace_timer =
		(struct loop_timer){ .fn = trace_out_of_time, .arg = vbd };
	vbd->progress = (struct loop_defer){ .fn = progress, .arg = vbd };
	vbd->flush_again = (struct loop_timer){ .fn = flush, .arg = vbd };
	granularity_read(&vbd->granularity);
	vbd->base = (struct vbd_polling){ .mode = WAIT_EVENT, .align = true };
	err = mailbox_init(&vbd->box);
	if (err)
		goto free_vbd;
	vbd->box_watch = (struct loop_watch){ .fd = vbd->box.fd,
					      .fn = read_box,
					      .arg = vbd };
	err = loop_watch(loop, &vbd->box_watch, EPOLLIN);
	if (err)
		goto fini_box;
	err = vbd_governor_open(vbd);
	if (err)
		goto unwatch;
	vbd_governor_configure(vbd);
	mailbox_arm(&vbd->box);
	vbd->marker_fd = marker_fd;
	vbd_metrics_init(vbd);
	*out = vbd;
	return 0;
unwatch:
	loop_unwatch(loop, &vbd->box_watch);
fini_box:
	mailbox_fini(&vbd->box);
free_vbd:
	free(vbd);
	return err;
}

void vbd_leave_host(struct vbd *vbd)
{
	vbd_user_tell(vbd, VBD_USER_END);
	cpu_leave(vbd->governor);
	for (struct vbd_ring *r = vbd->rings; r; r = r->next)
		vbd_metrics_close(r);
	vbd_metrics_fini(vbd);
}

int vbd_destroy(struct vbd *vbd)
{
	if (vbd->state != VBD_STATE_EMPTY)
		return -EBUSY;
	vbd->destroyed = true;
	vbd_leave_host(vbd);
	vbd->listener.fn = NULL;
	if (vbd->image || vbd->rings)
		vbd_progress_later(vbd);
	else
		forget(vbd);
	return 0;
}

int vbd_open(struct vbd *vbd, const char *spec,
	     const struct vbd_open_options *options)
{
	int err;

	if (!allowed(vbd, VBD_EV_OPENED))
		return -EALREADY;
	if (strlen(spec) >= sizeof(vbd->spec))
		return -ENAMETOOLONG;
	if (vbd->image)
		return -EBUSY;
	err = open_image(vbd, spec, options->driver_flags);
	if (err)
		return err;
	strcpy(vbd->spec, spec);
	vbd->options = *options;
	if (!vbd->options.retry_s)
		vbd->options.retry_s = RETRY_DEFAULT_S;
	vbd->forced = false;
	describe(vbd);
	move(vbd, VBD_EV_OPENED);
	log_info("vbd %u: opened %s, %llu bytes%s", vbd->minor, spec,
		 (unsigned long long)vbd->info.bytes,
		 vbd->info.writable ? "" : ", read-only");
	return 0;
}

void vbd_pause(struct vbd *vbd, struct vbd_reply *reply)
{
	if (vbd->resume.reply) {
		reply->fn(reply, -EBUSY);
		return;
	}
	if (vbd->state == VBD_STATE_PAUSED ||
	    vbd->state == VBD_STATE_RESUME_FAILED) {
		reply->fn(reply, 0);
		return;
	}
	if (vbd->state != VBD_STATE_PAUSING) {
		if (!allowed(vbd, VBD_EV_PAUSE)) {
			reply->fn(reply, vbd->state == VBD_STATE_EMPTY
						 ? -EINVAL
						 : -EBUSY);
			return;
		}
		move(vbd, VBD_EV_PAUSE);
		vbd_user_tell(vbd, VBD_USER_HOLD);
		vbd_rings_hold(vbd);
	}
	queue_reply(&vbd->pause_replies, reply);
	vbd_progress_later(vbd);
}

/* ---- resume ---- */

static void resume_done(struct vbd *vbd, int err)
{
	struct vbd_reply *reply = vbd->resume.reply;

	vbd->resume.reply = NULL;
	move(vbd, err ? VBD_EV_RESUME_FAILED : VBD_EV_RESUMED);
	if (err)
		log_err("vbd %u: resume with %s: %s; it stays paused",
			vbd->minor, vbd->resume.spec, strerror(-err));
	vbd_progress_later(vbd);
	if (!err)
		vbd_user_tell(vbd, VBD_USER_GO_ON);
	reply->fn(reply, err);
}

static void resume_try(void *arg)
{
	struct vbd *vbd = arg;
	uint64_t before = vbd->info.bytes, after;
	int err;

	err = open_image(vbd, vbd->resume.spec, vbd->resume.driver_flags);
	if (err) {
		if (++vbd->resume.tries < RESUME_TRIES)
			loop_timer_set(vbd->loop, &vbd->resume.timer,
				       CLOCK_SECOND);
		else
			resume_done(vbd, err);
		return;
	}
	after = image_info(vbd->image)->bytes;
	if (after < before && !vbd->resume.shrink) {
		log_err("vbd %u: %s has %llu bytes, fewer than the %llu the "
			"guest was told",
			vbd->minor, vbd->resume.spec, (unsigned long long)after,
			(unsigned long long)before);
		close_image(vbd);
		resume_done(vbd, -EMEDIUMTYPE);
		return;
	}
	strcpy(vbd->spec, vbd->resume.spec);
	describe(vbd);
	cpu_recalibrate(vbd->governor,
			clock_ns()); /* perhaps on another machine */
	log_info("vbd %u: resumed with %s, %llu bytes", vbd->minor, vbd->spec,
		 (unsigned long long)after);
	resume_done(vbd, 0);
	if (after != before)
		vbd_tell(vbd, VBD_RESIZED);
}

void vbd_resume(struct vbd *vbd, const char *spec, unsigned driver_flags,
		bool shrink, struct vbd_reply *reply)
{
	if (!spec)
		spec = vbd->spec;
	if (!allowed(vbd, VBD_EV_RESUMED) ||
	    strlen(spec) >= sizeof(vbd->resume.spec)) {
		reply->fn(reply, allowed(vbd, VBD_EV_RESUMED) ? -ENAMETOOLONG
							      : -EINVAL);
		return;
	}
	if (vbd->resume.reply) {
		reply->fn(reply, -EBUSY);
		return;
	}
	vbd->resume.reply = reply;
	vbd->resume.timer = (struct loop_timer){ .fn = resume_try, .arg = vbd };
	vbd->resume.tries = 0;
	vbd->resume.shrink = shrink;
	/* what was opened read-only stays so */
	vbd->resume.driver_flags = driver_flags | vbd->options.driver_flags;
	strcpy(vbd->resume.spec, spec);
	resume_try(vbd);
}

/* ---- close ---- */

static void cancel_resume(struct vbd *vbd)
{
	struct vbd_reply *reply = vbd->resume.reply;

	if (!reply)
		return;
	loop_timer_clear(vbd->loop, &vbd->resume.timer);
	vbd->resume.reply = NULL;
	reply->fn(reply, -ESHUTDOWN);
}

void vbd_close(struct vbd *vbd, bool force, struct vbd_reply *reply)
{
	if (vbd->state == VBD_STATE_EMPTY) {
		reply->fn(reply, 0);
		return;
	}
	if (vbd->state != VBD_STATE_CLOSING) {
		vbd->closed_word = vbd_state_closed_word(vbd->state);
		cancel_resume(vbd);
		move(vbd, VBD_EV_CLOSE);
		vbd_tell(vbd, VBD_CLOSING);
		vbd_user_tell(vbd, VBD_USER_END);
		vbd_rings_disconnect(vbd);
	}
	if (force) {
		vbd->forced = true;
		move(vbd, VBD_EV_FORCE);
		log_info("vbd %u: closed by force", vbd->minor);
	}
	reply_all(&vbd->pause_replies, -ESHUTDOWN);
	queue_reply(&vbd->close_replies, reply);
	if (force)
		reply_all(&vbd->close_replies, 0);
	vbd_progress_later(vbd);
}
