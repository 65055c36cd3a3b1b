/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl stats: the tapdisk's JSON as it is, on one line, then an empty line.
 * Callers read the first line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "tools/ctl/client.h"
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"
#include "tools/tap-ctl/talk.h"

int stats_run(const struct options *options)
{
	struct wire_message reply;
	struct client_request request;
	char *text;
	size_t size;
	int err;

	client_request_init(&request, WIRE_STATS, (uint16_t)options->minor);
	err = client_call_text((int)options->pid, TALK_TIMEOUT_MS, &request,
			       &reply, &text, &size);
	if (err < 0)
		return say_reply(options, err, &reply);
	printf("%s\n\n", text);
	free(text);
	return 0;
}
