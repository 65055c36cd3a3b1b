/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key order, spacing and the odd words ("(null)", the pool that no longer is
 * one) are what the storage manager, xapi and rrdd parse.
 */
#include <inttypes.h>
#include <string.h>
#include <json-c/json.h>
#include <json-c/printbuf.h>
#include "ring/vbd.h"
#include "tools/tapdisk/stats.h"

#define SECTOR 512 /* what upstream counts in */

/* 1 << 4: do not write "/" as "\/"; json-c before 0.13 knows no name for it. */
const int stats_json_flags = JSON_C_TO_STRING_SPACED | 1 << 4;

/* Upstream's "[  ]" where json-c has one space. */
static int print_empty_list(struct json_object *json, struct printbuf *to,
			    int level, int flags)
{
	(void)json;
	(void)level;
	(void)flags;
	return printbuf_memappend(to, "[  ]", 4);
}

static struct json_object *close_list(struct json_object *list)
{
	if (json_object_array_length(list) == 0)
		json_object_set_serializer(list, print_empty_list, NULL, NULL);
	return list;
}

static void add_number(struct json_object *to, const char *key, uint64_t n)
{
	json_object_object_add(to, key, json_object_new_int64((int64_t)n));
}

static void add_text(struct json_object *to, const char *key, const char *text)
{
	json_object_object_add(to, key, json_object_new_string(text));
}

static void add_pair(struct json_object *to, const char *key, uint64_t a,
		     uint64_t b)
{
	struct json_object *pair = json_object_new_array();

	json_object_array_add(pair, json_object_new_int64((int64_t)a));
	json_object_array_add(pair, json_object_new_int64((int64_t)b));
	json_object_object_add(to, key, pair);
}

/* Only aio has ever told its status. */
static struct json_object *driver_status(const struct vbd_stats *stats,
					 const struct image_layer_stats *layer)
{
	struct json_object *status, *reqs;

	if (strcmp(layer->driver, "aio"))
		return NULL;
	status = json_object_new_object();
	reqs = json_object_new_object();
	add_number(reqs, "max", stats->depth);
	add_number(reqs, "pending", stats->outstanding);
	json_object_object_add(status, "reqs", reqs);
	return status;
}

static struct json_object *layer_json(const struct vbd_stats *stats,
				      const struct image_layer_stats *layer)
{
	struct json_object *json = json_object_new_object();
	struct json_object *driver = json_object_new_object();

	add_text(json, "name", layer->name);
	add_pair(json, "hits", layer->read_bytes / SECTOR,
		 layer->write_bytes / SECTOR);
	add_pair(json, "fail", layer->read_errors, layer->write_errors);
	add_number(driver, "type", (uint64_t)layer->driver_type);
	add_text(driver, "name", layer->driver);
	json_object_object_add(driver, "status", driver_status(stats, layer));
	json_object_object_add(json, "driver", driver);
	return json;
}

static struct json_object *ring_json(const struct vbd_ring_stats *ring)
{
	struct json_object *json = json_object_new_object();
	struct json_object *errors = json_object_new_object();

	add_text(json, "pool", "td-xenio-default");
	add_number(json, "domid", ring->domid);
	add_number(json, "devid", ring->devid);
	add_pair(json, "reqs", ring->requests, ring->responses);
	add_pair(json, "kicks", ring->guest_events, ring->notifications);
	add_number(errors, "msg", 0);
	/* upstream counts what it refuses, unknown operations too, here */
	add_number(errors, "map", ring->bad_requests + ring->copy_errors);
	add_number(errors, "vbd", 0);
	add_number(errors, "img", ring->io_errors);
	json_object_object_add(json, "errors", errors);
	return json;
}

struct json_object *stats_json(const char *spec, const struct vbd_stats *stats)
{
	struct json_object *json = json_object_new_object();
	struct json_object *images = json_object_new_array();

	add_text(json, "name", spec ? spec : "(null)");
	add_pair(json, "secs", stats->read_sect, stats->write_sect);
	for (unsigned i = 0; i < stats->nr_layers; i++)
		json_object_array_add(images,
				      layer_json(stats, &stats->layers[i]));
	json_object_object_add(json, "images", close_list(images));
	if (stats->has_ring)
		json_object_object_add(json, "xenbus", ring_json(&stats->ring));
	add_number(json, "FIXME_enospc_redirect_count", 0);
	add_number(json, "nbd_mirror_failed", 0);
	add_number(json, "reqs_outstanding", stats->outstanding);
	add_text(json, "read_caching", stats->buffered ? "true" : "false");
	return json;
}

/* The edge of the bin that holds the @part of 1000th of all waits. */
static uint64_t quantile_ns(const struct gaps_histogram *h, uint64_t total,
			    uint64_t part)
{
	uint64_t seen = 0;
	unsigned i;

	for (i = 0; i < GAPS_BINS - 1; i++) {
		seen += h->bins[i].n;
		if (seen * 1000 >= total * part)
			break;
	}
	return gaps_edge_ns(i);
}

/* Times in ns; of the bins those that are not empty: [longest, how many]. */
static struct json_object *histogram_json(const struct gaps_histogram *h)
{
	struct json_object *json = json_object_new_object();
	struct json_object *bins = json_object_new_array(), *bin;
	uint64_t count = 0, sum = 0;

	for (unsigned i = 0; i < GAPS_BINS; i++) {
		if (!h->bins[i].n)
			continue;
		count += h->bins[i].n;
		sum += h->bins[i].ns;
		bin = json_object_new_array();
		json_object_array_add(
			bin, json_object_new_int64((int64_t)gaps_edge_ns(i)));
		json_object_array_add(
			bin, json_object_new_int64((int64_t)h->bins[i].n));
		json_object_array_add(bins, bin);
	}
	add_number(json, "count", count);
	add_number(json, "sum_ns", sum);
	if (count) {
		add_number(json, "p50_ns", quantile_ns(h, count, 500));
		add_number(json, "p99_ns", quantile_ns(h, count, 990));
		add_number(json, "p999_ns", quantile_ns(h, count, 999));
	}
	json_object_object_add(json, "bins", bins);
	return json;
}

struct json_object *stats_json_own(const struct gaps_histogram *latencies,
				   struct json_object *polling)
{
	static const char *const names[NR_METER_LATENCIES] = {
		[METER_RING] = "ring",
		[METER_DEVICE] = "device",
		[METER_TOTAL] = "total",
	};
	struct json_object *json = json_object_new_object();
	struct json_object *latency = json_object_new_object();

	for (unsigned i = 0; i < NR_METER_LATENCIES; i++)
		json_object_object_add(latency, names[i],
				       histogram_json(&latencies[i]));
	json_object_object_add(json, "latency", latency);
	json_object_object_add(json, "polling", polling);
	return json;
}

struct json_object *stats_json_list(struct json_object *stats)
{
	struct json_object *list = json_object_new_array();

	if (stats)
		json_object_array_add(list, stats);
	return close_list(list);
}
