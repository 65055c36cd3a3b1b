/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error lines of tap-ctl, and what usually helps.
 */
#include "tools/tap-ctl/say.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "tools/tap-ctl/options.h"

int say_error(const struct options *options, int err, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "tap-ctl: %s: ", options->command);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(-err));
	return err;
}

/* What an error usually means.  The first that fits is said. */
struct hint {
	int err; /* 0 ends a table */
	const char *command; /* NULL: any */
	const char *text;
};

static const struct hint refusals[] = {
	{ -EBUSY, "detach", "still open; \"tap-ctl close\" it first" },
	{ -EEXIST, "attach", "already attached" },
	{ -EALREADY, "open", "already open" },
	{ -EALREADY, "connect", "already connected" },
	{ -EINVAL, "open", "not attached, or no image of that type" },
	{ -EINVAL, "unpause", "not paused, or no image of that type" },
	{ -ENOENT, "open", "no such file, or no such type" },
	{ -ENOENT, "create", "no such file, or no such type" },
	{ -ENOENT, "unpause", "no such file, or no such type" },
	{ -ENOENT, "connect", "the guest's socket is not there" },
	{ -EMEDIUMTYPE, "unpause", "the image has another size" },
	{ -ENODEV, "connect",
	  "not attached, nothing opened, or no such "
	  "guests on this host" },
	{ -ENODEV, "disconnect", "not attached, or no such ring" },
	{ -ENODEV, NULL, "not attached" },
	{ -EOPNOTSUPP, NULL, "this tapdisk cannot do that" },
	{ 0, NULL, NULL },
};

static const struct hint failures[] = {
	{ -ENOENT, NULL, "no such tapdisk" },
	{ -ECONNREFUSED, NULL, "it died and left its socket" },
	{ -ETIMEDOUT, NULL, "no answer in time" },
	{ -EPROTO, NULL, "it hung up, or what it says makes no sense" },
	{ 0, NULL, NULL },
};

static const char *find_hint(const struct hint *hint, const char *command,
			     int err)
{
	for (; hint->err; hint++)
		if (hint->err == err &&
		    (!hint->command || !strcmp(hint->command, command)))
			return hint->text;
	return NULL;
}

/* The tapdisk's own words, if it sent any: printable, and a string. */
static const char *own_words(const struct wire_message *reply, char *out,
			     size_t size)
{
	size_t len = strnlen(reply->u.response.message, size - 1);

	for (size_t i = 0; i < len; i++) {
		unsigned char c = reply->u.response.message[i];

		out[i] = isprint(c) || c >= 0x80 ? (char)c : '?';
	}
	out[len] = '\0';
	return len ? out : NULL;
}

int say_reply(const struct options *options, int err,
	      const struct wire_message *reply)
{
	bool refused = reply->type == WIRE_ERROR && err != -EPROTO;
	char buf[sizeof(reply->u.response.message)];
	const char *why = NULL;

	if (refused)
		why = own_words(reply, buf, sizeof(buf));
	if (!why)
		why = find_hint(refused ? refusals : failures, options->command,
				err);
	return say_error(options, err, "%s %d%s%s",
			 refused ? "minor" : "tapdisk",
			 (int)(refused ? options->minor : options->pid),
			 why ? ": " : "", why ? why : "");
}
