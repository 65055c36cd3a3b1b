/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O on the disk that comes from no ring: see vbd.h.  Main thread; nothing
 * here knows who the user is.  Never logs.
 */
#include <assert.h>
#include <stddef.h>
#include "poll/clock.h"
#include "ring/vbd_private.h"

#define AGAIN_NS (CLOCK_SECOND / 100)

void vbd_set_user(struct vbd *vbd, const struct vbd_user *user)
{
	assert(!vbd->user.fn);
	vbd->user = *user;
}

void vbd_user_tell(struct vbd *vbd, enum vbd_user_event event)
{
	struct vbd_user user = vbd->user;

	if (!user.fn)
		return;
	if (event == VBD_USER_END)
		vbd->user.fn = NULL;
	user.fn(user.arg, event);
}

bool vbd_serves(const struct vbd *vbd)
{
	return vbd->state == VBD_STATE_OPEN;
}

static void again(void *arg)
{
	struct vbd *vbd = arg;
	struct io *io = vbd->user_again, *next;

	vbd->user_again = NULL;
	for (; io; io = next) {
		next = io->next;
		main_port_submit(vbd->port, io);
	}
}

static bool may_be_tried_again(const struct vbd *vbd, const struct vbd_io *io,
			       int err)
{
	return io_refused(err) && !vbd->forced &&
	       clock_ns() - io->since_ns < vbd->options.retry_s * CLOCK_SECOND;
}

static void done(struct io *io, int err)
{
	struct vbd_io *user_io =
		(struct vbd_io *)((char *)io - offsetof(struct vbd_io, io));
	struct vbd *vbd = user_io->vbd;

	if (may_be_tried_again(vbd, user_io, err)) {
		io->next = vbd->user_again;
		vbd->user_again = io;
		vbd->user_timer.fn = again;
		vbd->user_timer.arg = vbd;
		loop_timer_set(vbd->loop, &vbd->user_timer, AGAIN_NS);
		return;
	}
	if (!--vbd->user_io && vbd->state != VBD_STATE_OPEN)
		vbd_progress_later(vbd);
	user_io->done(user_io, err);
}

void vbd_submit(struct vbd *vbd, struct vbd_io *io)
{
	assert(vbd_serves(vbd));
	io->vbd = vbd;
	io->since_ns = clock_ns();
	io->io.done = done;
	vbd->user_io++;
	main_port_submit(vbd->port, &io->io);
}

int vbd_extents(struct vbd *vbd, uint64_t offset, uint64_t len,
		struct extent *out, unsigned max)
{
	assert(vbd_serves(vbd));
	return main_port_extents(vbd->port, offset, len, out, max);
}
