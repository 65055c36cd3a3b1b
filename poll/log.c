/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: a line is formatted once, sent to syslogd without waiting, and
 * queued for the file.  One of the two places in the project with file-scope
 * state: there is one log.
 *
 * It makes no socket, names no path and knows nothing of what lines mean,
 * except that none may disturb the ones around it.
 */
#include "poll/log.h"
#include "poll/clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define LINE_SIZE 512 /* a path of the control wire is up to 255 */
#define IDENT_SIZE 48
#define QUEUE_LINES 128

#define LIMIT_LINES 16
#define LIMIT_NS (90 * CLOCK_SECOND)

struct line {
	struct timespec date;
	int level; /* LOG_ERR... of syslog */
	char text[LINE_SIZE]; /* printable, no newline */
};

/*
 * The lock is held for a copy and never for a system call: a data thread that
 * logs must not wait for a main thread that waits for the disk.  What is not
 * under it changes in log_open and log_close only, while nobody logs.
 */
static struct {
	pthread_mutex_t lock;
	char ident[IDENT_SIZE];
	int syslog_fd;
	int file_fd; /* read under the lock, used by the main thread */
	int wake_fd;
	bool open;
	bool echo;
	uint64_t errors;
	/* under the lock */
	unsigned head; /* lines ever queued; their place is modulo the size */
	unsigned tail; /* lines ever taken out */
	uint64_t dropped; /* not in the file: the queue or the disk was full */
	uint64_t unsent; /* not in syslog */
	bool unsent_said; /* main thread */
	struct line queue[QUEUE_LINES];
} self = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.syslog_fd = -1,
	.file_fd = -1,
	.wake_fd = -1,
};

static const char *const level_names[] = {
	[LOG_ERR] = "error",
	[LOG_WARNING] = "warning",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

int log_open(const char *ident, int syslog_fd, int file_fd, bool echo)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	assert(!self.open);
	if (fd < 0)
		return -errno;
	tzset(); /* while /etc/localtime can still be opened */
	snprintf(self.ident, sizeof(self.ident), "%s", ident);
	self.syslog_fd = syslog_fd;
	self.file_fd = file_fd;
	self.wake_fd = fd;
	self.echo = echo;
	self.errors = 0;
	self.head = self.tail = 0;
	self.dropped = self.unsent = 0;
	self.unsent_said = false;
	self.open = true;
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int log_fd(void)
{
	return self.wake_fd;
}

uint64_t log_errors(void)
{
	return __atomic_load_n(&self.errors, __ATOMIC_RELAXED);
}

static bool write_all(int fd, const char *buf, size_t len)
{
	ssize_t done;

	while (len) {
		done = write(fd, buf, len);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		buf += done;
		len -= (size_t)done;
	}
	return true;
}

/* "2024-05-01 13:59:58.123 tapdisk[123] error: text" */
static bool write_line(int fd, const struct line *line)
{
	char buf[LINE_SIZE + IDENT_SIZE + 64];
	char date[32];
	struct tm tm;
	int len;

	localtime_r(&line->date.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
	len = snprintf(buf, sizeof(buf), "%s.%03ld %s %s: %s\n", date,
		       line->date.tv_nsec / 1000000, self.ident,
		       level_names[line->level], line->text);
	return write_all(fd, buf, (size_t)len);
}

static void wake(void)
{
	uint64_t one = 1;

	if (write(self.wake_fd, &one, sizeof(one)) < 0)
		assert(!"an eventfd that is emptied before it overflows");
}

static bool take_line(struct line *out)
{
	bool found;

	pthread_mutex_lock(&self.lock);
	found = self.tail != self.head;
	if (found)
		*out = self.queue[self.tail++ % QUEUE_LINES];
	pthread_mutex_unlock(&self.lock);
	return found;
}

/*
 * Say in the file what is missing, from it or from syslog.  The latter once
 * and @last: a syslogd that is gone would add a line to each of ours.
 */
static void write_losses(int fd, bool last)
{
	struct line line = { .level = LOG_WARNING };
	uint64_t dropped, unsent;

	pthread_mutex_lock(&self.lock);
	dropped = self.dropped;
	unsent = self.unsent;
	pthread_mutex_unlock(&self.lock);
	if (!dropped && (!unsent || (self.unsent_said && !last)))
		return;

	clock_gettime(CLOCK_REALTIME, &line.date);
	snprintf(line.text, sizeof(line.text),
		 "log: %llu lines are missing here and %llu in syslog",
		 (unsigned long long)dropped, (unsigned long long)unsent);
	if (!write_line(fd, &line))
		return; /* the disk is still full: later */

	pthread_mutex_lock(&self.lock);
	self.unsent_said = self.unsent_said || unsent;
	self.dropped -= dropped;
	self.unsent -= unsent;
	pthread_mutex_unlock(&self.lock);
}

void log_drain(void)
{
	unsigned left;
	struct line line;
	uint64_t count;

	if (!self.open)
		return;
	/*
	 * First, so that a line queued from here on wakes us again.  Empty is
	 * as good: we may be called for other reasons.
	 */
	if (read(self.wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return;
	/* bounded: others may log as fast as we write */
	for (left = QUEUE_LINES; left && take_line(&line); left--) {
		if (self.file_fd < 0 || write_line(self.file_fd, &line))
			continue;
		pthread_mutex_lock(&self.lock);
		self.dropped++;
		pthread_mutex_unlock(&self.lock);
	}
	if (self.file_fd >= 0)
		write_losses(self.file_fd, false);
	if (!left)
		wake(); /* there may be more */
}

void log_close(void)
{
	if (!self.open)
		return;
	log_drain();
	if (self.file_fd >= 0)
		write_losses(self.file_fd, true);
	self.open = false;
	close_fd(&self.syslog_fd);
	close_fd(&self.file_fd);
	close_fd(&self.wake_fd);
}

void log_reopen(int file_fd)
{
	int old;

	log_drain();
	pthread_mutex_lock(&self.lock);
	old = self.file_fd;
	self.file_fd = file_fd;
	pthread_mutex_unlock(&self.lock);
	close_fd(&old);
}

/*
 * One line of printable text: control characters, which a path may contain,
 * become '?', and what is too long ends in "..." at a whole character.
 */
static void format_text(char *text, const char *fmt, va_list args)
{
	static const char more[] = "...";
	size_t len, i;
	int want;

	want = vsnprintf(text, LINE_SIZE, fmt, args);
	if (want < 0)
		snprintf(text, LINE_SIZE, "log: cannot format \"%s\"", fmt);

	len = strlen(text);
	if (want >= LINE_SIZE) {
		len = LINE_SIZE - sizeof(more);
		while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--; /* the middle of a UTF-8 character */
		memcpy(text + len, more, sizeof(more));
		len = strlen(text);
	} else if (len && text[len - 1] == '\n') {
		text[--len] = '\0';
	}
	for (i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = '?';
}

static void send_syslog(const struct line *line)
{
	char buf[LINE_SIZE + IDENT_SIZE + 16];
	int len;

	len = snprintf(buf, sizeof(buf), "<%d>%s: %s", LOG_DAEMON | line->level,
		       self.ident, line->text);
	if (send(self.syslog_fd, buf, (size_t)len,
		 MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return;
	pthread_mutex_lock(&self.lock);
	self.unsent++;
	pthread_mutex_unlock(&self.lock);
}

static void queue_line(const struct line *line)
{
	bool was_empty = false;

	pthread_mutex_lock(&self.lock);
	if (self.file_fd >= 0) {
		if (self.head - self.tail < QUEUE_LINES) {
			was_empty = self.head == self.tail;
			self.queue[self.head++ % QUEUE_LINES] = *line;
		} else {
			self.dropped++;
		}
	}
	pthread_mutex_unlock(&self.lock);

	if (was_empty)
		wake();
}

static void print_line(const char *ident, const struct line *line)
{
	char buf[LINE_SIZE + IDENT_SIZE + 16];
	int len;

	len = snprintf(buf, sizeof(buf), "%.*s: %s\n", IDENT_SIZE, ident,
		       line->text);
	write_all(STDERR_FILENO, buf, (size_t)len);
}

static void log_line(int level, const char *fmt, va_list args)
{
	int saved = errno; /* callers log first and return -errno then */
	struct line line = { .level = level };

	clock_gettime(CLOCK_REALTIME, &line.date);
	format_text(line.text, fmt, args);
	if (level == LOG_ERR)
		__atomic_fetch_add(&self.errors, 1, __ATOMIC_RELAXED);
	if (!self.open) {
		print_line(program_invocation_short_name, &line);
	} else {
		if (self.syslog_fd >= 0 && level != LOG_DEBUG)
			send_syslog(&line);
		queue_line(&line);
		if (self.echo)
			print_line(self.ident, &line);
	}
	errno = saved;
}

void log_err(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_line(LOG_ERR, fmt, args);
	va_end(args);
}

void log_warn(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_line(LOG_WARNING, fmt, args);
	va_end(args);
}

void log_info(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_line(LOG_INFO, fmt, args);
	va_end(args);
}

void log_debug(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_line(LOG_DEBUG, fmt, args);
	va_end(args);
}

bool log_allow(struct log_limit *limit, const char *who)
{
	uint64_t now = clock_ns();

	if (!limit->lines || now - limit->since_ns >= LIMIT_NS) {
		if (limit->dropped)
			log_warn("%s: %u more lines like these were not logged",
				 who, limit->dropped);
		*limit = (struct log_limit){ .since_ns = now };
	}
	if (limit->lines < LIMIT_LINES) {
		limit->lines++;
		return true;
	}
	limit->dropped++;
	return false;
}
