/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figures as JSON; see report.h.
 */
#include "tests/bench/report.h"

#include <json-c/json.h>
#include <math.h>

#include "tests/bench/histogram.h"

void report_add(struct json_object *to, const char *key, double value)
{
	char text[64];

	/* JSON has no infinity */
	snprintf(text, sizeof(text), "%.3f", isfinite(value) ? value : 0.0);
	json_object_object_add(
		to, key,
		json_object_new_double_s(isfinite(value) ? value : 0.0, text));
}

void report_add_latency(struct json_object *to, const char *key,
			const struct histogram *ns, int with_p999)
{
	struct json_object *latency = json_object_new_object();

	report_add(latency, "mean", histogram_mean(ns) / 1e3);
	report_add(latency, "p50", (double)histogram_quantile(ns, 0.5) / 1e3);
	report_add(latency, "p99", (double)histogram_quantile(ns, 0.99) / 1e3);
	if (with_p999) {
		report_add(latency, "p999",
			   (double)histogram_quantile(ns, 0.999) / 1e3);
		report_add(latency, "max", (double)ns->max / 1e3);
	}
	json_object_object_add(to, key, latency);
}

void report_print(FILE *to, struct json_object *json)
{
	fprintf(to, "%s\n",
		json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN));
}
