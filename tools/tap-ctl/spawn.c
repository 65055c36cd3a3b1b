/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap-ctl spawn.
 *
 * A tree that was built or installed anywhere runs its own tapdisk.  A tapdisk
 * turns into a daemon: the process we start ends with 0, and the one that stays
 * prints the path of its control socket, whose name ends in its process id, on
 * what was its stdout.
 */
#include "tools/tap-ctl/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "poll/clock.h"
#include "tools/tap-ctl/commands.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"

#define INSTALLED "/usr/libexec/tapdisk"
#define ANNOUNCE_MS 60000
#define TRIES 5

/* Where the tapdisk to start is. */
static void find_tapdisk(char *out, size_t size)
{
	/* of a build tree, then of a tree installed anywhere */
	static const char *const places[] = { "tapdisk", "../libexec/tapdisk" };
	char self[PATH_MAX];
	ssize_t n;
	int len;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	for (size_t i = 0; n > 0 && i < 2; i++) {
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
		len = snprintf(out, size, "%s/%s", self, places[i]);
		if (len < (int)size && access(out, X_OK) == 0)
			return;
	}
	snprintf(out, size, "%s", INSTALLED);
}

/* A tapdisk lives for months; what our caller has open is not for it. */
static void close_others(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int fd;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		fd = (int)strtol(entry->d_name, NULL, 10); /* "." is 0 */
		if (fd > STDERR_FILENO && fd != dirfd(dir))
			fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	closedir(dir);
}

/* In the child.  stderr stays: a tapdisk that cannot start says why there. */
static void become_tapdisk(const char *path, int announce_fd)
{
	char *argv[] = { "tapdisk", NULL }; /* callers look for this name */
	int null;

	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(announce_fd, STDOUT_FILENO) < 0)
		_exit(errno);
	close_others();
	execv(path, argv);
	_exit(errno);
}

/*
 * Read up to the end of a line, of the stream, or of our patience.  Returns
 * bytes, or -ETIMEDOUT, -errno.
 */
static ssize_t read_line(int fd, char *out, size_t size)
{
	uint64_t deadline = clock_ns() + ANNOUNCE_MS * UINT64_C(1000000);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	size_t len = 0;
	uint64_t now;
	ssize_t n;

	while (len < size && !memchr(out, '\n', len)) {
		now = clock_ns();
		if (now >= deadline)
			return -ETIMEDOUT;
		n = poll(&pfd, 1, (int)((deadline - now) / 1000000) + 1);
		if (n == 0)
			continue;
		if (n > 0)
			n = read(fd, out + len, size - len);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		if (n > 0)
			len += (size_t)n;
	}
	return (ssize_t)len;
}

/* "ANY DIRECTORY/ctlPID\n" to PID, or -EPERM. */
static int parse_line(const char *line, size_t len)
{
	char text[PATH_MAX], *slash, *end;
	long pid;

	if (len < 2 || len > sizeof(text) || line[len - 1] != '\n')
		return -EPERM;
	memcpy(text, line, len - 1);
	text[len - 1] = '\0';
	slash = strrchr(text, '/');
	if (!slash || strncmp(slash, "/ctl", 4))
		return -EPERM;
	pid = strtol(slash + 4, &end, 10);
	if (*end || pid <= 0 || pid > INT_MAX)
		return -EPERM;
	return (int)pid;
}

/* How the process we started ended: 0, its errno, or -EAGAIN (SIGUSR1). */
static int reap(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status))
		return -WEXITSTATUS(status);
	/* a debug signal to every tapdisk hit one too young to take it */
	return WTERMSIG(status) == SIGUSR1 ? -EAGAIN : -EINTR;
}

static int announced_pid(int fd, pid_t child)
{
	char line[PATH_MAX] = "";
	ssize_t n;
	int err;

	n = read_line(fd, line, sizeof(line));
	if (n == -ETIMEDOUT)
		kill(child, SIGKILL);
	err = reap(child);
	if (n < 0)
		return (int)n;
	if (err < 0)
		return err;
	return parse_line(line, (size_t)n);
}

static int start(const char *path)
{
	int fds[2], pid;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child == 0)
		become_tapdisk(path, fds[1]);
	pid = child < 0 ? -errno : 0;
	close(fds[1]);
	if (child > 0)
		pid = announced_pid(fds[0], child);
	close(fds[0]);
	return pid;
}

int spawn_tapdisk(const struct options *options)
{
	char path[PATH_MAX];
	int pid = -EAGAIN;

	find_tapdisk(path, sizeof(path));
	fflush(NULL); /* nothing half written for the child */
	for (int i = 0; i < TRIES && pid == -EAGAIN; i++)
		pid = start(path);
	if (pid == -EPERM)
		return say_error(options, pid, "%s: it named no control socket",
				 path);
	if (pid == -EINTR)
		return say_error(options, pid, "%s: it was killed", path);
	if (pid < 0)
		return say_error(options, pid, "%s: it did not start", path);
	return pid;
}

int spawn_run(const struct options *options)
{
	int pid = spawn_tapdisk(options);

	if (pid < 0)
		return pid;
	if (isatty(STDOUT_FILENO))
		printf("tapdisk spawned with pid %d\n", pid);
	else
		printf("%d\n", pid);
	return 0;
}
