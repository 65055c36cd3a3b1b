/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two panels over one axis of time, both logarithmic: what matters spans from
 * less than a microsecond to seconds.
 */
#include "tools/ctl/plot.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WIDTH 960
#define HEIGHT 640
#define LEFT 70
#define RIGHT 816 /* the names of lines stand beyond */
#define COST_TOP 84
#define COST_BOTTOM 360
#define GAPS_TOP 410
#define GAPS_BOTTOM 560
#define LABEL_PX 15 /* lines of text are at least so far apart */
#define FIRST_NS 100.0
#define LAST_NS 10e6 /* at least */
#define BINS_A_BAR 4

/* What both panels are drawn with. */
struct plot {
	FILE *file;
	const struct advise *advise;
	double last_ns;
	double cost_min_us, cost_max_us;
	double bar_max; /* share of the waits */
};

static const char style[] =
	"<style>"
	"text{font:12px sans-serif;fill:#777}"
	".t{font-size:15px;font-weight:bold}"
	".g{stroke:#888;stroke-opacity:.25}"
	".a{stroke:#888;fill:none}"
	".l{fill:none;stroke-width:1.5;stroke-linejoin:round}"
	".cost{stroke:#d9772b;stroke-width:3}"
	".latency{stroke:#3b82c4}"
	".cpu{stroke:#a05cc0;stroke-dasharray:6 4}"
	".event{stroke:#888;stroke-dasharray:2 4}"
	".adaptive{stroke:#2f9e63;stroke-dasharray:10 4}"
	".dot{fill:#d9772b}"
	".best{fill:none;stroke:#d9772b;stroke-width:2}"
	".k0{fill:#5b8fb9}.k1{fill:#c9a227}.k2{fill:#8a7fa8}"
	"</style>\n";

static const char *const kind_words[GAPS_KINDS] = {
	"for the guest's next request",
	"for the one I/O in flight",
	"for either",
};

static double x_of(const struct plot *p, double ns)
{
	double share = log(ns / FIRST_NS) / log(p->last_ns / FIRST_NS);

	share = share < 0 ? 0 : share > 1 ? 1 : share;
	return LEFT + share * (RIGHT - LEFT);
}

static double y_of(const struct plot *p, double us)
{
	double share =
		log(us / p->cost_min_us) / log(p->cost_max_us / p->cost_min_us);

	/* what is off the paper is cut, but stays a number of sane size */
	share = share > -9 ? share : -9;
	return COST_BOTTOM - share * (COST_BOTTOM - COST_TOP);
}

static double per_request_us(const struct plot *p, double ns)
{
	return ns / p->advise->requests / 1000;
}

static void text(const struct plot *p, double x, double y, const char *anchor,
		 const char *words)
{
	fprintf(p->file,
		"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x,
		y, anchor, words);
}

static void line(const struct plot *p, const char *class, double x1, double y1,
		 double x2, double y2)
{
	fprintf(p->file,
		"<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
		"y2=\"%.1f\"/>\n",
		class, x1, y1, x2, y2);
}

/* "100 ns", "10 us", "1 ms", "1 s" */
static void say_time(double ns, char *out, size_t size)
{
	static const char *const units[] = { "ns", "\xc2\xb5s", "ms", "s" };
	unsigned i = 0;

	while (ns >= 999.5 && i < 3) {
		ns /= 1000;
		i++;
	}
	snprintf(out, size, "%.3g %s", ns, units[i]);
}

/* ---- axes ---- */

static void time_axis(const struct plot *p, double top, double bottom,
		      const char *caption)
{
	long decades = lround(log10(p->last_ns / FIRST_NS));
	char words[32];

	for (long i = 0; i <= decades; i++) {
		double ns = FIRST_NS * pow(10, (double)i);

		line(p, "g", x_of(p, ns), top, x_of(p, ns), bottom);
		say_time(ns, words, sizeof(words));
		text(p, x_of(p, ns), bottom + 16, "middle", words);
	}
	line(p, "a", LEFT, bottom, RIGHT, bottom);
	text(p, (LEFT + RIGHT) / 2.0, bottom + 34, "middle", caption);
}

static void cost_tick(const struct plot *p, double us)
{
	char words[32];

	if (us < p->cost_min_us || us > p->cost_max_us)
		return;
	line(p, "g", LEFT, y_of(p, us), RIGHT, y_of(p, us));
	snprintf(words, sizeof(words), "%g", us);
	text(p, LEFT - 8, y_of(p, us) + 4, "end", words);
}

/* 1, 2, 5 and so on; of many decades only the 1. */
static void cost_axis(const struct plot *p)
{
	bool wide = p->cost_max_us / p->cost_min_us > 2000;
	long last = lround(floor(log10(p->cost_max_us)));

	for (long i = lround(floor(log10(p->cost_min_us))); i <= last; i++) {
		double decade = pow(10, (double)i);

		cost_tick(p, decade);
		if (!wide) {
			cost_tick(p, 2 * decade);
			cost_tick(p, 5 * decade);
		}
	}
	text(p, LEFT - 50, COST_TOP - 12, "start",
	     "\xc2\xb5s per request (log)");
}

static void share_axis(const struct plot *p)
{
	double step = p->bar_max > .5 ? .25 : p->bar_max > .2 ? .1 : .05, y;
	long ticks = lround(floor(p->bar_max / step));
	char words[32];

	for (long i = 0; i <= ticks; i++) {
		double share = (double)i * step;

		y = GAPS_BOTTOM - share / p->bar_max * (GAPS_BOTTOM - GAPS_TOP);
		line(p, "g", LEFT, y, RIGHT, y);
		snprintf(words, sizeof(words), "%.0f %%", 100 * share);
		text(p, LEFT - 8, y + 4, "end", words);
	}
}

/* ---- the panel of costs ---- */

/* What a curve shows of a cost, in us per request. */
static double cost_us(const struct plot *p, const struct advise_cost *c)
{
	return per_request_us(p, c->cost_ns);
}

static double latency_us(const struct plot *p, const struct advise_cost *c)
{
	return per_request_us(p, c->latency_ns);
}

static double cpu_us(const struct plot *p, const struct advise_cost *c)
{
	return per_request_us(p,
			      c->cpu_ns * p->advise->costs.price / POLICY_ONE);
}

static void
curve(const struct plot *p, const struct gaps_histogram *all, const char *class,
      double (*value)(const struct plot *, const struct advise_cost *))
{
	struct advise_cost cost;
	const char *before = "";
	uint64_t ns;

	fprintf(p->file,
		"<polyline class=\"l %s\" clip-path=\"url(#c)\" points=\"",
		class);
	for (unsigned i = 0; i < GAPS_BINS; i++) {
		ns = gaps_edge_ns(i);
		if ((double)ns < FIRST_NS)
			continue;
		if (ns > p->advise->limit_ns)
			break;
		advise_cost(&p->advise->costs, all, ns, &cost);
		fprintf(p->file, "%s%.1f,%.1f", before, x_of(p, (double)ns),
			y_of(p, value(p, &cost)));
		before = " ";
	}
	fprintf(p->file, "\"/>\n");
}

static void name_line(const struct plot *p, const char *class, double y,
		      double y_text, const char *name, double us)
{
	char words[64];

	line(p, class, LEFT, y, RIGHT, y);
	snprintf(words, sizeof(words), "%s %.3g \xc2\xb5s", name, us);
	text(p, RIGHT + 6, y_text, "start", words);
}

/* Event mode and adaptive mode have no threshold: lines, named at their end. */
static void draw_modes(const struct plot *p)
{
	double event = cost_us(p, &p->advise->ways[ADVISE_EVENT]);
	double adaptive = cost_us(p, &p->advise->ways[ADVISE_ADAPTIVE]);
	double y_event = y_of(p, event), y_adaptive = y_of(p, adaptive);
	double close = LABEL_PX - (y_adaptive - y_event);

	close = close > 0 ? close / 2 : 0;
	name_line(p, "event", y_event, y_event + 4 - close, "event", event);
	name_line(p, "adaptive", y_adaptive, y_adaptive + 4 + close,
		  "adaptive*", adaptive);
}

static void draw_fixed(const struct plot *p)
{
	static const char *const names[] = { "1", "3", "6", "8 ms" };
	double x, y;

	for (unsigned i = 0; i < 4; i++) {
		enum advise_way way = (enum advise_way)(ADVISE_FIXED_1MS + i);

		x = x_of(p, (double)p->advise->threshold_ns[way]);
		y = y_of(p, cost_us(p, &p->advise->ways[way]));
		fprintf(p->file,
			"<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" "
			"r=\"4\"/>\n",
			x, y);
		text(p, x, y - 9, i == 3 ? "start" : "middle", names[i]);
	}
}

static void draw_best(const struct plot *p)
{
	double ns = (double)p->advise->threshold_ns[ADVISE_STATIC];
	double us = cost_us(p, &p->advise->ways[ADVISE_STATIC]);
	char when[32], words[96];

	if (ns < FIRST_NS)
		return;
	fprintf(p->file,
		"<circle class=\"best\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"/>\n",
		x_of(p, ns), y_of(p, us));
	say_time(ns, when, sizeof(when));
	snprintf(words, sizeof(words), "best: %s, %.3g \xc2\xb5s", when, us);
	text(p, x_of(p, ns), y_of(p, us) - 14, "middle", words);
}

static void legend_line(const struct plot *p, double x, const char *class,
			const char *words)
{
	char classes[32];

	snprintf(classes, sizeof(classes), "l %s", class);
	line(p, classes, x, COST_TOP - 16, x + 28, COST_TOP - 16);
	text(p, x + 34, COST_TOP - 12, "start", words);
}

static void draw_costs(const struct plot *p, const struct gaps_histogram *all)
{
	cost_axis(p);
	time_axis(p, COST_TOP, COST_BOTTOM, "threshold: how long to spin");
	draw_modes(p);
	curve(p, all, "cpu", cpu_us);
	curve(p, all, "latency", latency_us);
	curve(p, all, "cost", cost_us);
	draw_fixed(p);
	draw_best(p);
	legend_line(p, 300, "cost", "cost = latency + price \xc3\x97 CPU");
	legend_line(p, 540, "latency", "latency");
	legend_line(p, 650, "cpu", "price \xc3\x97 CPU");
}

/* ---- the panel of waits ---- */

static double bar_waits(const struct gaps_histogram *gaps, unsigned bar)
{
	double n = 0;

	for (unsigned i = bar; i < bar + BINS_A_BAR && i < GAPS_BINS; i++)
		n += (double)gaps->bins[i].n;
	return n;
}

static void draw_bar(const struct plot *p,
		     const struct gaps_histogram gaps[GAPS_KINDS], unsigned bar)
{
	double left = bar ? (double)gaps_edge_ns(bar - 1) + 1 : FIRST_NS;
	double right = (double)gaps_edge_ns(bar + BINS_A_BAR - 1) + 1;
	double y = GAPS_BOTTOM, height, x = x_of(p, left);
	double width = x_of(p, right) - x - 1;

	for (unsigned k = 0; k < GAPS_KINDS; k++) {
		height = bar_waits(&gaps[k], bar) / p->advise->waits /
			 p->bar_max * (GAPS_BOTTOM - GAPS_TOP);
		if (!(height > 0 && width > 0)) /* also when there is none */
			continue;
		y -= height;
		fprintf(p->file,
			"<rect class=\"k%u\" x=\"%.1f\" y=\"%.1f\" "
			"width=\"%.1f\" height=\"%.1f\"/>\n",
			k, x, y, width, height);
	}
}

static void draw_waits(const struct plot *p,
		       const struct gaps_histogram gaps[GAPS_KINDS])
{
	double x = LEFT;

	share_axis(p);
	time_axis(p, GAPS_TOP, GAPS_BOTTOM, "how long waits took");
	for (unsigned i = 0; i < GAPS_BINS; i += BINS_A_BAR)
		draw_bar(p, gaps, i);
	for (unsigned k = 0; k < GAPS_KINDS; k++) {
		fprintf(p->file,
			"<rect class=\"k%u\" x=\"%.1f\" y=\"%d\" width=\"10\" "
			"height=\"10\"/>\n",
			k, x, HEIGHT - 32);
		text(p, x + 16, HEIGHT - 22, "start", kind_words[k]);
		x += 230;
	}
	text(p, LEFT, HEIGHT - 6, "start",
	     "* an estimate: as if it knew the best threshold for each kind of "
	     "wait");
}

/* ---- what fits on the paper ---- */

static void fit_costs(struct plot *p, const struct gaps_histogram *all)
{
	double min = INFINITY, max = 0, us;
	struct advise_cost cost;

	for (unsigned i = 0; i < GAPS_BINS; i++) {
		if (gaps_edge_ns(i) > p->advise->limit_ns)
			break;
		advise_cost(&p->advise->costs, all, gaps_edge_ns(i), &cost);
		us = cost_us(p, &cost);
		max = us > max ? us : max;
		min = us < min ? us : min;
	}
	us = cost_us(p, &p->advise->ways[ADVISE_ADAPTIVE]);
	min = us < min ? us : min;
	/* a disk may have no waits, and waits may cost nothing */
	p->cost_max_us = max > 0 ? max * 1.3 : 1;
	p->cost_min_us =
		min > p->cost_max_us / 1e5 ? min / 3 : p->cost_max_us / 1e5;
}

static void fit_waits(struct plot *p,
		      const struct gaps_histogram gaps[GAPS_KINDS])
{
	double waits;

	p->last_ns = LAST_NS;
	p->bar_max = .1;
	for (unsigned i = 0; i < GAPS_BINS; i += BINS_A_BAR) {
		waits = 0;
		for (unsigned k = 0; k < GAPS_KINDS; k++)
			waits += bar_waits(&gaps[k], i);
		if (waits > p->bar_max * p->advise->waits)
			p->bar_max = waits / p->advise->waits;
		while (waits > 0 &&
		       p->last_ns < (double)gaps_edge_ns(i + BINS_A_BAR - 1))
			p->last_ns *= 10;
	}
	p->bar_max *= 1.1;
}

/* What is shown as it is must not be taken for ours. */
static void escape(FILE *file, const char *words)
{
	for (; *words; words++) {
		switch (*words) {
		case '<':
			fputs("&lt;", file);
			break;
		case '>':
			fputs("&gt;", file);
			break;
		case '&':
			fputs("&amp;", file);
			break;
		default:
			fputc(*words, file);
		}
	}
}

static void head(const struct plot *p, const char *title)
{
	const struct advise_costs *c = &p->advise->costs;
	char words[256];

	fprintf(p->file,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		"height=\"%d\" viewBox=\"0 0 %d %d\">\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT);
	fputs(style, p->file);
	fprintf(p->file,
		"<clipPath id=\"c\"><rect x=\"%d\" y=\"%d\" width=\"%d\" "
		"height=\"%d\"/></clipPath>\n",
		LEFT, COST_TOP, RIGHT - LEFT, COST_BOTTOM - COST_TOP);
	fprintf(p->file, "<text class=\"t\" x=\"%d\" y=\"24\">", LEFT - 50);
	escape(p->file, title);
	fprintf(p->file, "</text>\n");
	snprintf(words, sizeof(words),
		 "%.0f waits of %.0f requests; a sleep costs %.3g \xc2\xb5s of "
		 "latency and %.3g \xc2\xb5s of CPU; price of CPU %.3g, of a "
		 "failed spin %.3g more",
		 p->advise->waits, p->advise->requests, (double)c->w0_ns / 1000,
		 (double)c->cw_ns / 1000, (double)c->price / POLICY_ONE,
		 (double)c->rho / POLICY_ONE);
	text(p, LEFT - 50, 44, "start", words);
}

int plot_write(FILE *file, const char *title, const struct advise *advise,
	       const struct gaps_histogram gaps[GAPS_KINDS])
{
	struct plot p = { .file = file, .advise = advise };
	struct gaps_histogram all = { 0 };

	for (unsigned k = 0; k < GAPS_KINDS; k++)
		gaps_sum(&gaps[k], &all);
	fit_waits(&p, gaps);
	fit_costs(&p, &all);
	errno = 0;
	head(&p, title);
	draw_costs(&p, &all);
	draw_waits(&p, gaps);
	fprintf(file, "</svg>\n");
	if (fflush(file) || ferror(file))
		return errno ? -errno : -EIO;
	return 0;
}
