/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several trials at once, on files; see trial.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/trial.h"

#define PATH_SIZE 1024

struct copy {
	struct trial trial;
	char path[PATH_SIZE];
	pthread_t thread;
	bool running;
	int err;
};

static void *run_copy(void *arg)
{
	struct copy *copy = arg;

	copy->err = trial_run(&copy->trial);
	return NULL;
}

static int name_copy(struct copy *copy, const char *path, unsigned i,
		     unsigned n)
{
	int len = n == 1 ? snprintf(copy->path, PATH_SIZE, "%s", path)
			 : snprintf(copy->path, PATH_SIZE, "%s.%u", path, i);

	if (len >= PATH_SIZE)
		return -ENAMETOOLONG;
	return access(copy->path, F_OK) == 0 ? -EEXIST : 0;
}

static void remove_files(const char *path)
{
	static const char *const suffixes[] = { "", "-journal", "-wal",
						"-shm" };
	char name[PATH_SIZE + 16];
	size_t i;

	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
		unlink(name);
	}
}

static void start(struct copy *copy, const struct trial *pattern)
{
	copy->trial = *pattern;
	copy->trial.name = copy->path;
	copy->err = -pthread_create(&copy->thread, NULL, run_copy, copy);
	copy->running = !copy->err;
}

/* The slowest decides how long it took. */
static void add(struct trial *out, const struct trial *one)
{
	out->result.commits += one->result.commits;
	histogram_merge(&out->result.commit, &one->result.commit);
	if (one->result.elapsed_ns > out->result.elapsed_ns)
		out->result.elapsed_ns = one->result.elapsed_ns;
}

static int finish(struct copy *copies, unsigned n, struct trial *out)
{
	unsigned i;
	int err = 0;

	for (i = 0; i < n; i++) {
		if (copies[i].running)
			pthread_join(copies[i].thread, NULL);
		remove_files(copies[i].path);
		add(out, &copies[i].trial);
		if (err)
			continue;
		err = copies[i].err;
		memcpy(out->integrity, copies[i].trial.integrity,
		       sizeof(out->integrity));
		memcpy(out->why, copies[i].trial.why, sizeof(out->why));
	}
	return err;
}

int trial_run_copies(const struct trial *pattern, const char *path, unsigned n,
		     struct trial *out)
{
	struct copy *copies = calloc(n, sizeof(*copies));
	unsigned i;
	int err = 0;

	*out = *pattern;
	if (!copies)
		return -ENOMEM;
	for (i = 0; i < n && !err; i++)
		err = name_copy(&copies[i], path, i, n);
	if (err) {
		snprintf(out->why, sizeof(out->why), "%.200s: %s",
			 copies[i - 1].path,
			 err == -EEXIST ? "is there already; remove it"
					: strerror(-err));
	} else {
		for (i = 0; i < n; i++)
			start(&copies[i], pattern);
		err = finish(copies, n, out);
	}
	free(copies);
	return err;
}
