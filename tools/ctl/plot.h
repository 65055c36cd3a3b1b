/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The advice as a picture: what a request would have cost against the
 * threshold, above how long its waits were.  One SVG without a script, a font
 * or a file beside it, for light and for dark paper.  Knows figures and paper.
 */
#pragma once

#include <stdio.h>
#include "tools/ctl/advise.h"

/* @title is shown as it is.  0 or -errno of writing. */
int plot_write(FILE *file, const char *title, const struct advise *advise,
	       const struct gaps_histogram gaps[GAPS_KINDS]);
