/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which block an I/O goes to: the next one, or any, but with @exclusive never
 * one that another I/O in flight is on (what a read beside a write of the same
 * block returns is anybody's guess).  Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct blocks {
	uint64_t nr_blocks;
	bool random; /* else in order, and around */
	uint64_t cursor;
	uint64_t seed;
	uint64_t *busy; /* a bit each; NULL: overlaps do not matter */
};

/* 0 or -ENOMEM. */
int blocks_init(struct blocks *b, uint64_t nr_blocks, bool random,
		bool exclusive, uint64_t seed);
void blocks_fini(struct blocks *b);

/* 0, or -EBUSY: all are in flight. */
int blocks_take(struct blocks *b, uint64_t *block);
void blocks_give(struct blocks *b, uint64_t block);
