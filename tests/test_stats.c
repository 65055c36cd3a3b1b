/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * STATS against what upstream printed in the same situation (tests/data/stats:
 * the JSON and two newlines).  S03 of the field's failures: it is always whole.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <json-c/json.h>
#include "ring/vbd.h"
#include "tools/tapdisk/stats.h"

#define AIO "aio:/var/tmp/td/disk.img"
#define VHD "vhd:/var/tmp/td/leaf.vhd"

enum { SECTOR = 512, UPSTREAM_DEPTH = 352 };

/* Sectors, and the errors of a ring, as the capture's README tells them. */
static const struct {
	const char *file;
	const char *spec;
	unsigned layers;
	uint64_t secs[2];
	uint64_t hits[3][2];
	bool buffered;
	uint32_t domid; /* 0: no ring */
	uint64_t reqs, kicks, bad, io_errors;
} cases[] = {
	{ .file = "attached" },
	{ .file = "idle", .spec = AIO, .layers = 1 },
	{ .file = "connected-idle",
	  .spec = AIO,
	  .layers = 1,
	  .domid = 7,
	  .kicks = 1 },
	{ .file = "connected",
	  .spec = AIO,
	  .layers = 1,
	  .secs = { 8000, 4000 },
	  .hits = { { 8000, 4000 } },
	  .domid = 7,
	  .reqs = 1500,
	  .kicks = 1501 },
	{ .file = "connected-errors",
	  .spec = AIO,
	  .layers = 1,
	  .secs = { 8008, 4008 },
	  .hits = { { 8000, 4000 } },
	  .domid = 7,
	  .reqs = 1505,
	  .kicks = 1506,
	  .bad = 2,
	  .io_errors = 2 },
	{ .file = "paused-connected",
	  .spec = AIO,
	  .secs = { 8008, 4008 },
	  .domid = 7,
	  .reqs = 1505,
	  .kicks = 1506,
	  .bad = 2,
	  .io_errors = 2 },
	{ .file = "disconnected",
	  .spec = AIO,
	  .layers = 1,
	  .secs = { 8008, 4008 } },
	{ .file = "closed", .secs = { 8088, 4048 } },
	{ .file = "chain3-connected",
	  .spec = VHD,
	  .layers = 3,
	  .secs = { 8128, 4080 },
	  .hits = { { 8, 8 }, { 8, 0 }, { 24, 0 } },
	  .domid = 8,
	  .reqs = 4,
	  .kicks = 5 },
	{ .file = "chain3-paused", .spec = VHD, .secs = { 8128, 4080 } },
	{ .file = "read-caching",
	  .spec = VHD,
	  .layers = 3,
	  .secs = { 8128, 4080 },
	  .buffered = true },
};

static const char *const chain[] = { "/var/tmp/td/leaf.vhd",
				     "/var/tmp/td/mid.vhd",
				     "/var/tmp/td/base.vhd" };

static void fill(int i, struct vbd_stats *out)
{
	bool vhd = cases[i].layers == 3;

	*out = (struct vbd_stats){
		.read_sect = cases[i].secs[0],
		.write_sect = cases[i].secs[1],
		.depth = UPSTREAM_DEPTH,
		.buffered = cases[i].buffered,
		.nr_layers = cases[i].layers,
		.has_ring = cases[i].domid != 0,
		.ring = {
			.domid = cases[i].domid,
			.devid = 51712,
			.requests = cases[i].reqs,
			.responses = cases[i].reqs,
			.guest_events = cases[i].kicks,
			.notifications = cases[i].reqs,
			.bad_requests = cases[i].bad,
			.io_errors = cases[i].io_errors,
		},
	};
	for (unsigned n = 0; n < cases[i].layers; n++) {
		out->layers[n] = (struct image_layer_stats){
			.name = vhd ? chain[n] : strchr(AIO, ':') + 1,
			.driver = vhd ? "vhd" : "aio",
			.driver_type = vhd ? 4 : 0,
			.read_bytes = cases[i].hits[n][0] * SECTOR,
			.write_bytes = cases[i].hits[n][1] * SECTOR,
		};
	}
}

static void read_capture(const char *name, char *buf, size_t size)
{
	char path[128];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "tests/data/stats/stats-%s.json", name);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s: run from the top of the tree", path);
	n = fread(buf, 1, size - 1, f);
	fclose(f);
	while (n > 0 && buf[n - 1] == '\n')
		n--;
	buf[n] = 0;
}

START_TEST(prints_what_upstream_prints)
{
	struct json_object *json;
	struct vbd_stats stats;
	char want[2048];

	fill(_i, &stats);
	read_capture(cases[_i].file, want, sizeof(want));
	json = stats_json(cases[_i].spec, &stats);
	ck_assert_str_eq(json_object_to_json_string_ext(json, stats_json_flags),
			 want);
	json_object_put(json);
}
END_TEST

START_TEST(prints_a_list_for_all_disks)
{
	struct json_object *empty = stats_json_list(NULL);
	struct json_object *one;
	struct vbd_stats stats;
	const char *text;

	ck_assert_str_eq(json_object_to_json_string_ext(empty,
							stats_json_flags),
			 "[  ]");
	json_object_put(empty);
	fill(0, &stats);
	one = stats_json_list(stats_json(NULL, &stats));
	text = json_object_to_json_string_ext(one, stats_json_flags);
	ck_assert(!strncmp(text, "[ { \"name\": \"(null)\", ", 22));
	ck_assert_str_eq(text + strlen(text) - 4, " } ]");
	json_object_put(one);
}
END_TEST

START_TEST(keeps_json_whole_whatever_the_path)
{
	struct json_object *json, *back, *name;
	const char *spec = "aio:/a \"b\" \\ \t/c";
	struct vbd_stats stats;

	fill(0, &stats);
	json = stats_json(spec, &stats);
	back = json_tokener_parse(
		json_object_to_json_string_ext(json, stats_json_flags));
	ck_assert(json_object_object_get_ex(back, "name", &name));
	ck_assert_str_eq(json_object_get_string(name), spec);
	json_object_put(back);
	json_object_put(json);
}
END_TEST

static int64_t number_at(struct json_object *json, const char *key)
{
	struct json_object *value;

	ck_assert_msg(json_object_object_get_ex(json, key, &value), "%s", key);
	return json_object_get_int64(value);
}

START_TEST(latencies_are_told_by_bins_and_quantiles)
{
	struct gaps_histogram h[NR_METER_LATENCIES] = { 0 };
	struct meter meter = { .news = false };
	struct json_object *json, *latency, *total, *bins, *ring;

	for (unsigned i = 0; i < 999; i++)
		meter_took(&meter, METER_TOTAL, 10000, 1);
	meter_took(&meter, METER_TOTAL, 5000000, 1);
	for (unsigned i = 0; i < NR_METER_LATENCIES; i++)
		gaps_sum(&meter.latency[i], &h[i]);
	json = stats_json_own(h, NULL);
	ck_assert(json_object_object_get_ex(json, "latency", &latency));
	ck_assert(json_object_object_get_ex(latency, "total", &total));
	ck_assert(json_object_object_get_ex(latency, "ring", &ring));
	ck_assert_int_eq(number_at(total, "count"), 1000);
	ck_assert_int_eq(number_at(total, "sum_ns"), 999 * 10000 + 5000000);
	ck_assert_int_ge(number_at(total, "p50_ns"), 10000);
	ck_assert_int_lt(number_at(total, "p50_ns"), 10700);
	ck_assert_int_lt(number_at(total, "p999_ns"), 10700);
	ck_assert(json_object_object_get_ex(total, "bins", &bins));
	ck_assert_uint_eq(json_object_array_length(bins), 2);
	ck_assert_int_eq(number_at(ring, "count"), 0);
	ck_assert(!json_object_object_get_ex(ring, "p50_ns", &bins));
	json_object_put(json);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stats");
	TCase *tcase = tcase_create("stats");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, prints_what_upstream_prints, 0,
			    (int)(sizeof(cases) / sizeof(cases[0])));
	tcase_add_test(tcase, prints_a_list_for_all_disks);
	tcase_add_test(tcase, keeps_json_whole_whatever_the_path);
	tcase_add_test(tcase, latencies_are_told_by_bins_and_quantiles);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
