/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figures out of the text of /proc: see cpu_idle.h.  Every number is read by
 * one function, which accepts digits only.
 */
#include "poll/cpu_idle.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More ticks than any machine has had, and sums of them stay in range. */
#define NUMBER_MAX (UINT64_C(1) << 58)

/* A decimal number at *@at, which moves behind it. */
static bool take_number(const char **at, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*out = strtoull(*at, &end, 10);
	if (errno || *out > NUMBER_MAX)
		return false;
	*at = end;
	return true;
}

static bool take_text(const char **at, const char *text)
{
	size_t len = strlen(text);

	if (strncmp(*at, text, len) != 0)
		return false;
	*at += len;
	return true;
}

int cpu_idle_parse(const char *text, struct cpu_times *out)
{
	/*
	 * user nice system idle iowait irq softirq steal, then guest and
	 * guest_nice, which are in user and nice already.  The first four are
	 * older than Linux itself.
	 */
	uint64_t value[8] = { 0 };
	unsigned n;

	if (!take_text(&text, "cpu "))
		return -EINVAL;
	for (n = 0; n < 8; n++) {
		while (*text == ' ')
			text++;
		if (*text == '\n' || *text == '\0')
			break;
		if (!take_number(&text, &value[n]))
			return -EINVAL;
	}
	if (n < 4)
		return -EINVAL;
	*out = (struct cpu_times){ .idle = value[3] + value[4] };
	for (n = 0; n < 8; n++)
		out->total += value[n];
	return 0;
}

int32_t cpu_idle_share(const struct cpu_times *before,
		       const struct cpu_times *now, uint64_t spun)
{
	uint64_t total, idle;

	if (now->total <= before->total)
		return -1;
	total = now->total - before->total;
	/* time waiting for a disk is known to run backwards */
	idle = now->idle > before->idle ? now->idle - before->idle : 0;
	if (idle > total || spun > total - idle)
		return 10000;
	return (int32_t)((idle + spun) * 10000 / total);
}

int cpu_idle_parse_pressure(const char *text, struct cpu_pressure *out)
{
	const char *total = strstr(text, " total=");
	uint64_t whole, cents = 0;

	if (!take_text(&text, "some avg10=") || !take_number(&text, &whole))
		return -EINVAL;
	if (whole > 100 || !total)
		return -EINVAL;
	if (*text == '.' && isdigit((unsigned char)text[1])) {
		cents = (uint64_t)(text[1] - '0') * 10;
		if (isdigit((unsigned char)text[2]))
			cents += (uint64_t)(text[2] - '0');
	}
	total += strlen(" total=");
	if (!take_number(&total, &out->total_us))
		return -EINVAL;
	out->avg10_bp = (int32_t)(whole * 100 + cents);
	if (out->avg10_bp > 10000)
		out->avg10_bp = 10000;
	return 0;
}

int cpu_idle_parse_process(const char *text, uint64_t *out)
{
	/* the name, in brackets, may contain brackets and spaces */
	const char *at = strrchr(text, ')');
	uint64_t user, system;

	/* from the end of field 2 to the start of field 14 */
	for (unsigned field = 2; at && field < 14; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (!at || !take_number(&at, &user) || !take_text(&at, " ") ||
	    !take_number(&at, &system))
		return -EINVAL;
	*out = user + system;
	return 0;
}

int32_t cpu_idle_cpumond(const void *page, size_t len)
{
	float value[2]; /* busy, idle */

	if (len < sizeof(value))
		return -1;
	memcpy(value, page, sizeof(value));
	for (unsigned i = 0; i < 2; i++)
		if (!(value[i] >= 0 && value[i] <= 100)) /* not a number too */
			return -1;
	/* a page that was made and never written says 0 and 0 */
	if (fabsf(value[0] + value[1] - 100) > 1)
		return -1;
	return (int32_t)(value[1] * 100);
}
