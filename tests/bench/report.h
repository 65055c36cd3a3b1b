/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figures as JSON: the same rounding and the same latency object everywhere.
 */
#pragma once

#include <stdio.h>

struct histogram;
struct json_object;

/* @value with three decimals. */
void report_add(struct json_object *to, const char *key, double value);

/* {mean, p50, p99 [, p999, max]} in us of a histogram of ns. */
void report_add_latency(struct json_object *to, const char *key,
			const struct histogram *ns, int with_p999);

/* One object, one line. */
void report_print(FILE *to, struct json_object *json);
