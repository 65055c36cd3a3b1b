/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text to numbers.  strtoul would take spaces, signs and 0x, and sscanf would
 * take whatever follows.
 */
#include "tools/tapback/keys.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include "poll/host.h"

#define MINOR_MAX 65534 /* the wire has 16 bits, and 0xffff means all */

/* Digits up to @end, which must be behind one at least. */
static int decimal(const char *text, const char *end, uint64_t *out)
{
	uint64_t n = 0;
	unsigned digit;

	if (text == end || (*text == '0' && end - text > 1))
		return -EINVAL;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		digit = (unsigned)(*text - '0');
		if (n > (UINT64_MAX - digit) / 10)
			n = UINT64_MAX; /* and stays: go on looking for junk */
		else
			n = n * 10 + digit;
	}
	*out = n;
	return 0;
}

int keys_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t n;

	if (decimal(text, text + strlen(text), &n) < 0)
		return -EINVAL;
	if (n < min || n > max)
		return -ERANGE;
	*out = n;
	return 0;
}

int keys_u32(const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t n;
	int err = keys_number(text, min, max, &n);

	if (err == 0)
		*out = (uint32_t)n;
	return err;
}

int keys_bool(const char *text, bool *out)
{
	if (strcmp(text, "0") && strcmp(text, "1"))
		return -EINVAL;
	*out = *text == '1';
	return 0;
}

int keys_device_path(const char *text, int *pid, uint16_t *minor)
{
	static const char stem[] = "/nbd";
	const char *dir = host_run_dir(), *dot;
	uint64_t p, m;

	if (strncmp(text, dir, strlen(dir)))
		return -EINVAL;
	text += strlen(dir);
	if (strncmp(text, stem, strlen(stem)))
		return -EINVAL;
	text += strlen(stem);
	dot = strchr(text, '.');
	if (!dot || decimal(text, dot, &p) < 0 ||
	    decimal(dot + 1, dot + strlen(dot), &m) < 0)
		return -EINVAL;
	if (p == 0 || p > INT_MAX || m > MINOR_MAX)
		return -EINVAL;
	*pid = (int)p;
	*minor = (uint16_t)m;
	return 0;
}

static int hexadecimal(const char *text, const char *end, uint32_t *out)
{
	static const char digits[] = "0123456789abcdef";
	const char *digit;
	uint32_t n = 0;

	if (text == end || end - text > 6)
		return -EINVAL;
	for (; text < end; text++) {
		digit = *text ? strchr(digits, *text | 0x20) : NULL;
		if (!digit)
			return -EINVAL;
		n = n << 4 | (uint32_t)(digit - digits);
	}
	*out = n;
	return 0;
}

int keys_device_numbers(const char *text, uint16_t *minor)
{
	const char *colon = strchr(text, ':');
	uint32_t major, n;

	if (!colon || hexadecimal(text, colon, &major) < 0 ||
	    hexadecimal(colon + 1, colon + strlen(colon), &n) < 0)
		return -EINVAL;
	if (major)
		return -ENXIO;
	if (n > MINOR_MAX)
		return -EINVAL;
	*minor = (uint16_t)n;
	return 0;
}
