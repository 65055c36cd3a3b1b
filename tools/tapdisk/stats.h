/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The answer to STATS, byte for byte as upstream's readers know it.  Pure: no
 * I/O, no log.
 */
#pragma once

struct gaps_histogram;
struct json_object;
struct vbd_stats;

/* Spacing and slashes as upstream prints them: for json_object_to_json_... */
extern const int stats_json_flags;

/* @spec is NULL while no image is open.  */
struct json_object *stats_json(const char *spec, const struct vbd_stats *stats);

/*
 * What upstream has not, under one key of its own: latencies, of which there
 * are NR_METER_LATENCIES, and @polling, which is taken.
 */
struct json_object *stats_json_own(const struct gaps_histogram *latencies,
				   struct json_object *polling);

/* The list for "all disks": @stats, or empty for NULL.  Takes @stats. */
struct json_object *stats_json_list(struct json_object *stats);
