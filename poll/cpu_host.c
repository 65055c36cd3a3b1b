/* SPDX-License-Identifier: BSD-3-Clause */
/* Idle CPU and pressure of the host, read seldom: see cpu_host.h. */
#include "poll/cpu_host.h"
#include "poll/clock.h"
#include "poll/host.h"
#include "poll/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RATE_HOLDS_NS (5 * CLOCK_SECOND)

static int open_in(const char *dir, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return host_open(path, O_RDONLY | O_NONBLOCK);
}

/* The start of the file, as a string.  0 or -errno. */
static int read_text(int fd, char *buf, size_t size)
{
	ssize_t got;

	if (fd < 0)
		return fd;
	got = pread(fd, buf, size - 1, 0);
	if (got < 0)
		return -errno;
	buf[got] = '\0';
	return 0;
}

static uint64_t ticks(uint64_t ns)
{
	long a_second = sysconf(_SC_CLK_TCK);

	return ns / (CLOCK_SECOND / (uint64_t)(a_second > 0 ? a_second : 100));
}

static int read_times(struct cpu_host *host, struct cpu_times *out)
{
	char text[512]; /* the first line is all we want */
	int err = read_text(host->stat_fd, text, sizeof(text));

	return err ? err : cpu_idle_parse(text, out);
}

static uint64_t guest_ticks(const struct cpu_host *host)
{
	char text[512];
	uint64_t used;

	if (host->guest_fd < 0 ||
	    read_text(host->guest_fd, text, sizeof(text)) ||
	    cpu_idle_parse_process(text, &used))
		return host->guest_ticks; /* gone: it uses no more */
	return used;
}

static void read_pressure(struct cpu_host *host, uint64_t elapsed_ns)
{
	struct cpu_pressure now;
	uint64_t waited, elapsed_us = elapsed_ns / 1000;
	char text[256];

	host->pressure_bp = -1;
	if (read_text(host->pressure_fd, text, sizeof(text)) ||
	    cpu_idle_parse_pressure(text, &now)) {
		host->have_pressure = false;
		return;
	}
	/* the growth of the total says it within a second, the average later */
	host->pressure_bp = now.avg10_bp;
	if (host->have_pressure && elapsed_us &&
	    now.total_us >= host->pressure.total_us) {
		waited = now.total_us - host->pressure.total_us;
		host->pressure_bp =
			waited < elapsed_us
				? (int32_t)(waited * 10000 / elapsed_us)
				: 10000;
	}
	host->pressure = now;
	host->have_pressure = true;
}

static void read_cpumond(struct cpu_host *host)
{
	unsigned char page[8];
	ssize_t got;

	host->cpumond_bp = -1;
	/* it may have started after us, or again: its page is a new one then */
	if (host->cpumond_fd < 0 && host->err)
		host->cpumond_fd = open_in(host_shm_dir(), "cpu_util_monitor");
	if (host->cpumond_fd < 0)
		return;
	got = pread(host->cpumond_fd, page, sizeof(page), 0);
	if (got > 0)
		host->cpumond_bp = cpu_idle_cpumond(page, (size_t)got);
	if (host->cpumond_bp < 0 && host->err) {
		close(host->cpumond_fd);
		host->cpumond_fd = -1;
	}
}

/* Our own reading first: cpumond takes spinning for work. */
static void read_idle(struct cpu_host *host, uint64_t spun_ns)
{
	struct cpu_times now;
	uint64_t guest = guest_ticks(host), spun = ticks(spun_ns);
	int32_t share = -1;
	int err;

	spun += guest > host->guest_ticks ? guest - host->guest_ticks : 0;
	host->guest_ticks = guest;
	err = read_times(host, &now);
	if (!err && host->have_times) {
		share = cpu_idle_share(&host->times, &now, spun);
		if (share < 0)
			err = -EINVAL; /* a file that does not move */
	}
	host->have_times = !err;
	if (!err)
		host->times = now;
	if (err && !host->err)
		log_warn("cpu: %s/stat: idle CPU is not known: %s", host->proc,
			 strerror(-err));
	host->err = err;
	host->idle_bp = share;
	host->idle_source = share < 0 ? "none" : "/proc/stat";
}

void cpu_host_open(struct cpu_host *host, const char *proc, uint64_t now_ns)
{
	memset(host, 0, sizeof(*host));
	snprintf(host->proc, sizeof(host->proc), "%s", proc);
	host->guest_fd = -1;
	host->stat_fd = open_in(proc, "stat");
	host->pressure_fd = open_in(proc, "pressure/cpu"); /* since 4.20 */
	host->cpumond_fd = open_in(host_shm_dir(), "cpu_util_monitor");
	read_idle(host, 0);
	read_cpumond(host);
	read_pressure(host, 0);
	host->read_ns = now_ns;
}

void cpu_host_close(struct cpu_host *host)
{
	const int fds[] = { host->stat_fd, host->pressure_fd, host->cpumond_fd,
			    host->guest_fd };

	for (unsigned i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void cpu_host_set_guest(struct cpu_host *host, pid_t pid)
{
	char name[32];

	if (host->guest_fd >= 0)
		close(host->guest_fd);
	host->guest_fd = -1;
	host->guest_ticks = 0;
	if (pid <= 0)
		return;
	snprintf(name, sizeof(name), "%d/stat", (int)pid);
	host->guest_fd = open_in(host->proc, name);
	host->guest_ticks = guest_ticks(host);
}

void cpu_host_read(struct cpu_host *host, uint64_t now_ns, uint64_t spent_ns,
		   uint64_t others_rate)
{
	uint64_t elapsed, spun;

	if (now_ns < host->read_ns + CLOCK_SECOND)
		return;
	elapsed = now_ns - host->read_ns;
	/* after a rest: what others do now says nothing of all that time */
	spun = elapsed < RATE_HOLDS_NS ? elapsed : RATE_HOLDS_NS;
	spun = spun / 1000000 * (others_rate / 1000);
	read_idle(host, spun + spent_ns - host->spent_ns);
	read_cpumond(host);
	if (host->idle_bp < 0 && host->cpumond_bp >= 0) {
		host->idle_bp = host->cpumond_bp;
		host->idle_source = "cpumond";
	}
	read_pressure(host, elapsed);
	host->read_ns = now_ns;
	host->spent_ns = spent_ns;
}
