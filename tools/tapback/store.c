/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is the same for every store: a key below a directory.
 */
#include "tools/tapback/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int join(char out[STORE_PATH_MAX], const char *dir, const char *key)
{
	int n = snprintf(out, STORE_PATH_MAX, "%s/%s", dir, key);

	return n < STORE_PATH_MAX ? 0 : -ENAMETOOLONG;
}

int store_get(struct store *store, uint32_t tx, const char *dir,
	      const char *key, char out[STORE_VALUE_MAX])
{
	char path[STORE_PATH_MAX];
	int err;

	out[0] = '\0';
	err = join(path, dir, key);
	if (err < 0)
		return err;
	return store->ops->read(store, tx, path, out, STORE_VALUE_MAX);
}

int store_put(struct store *store, uint32_t tx, const char *dir,
	      const char *key, const char *value)
{
	char path[STORE_PATH_MAX], now[STORE_VALUE_MAX];
	int err;

	err = join(path, dir, key);
	if (err < 0)
		return err;
	err = store->ops->read(store, tx, path, now, sizeof(now));
	if (!value) {
		if (err == -ENOENT)
			return 0;
		return store->ops->remove(store, tx, path);
	}
	if (err >= 0 && !strcmp(now, value))
		return 0;
	return store->ops->write(store, tx, path, value);
}

int store_put_number(struct store *store, uint32_t tx, const char *dir,
		     const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return store_put(store, tx, dir, key, text);
}
