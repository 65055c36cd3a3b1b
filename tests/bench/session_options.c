/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that every program with a session has; see session.h.  Says
 * what is wrong with a value and nothing else.
 */
#include "tests/bench/session.h"

#include <errno.h>
#include <string.h>

#include "poll/granularity.h"
#include "ring/vbd.h"
#include "tests/bench/options.h"

int session_option_pid(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	if (option_number(&o->pid, text, why) || !o->pid ||
	    o->pid > INT32_MAX) {
		*why = "not a process id";
		return -EINVAL;
	}
	o->has_pid = true;
	return 0;
}

int session_option_minor(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	if (option_number(&o->minor, text, why) || o->minor > 65534) {
		*why = "not a minor";
		return -EINVAL;
	}
	o->has_minor = true;
	return 0;
}

int session_option_abi(void *options, const char *text, const char **why)
{
	static const char *const names[NR_ABIS] = {
		[ABI_NATIVE] = "native",
		[ABI_X86_32] = "x86_32",
		[ABI_X86_64] = "x86_64",
	};
	struct session_options *o = options;
	unsigned i;

	for (i = 0; i < NR_ABIS; i++) {
		if (strcmp(text, names[i]) == 0) {
			o->abi = (enum abi)i;
			return 0;
		}
	}
	*why = "not one of native, x86_32, x86_64";
	return -EINVAL;
}

int session_option_order(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	if (option_number(&o->ring_order, text, why) || o->ring_order > 4) {
		*why = "not a number from 0 to 4";
		return -EINVAL;
	}
	return 0;
}

int session_option_guest(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	o->xen = strcmp(text, "xen") == 0;
	*why = "not local or xen";
	return o->xen || strcmp(text, "local") == 0 ? 0 : -EINVAL;
}

int session_option_wait(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	o->spin = strcmp(text, "spin") == 0;
	*why = "not spin or sleep";
	return o->spin || strcmp(text, "sleep") == 0 ? 0 : -EINVAL;
}

static int polling_duration(struct session_options *o, const char *text)
{
	uint64_t ns;

	if (option_parse_time(text, 1000, &ns) ||
	    ns > GRANULARITY_WINDOW_MAX_US * UINT64_C(1000))
		return -EINVAL;
	o->duration_us = (uint32_t)(ns / 1000);
	return 0;
}

int session_option_polling(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	*why = "not event, fixed:US, adaptive or adaptive:US";
	o->duration_us = 0;
	if (strcmp(text, "event") == 0) {
		o->mode = "event";
		return 0;
	}
	if (strncmp(text, "fixed:", 6) == 0) {
		o->mode = "fixed";
		return polling_duration(o, text + 6);
	}
	if (strncmp(text, "adaptive", 8) != 0)
		return -EINVAL;
	o->mode = "adaptive";
	if (text[8] == ':')
		return polling_duration(o, text + 9);
	return text[8] ? -EINVAL : 0;
}

int session_option_align(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	o->no_align = strcmp(text, "off") == 0;
	*why = "not on or off";
	return o->no_align || strcmp(text, "on") == 0 ? 0 : -EINVAL;
}

int session_option_idle(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	if (option_number(&o->idle_threshold, text, why) ||
	    o->idle_threshold > 100) {
		*why = "not a number from 0 to 100";
		return -EINVAL;
	}
	return 0;
}

int session_option_cap(void *options, const char *text, const char **why)
{
	struct session_options *o = options;

	if (option_number(&o->cap, text, why) || o->cap > VBD_CAP_MAX) {
		*why = "not a number from 0 to 102400";
		return -EINVAL;
	}
	return 0;
}

int session_option_sync(void *options, const char *text, const char **why)
{
	static const char *const words[NR_SYNC_MODES] = {
		[SYNC_AUTO] = "auto",
		[SYNC_OFF] = "off",
		[SYNC_ON] = "on",
	};
	struct session_options *o = options;

	for (o->sync = 0; o->sync < NR_SYNC_MODES; o->sync++)
		if (strcmp(text, words[o->sync]) == 0)
			return 0;
	*why = "not auto, off or on";
	return -EINVAL;
}
