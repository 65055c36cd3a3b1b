/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parent locators: where a differencing disk says that its parent is.  See
 * vhd_format.h.  Windows' paths and URLs come in, ours go out; whether there
 * is such a file is not known here.
 */
#include <errno.h>
#include <string.h>
#include "drivers/vhd_bytes.h"
#include "drivers/vhd_format.h"

#define MACX UINT32_C(0x4d616358) /* a URL, UTF-8 */
#define W2RU UINT32_C(0x57327275) /* relative, UTF-16, little-endian */
#define W2KU UINT32_C(0x57326b75) /* absolute, the same */

static const struct {
	uint32_t code;
	bool wide;
} kinds[] = {
	{ MACX, false }, /* the only one that says what it means everywhere */
	{ W2RU, true },
	{ W2KU, true },
};

enum {
	NR_KINDS = sizeof(kinds) / sizeof(*kinds),
};

static int refuse(const char **why, const char *what)
{
	*why = what;
	return -EINVAL;
}

unsigned vhd_format_locator_rank(uint32_t code)
{
	unsigned i;

	for (i = 0; i < NR_KINDS && kinds[i].code != code; i++)
		;
	return i;
}

int vhd_format_check_locator(const struct vhd_format_locator *locator,
			     uint64_t store, const char **why)
{
	if (vhd_format_locator_rank(locator->code) == NR_KINDS) {
		*why = "no locator that is understood";
		return -ENOENT;
	}
	if (!locator->len || locator->len > VHD_FORMAT_LOCATOR_MAX ||
	    locator->len > locator->space)
		return refuse(why, "parent locator: bad length");
	if (locator->offset < VHD_FORMAT_SECTOR || locator->offset > store ||
	    locator->len > store - locator->offset)
		return refuse(why, "parent locator: is not in the file");
	return 0;
}

/* Append @point, a character, to @path, as UTF-8.  Returns the new length. */
static size_t put(char *path, size_t at, uint32_t point)
{
	if (point < 0x80) {
		path[at++] = (char)point;
	} else if (point < 0x800) {
		path[at++] = (char)(0xc0 | point >> 6);
		path[at++] = (char)(0x80 | (point & 0x3f));
	} else if (point < 0x10000) {
		path[at++] = (char)(0xe0 | point >> 12);
		path[at++] = (char)(0x80 | (point >> 6 & 0x3f));
		path[at++] = (char)(0x80 | (point & 0x3f));
	} else {
		path[at++] = (char)(0xf0 | point >> 18);
		path[at++] = (char)(0x80 | (point >> 12 & 0x3f));
		path[at++] = (char)(0x80 | (point >> 6 & 0x3f));
		path[at++] = (char)(0x80 | (point & 0x3f));
	}
	return at;
}

static uint32_t unit(const uint8_t *text, size_t i)
{
	return (uint32_t)(text[2 * i] | text[2 * i + 1] << 8);
}

static int narrow(const uint8_t *text, size_t len, char path[VHD_FORMAT_PATH],
		  const char **why)
{
	size_t units = len / 2, at = 0;
	uint32_t point, low;

	for (size_t i = 0; i < units && unit(text, i); i++) {
		point = unit(text, i);
		if (point >= 0xdc00 && point < 0xe000)
			return refuse(why, "parent locator: no UTF-16");
		if (point >= 0xd800 && point < 0xdc00) {
			low = i + 1 < units ? unit(text, i + 1) : 0;
			if (low < 0xdc00 || low >= 0xe000)
				return refuse(why, "parent locator: no UTF-16");
			point = 0x10000 + ((point - 0xd800) << 10) + low -
				0xdc00;
			i++;
		}
		if (at + 5 > VHD_FORMAT_PATH)
			return refuse(why, "parent locator: too long");
		at = put(path, at, point == '\\' ? '/' : point);
	}
	path[at] = '\0';
	return 0;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * "file://PATH", where "%" and two digits are a byte.  Upstream writes names
 * as they are, so a "%" without digits is itself.
 */
static int from_url(const uint8_t *text, size_t len, char path[VHD_FORMAT_PATH],
		    const char **why)
{
	static const char scheme[] = "file://";
	size_t skip = sizeof(scheme) - 1, at = 0;

	if (len <= skip || memcmp(text, scheme, skip))
		return refuse(why, "parent locator: no file URL");
	if (len - skip >= VHD_FORMAT_PATH)
		return refuse(why, "parent locator: too long");
	for (size_t i = skip; i < len && text[i]; i++) {
		char c = (char)text[i];

		if (c == '%' && len - i > 2 && hex((char)text[i + 1]) >= 0 &&
		    hex((char)text[i + 2]) >= 0) {
			c = (char)(hex((char)text[i + 1]) << 4 |
				   hex((char)text[i + 2]));
			i += 2;
		}
		if (!c)
			return refuse(why, "parent locator: a NUL in it");
		path[at++] = c;
	}
	path[at] = '\0';
	return 0;
}

int vhd_format_locator_path(uint32_t code, const uint8_t *text, size_t len,
			    char path[VHD_FORMAT_PATH], const char **why)
{
	unsigned rank = vhd_format_locator_rank(code);
	int err;

	if (rank == NR_KINDS)
		return refuse(why, "parent locator: unknown kind");
	if (kinds[rank].wide)
		err = narrow(text, len, path, why);
	else
		err = from_url(text, len, path, why);
	if (!err && !path[0])
		return refuse(why, "parent locator: is empty");
	return err;
}
