/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest of one tapdisk for as long as a benchmark runs: makes a frontend,
 * has tapdisk connect to it through the control socket, reads tapdisk's
 * counters, and disconnects.  Leaves nothing behind: the socket's directory is
 * gone as soon as tapdisk has connected.  Complains on stderr, in one line.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "poll/sync.h"
#include "ring/abi.h"

struct frontend;

struct session_options {
	const char *program; /* for complaints */
	uint32_t pid, minor;
	bool has_pid, has_minor;
	uint32_t domid, devid; /* 0: one that nobody else has; xvda */
	enum abi abi;
	uint32_t ring_order;
	bool xen; /* the guest is this domain, domain 0; else a local one */
	bool spin; /* wait for responses spinning, else sleeping */
	const char *mode; /* event, fixed, adaptive; NULL: event, unless tap-ctl
			     says otherwise */
	uint32_t duration_us; /* 0: the mode's default */
	bool no_align;
	uint32_t idle_threshold; /* per cent */
	uint32_t cap; /* per cent of a CPU; 0: none */
	enum sync_mode sync;
};

struct session {
	const struct session_options *options;
	struct frontend *frontend;
	uint32_t domid, devid;
	uint64_t disk_bytes;
	uint32_t physical_block;
	bool connected;
};

/* 0 or -errno, after a complaint. */
int session_open(const struct session_options *options, struct session *out);
/* Disconnects; a tapdisk that does not answer is complained about. */
void session_close(struct session *s);

struct session_counters {
	uint64_t cpu_ns; /* tapdisk's, all threads */
	uint64_t sleeps, arms; /* of the disk's rings */
	uint64_t kicks; /* events the guest sent */
};

/* 0 or -errno, after a complaint. */
int session_counters_read(const struct session *s,
			  struct session_counters *out);

/* Setters for an option table's fields; see options.h. */
int session_option_pid(void *options, const char *text, const char **why);
int session_option_minor(void *options, const char *text, const char **why);
int session_option_abi(void *options, const char *text, const char **why);
int session_option_order(void *options, const char *text, const char **why);
int session_option_guest(void *options, const char *text, const char **why);
int session_option_wait(void *options, const char *text, const char **why);
int session_option_polling(void *options, const char *text, const char **why);
int session_option_align(void *options, const char *text, const char **why);
int session_option_idle(void *options, const char *text, const char **why);
int session_option_cap(void *options, const char *text, const char **why);
int session_option_sync(void *options, const char *text, const char **why);
