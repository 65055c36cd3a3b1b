/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files behind "tap-ctl polling" share.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct json_object;
struct options;

/*
 * Ask how the disk waits, @gaps with the histogram of its waits.  The reply is
 * the caller's to put.  0 or -errno, said.
 */
int polling_ask(const struct options *options, bool gaps,
		struct json_object **reply);

/* Values of a reply, or of an object in it; what is missing is 0 or NULL. */
int64_t polling_number(struct json_object *json, const char *key);
double polling_fraction(struct json_object *json, const char *key);
struct json_object *polling_object(struct json_object *json, const char *key);

/* --watch, --advise and --trace.  0 or -errno, said. */
int watch_run(const struct options *options);
int advise_run(const struct options *options);
int trace_run(const struct options *options);
