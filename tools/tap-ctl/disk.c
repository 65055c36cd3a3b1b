/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl attach, detach, open, close, pause, unpause: one message each.
 */
#include "tools/tap-ctl/disk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "tools/ctl/client.h"
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"
#include "tools/tap-ctl/talk.h"

/*
 * Callers know any refusal of ATTACH and DETACH as EINVAL, because that is
 * what tap-ctl always made of it.  The line on stderr has the real reason.
 */
static int attach_or_detach(const struct options *options, uint16_t type)
{
	struct wire_message reply;
	struct client_request request;
	int err;

	client_request_init(&request, type, (uint16_t)options->minor);
	err = client_call((int)options->pid, CLIENT_FOREVER, &request, &reply);
	if (err < 0)
		say_reply(options, err, &reply);
	return err < 0 && reply.type == WIRE_ERROR ? -EINVAL : err;
}

int disk_attach(const struct options *options)
{
	return attach_or_detach(options, WIRE_ATTACH);
}

int disk_detach(const struct options *options)
{
	return attach_or_detach(options, WIRE_DETACH);
}

/* At most @size bytes up to the end of stdin; -errno. */
static ssize_t read_stdin(unsigned char *out, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size) {
		n = read(STDIN_FILENO, out + len, size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

/* The key of an encrypted image: 256 or 512 bits, never in argv. */
static int read_key(const struct options *options, unsigned char *key,
		    size_t *size)
{
	unsigned char
		buf[CLIENT_REQUEST_KEY_MAX + 1]; /* one more shows "too long" */
	ssize_t n;

	n = read_stdin(buf, sizeof(buf));
	if (n < 0)
		return say_error(options, (int)n, "key on stdin");
	if (n != 32 && n != 64)
		return say_error(options, -EPERM,
				 "key on stdin: unsupported key size, use "
				 "32 or 64 bytes");
	memcpy(key, buf, (size_t)n);
	*size = (size_t)n;
	return 0;
}

static uint32_t open_flags(const struct options *options)
{
	uint32_t flags = 0;

	if (options->read_only)
		flags |= WIRE_RDONLY;
	if (options->local_cache)
		flags |= WIRE_ADD_LCACHE;
	if (options->standby)
		flags |= WIRE_STANDBY;
	if (options->buffered)
		flags |= WIRE_NO_O_DIRECT;
	return flags;
}

/* Which of the names is the one that does not fit. */
static int say_image(const struct options *options, int err)
{
	const char *name = options->image;

	if (options->secondary && strlen(options->secondary) >= WIRE_PATH_MAX)
		name = options->secondary;
	if (options->log && strlen(options->log) >= WIRE_LOG_PATH_SIZE)
		name = options->log;
	return say_error(options, err, "%s", name ? name : "image");
}

int disk_open_request(const struct options *options, struct client_request *out)
{
	unsigned char key[CLIENT_REQUEST_KEY_MAX];
	struct client_request_image image = {
		.spec = options->image,
		.secondary = options->secondary,
		.log = options->log,
		.flags = open_flags(options),
		.parent_minor = CLIENT_REQUEST_NO_MINOR,
		.key = key,
	};
	int err;

	if (options->parent_minor != OPTIONS_UNSET)
		image.parent_minor = (int32_t)options->parent_minor;
	if (options->request_timeout_s != OPTIONS_UNSET)
		image.timeout_s = (uint16_t)options->request_timeout_s;
	if (options->encrypted) {
		err = read_key(options, key, &image.key_size);
		if (err < 0)
			return err;
	}
	err = client_request_open(out, (uint16_t)options->minor, &image);
	memset(key, 0, sizeof(key));
	return err < 0 ? say_image(options, err) : 0;
}

int disk_run_open(const struct options *options)
{
	struct client_request request;
	int err;

	err = disk_open_request(options, &request);
	if (err < 0)
		return err;
	err = talk(options, CLIENT_FOREVER, &request);
	client_request_fini(&request);
	return err;
}

int disk_run_close(const struct options *options)
{
	struct client_request request;

	client_request_init(&request,
			    options->force ? WIRE_FORCE_SHUTDOWN : WIRE_CLOSE,
			    (uint16_t)options->minor);
	return talk(options, talk_timeout(options), &request);
}

int disk_run_pause(const struct options *options)
{
	struct client_request request;

	client_request_init(&request, WIRE_PAUSE, (uint16_t)options->minor);
	return talk(options, talk_timeout(options), &request);
}

int disk_run_unpause(const struct options *options)
{
	const struct client_request_image image = {
		.spec = options->image,
		.secondary = options->secondary,
		.log = options->log,
	};
	struct client_request request;
	int err;

	err = client_request_resume(&request, (uint16_t)options->minor, &image);
	if (err < 0)
		return say_image(options, err);
	err = talk(options, CLIENT_FOREVER, &request);
	client_request_fini(&request);
	return err;
}
