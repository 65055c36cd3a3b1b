/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tapdisk: one process, one virtual disk.  Starting, signals and ending; what
 * it does in between is told through the control socket (commands.h).
 *
 * Whoever started us reads one line, the control socket's path, and may use
 * it at once: so it is printed last.  Whatever way we end, short of SIGKILL,
 * we leave nothing behind but a log with errors in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "poll/host.h"
#include "poll/log.h"
#include "poll/loop.h"
#include "tools/tapdisk/commands.h"

#define TAPDISK_VERSION "0.1"

struct tapdisk {
	bool foreground; /* -D */
	bool keep_log; /* somebody asked for a dump */
	struct loop *loop;
	struct commands *commands;
	struct loop_watch signals; /* fd -1: not open */
	struct loop_watch log; /* likewise */
	char socket_path[256];
	char log_path[256];
};

static const int signals_taken[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1,
				     SIGUSR2 };

static void usage(FILE *to)
{
	fprintf(to,
		"usage: tapdisk [-D]\n"
		"Serve one virtual disk, as told through a control socket.\n"
		"  -D         do not become a daemon, log to stderr too\n"
		"  -h --help  this text\n"
		"  --version  the version\n"
		"The socket's path is printed once it can be used.  See "
		"tapdisk(8), tap-ctl(8).\n");
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(int argc, char **argv, struct tapdisk *t)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "Dh", options, NULL)) != -1) {
		switch (c) {
		case 'D':
			t->foreground = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		case 'V':
			printf("tapdisk " TAPDISK_VERSION "\n");
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "tapdisk: %s: unexpected argument\n",
			argv[optind]);
		usage(stderr);
		return 2;
	}
	return -1;
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "tapdisk: %s: %s\n", what, strerror(-err));
	return err;
}

/*
 * Go on in a grandchild that no terminal owns.  The first process ends with
 * status 0 once that exists: tap-ctl waits for it before it reads our line.
 */
static int daemonise(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return fail("fork", -errno);
	if (pid > 0) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	setsid(); /* cannot fail in a child that leads no group */
	pid = fork();
	if (pid < 0)
		return fail("fork", -errno);
	if (pid > 0)
		_exit(0);
	if (chdir("/") < 0)
		return fail("/", -errno);
	return 0;
}

static void log_ready(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	log_drain();
}

/* Without a file or without syslogd we serve all the same. */
static int start_log(struct tapdisk *t)
{
	char ident[32];
	int file, syslog, err;

	snprintf(ident, sizeof(ident), "tapdisk[%d]", getpid());
	host_mkdir(host_log_dir(), 0755);
	file = host_open_append(t->log_path);
	syslog = host_connect("/dev/log", SOCK_DGRAM);
	err = log_open(ident, syslog < 0 ? -1 : syslog, file < 0 ? -1 : file,
		       t->foreground);
	if (err < 0)
		return fail("log", err);
	if (file < 0)
		log_warn("log: %s: %s", t->log_path, strerror(-file));
	t->log.fd = log_fd();
	t->log.fn = log_ready;
	err = loop_watch(t->loop, &t->log, EPOLLIN);
	return err < 0 ? fail("log", err) : 0;
}

static bool keeps_log(const struct tapdisk *t)
{
	return t->keep_log || log_errors() > 0;
}

static void end_log(struct tapdisk *t)
{
	bool keep = keeps_log(t);

	if (t->log.fd >= 0)
		loop_unwatch(t->loop, &t->log);
	log_close();
	if (!keep)
		host_unlink(t->log_path);
}

static void reopen_log(struct tapdisk *t)
{
	int fd = host_open_append(t->log_path);

	if (fd < 0) {
		log_err("log: %s: %s", t->log_path, strerror(-fd));
		return;
	}
	log_reopen(fd);
	log_info("log: reopened");
}

/*
 * SIGTERM waits for nobody, neither for I/O nor for a client: the storage
 * manager sends it to a tapdisk that is of no use.
 */
static void die(struct tapdisk *t)
{
	sigset_t term;

	log_info("ended by SIGTERM");
	host_unlink(t->socket_path);
	commands_die(t->commands);
	log_drain();
	end_log(t);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	_exit(1);
}

static void signalled(void *arg, uint32_t events)
{
	struct tapdisk *t = arg;
	struct signalfd_siginfo info;

	(void)events;
	if (read(t->signals.fd, &info, sizeof(info)) != sizeof(info))
		return;
	switch (info.ssi_signo) {
	case SIGINT:
		log_info("SIGINT: closing the disk");
		commands_shutdown(t->commands);
		break;
	case SIGTERM:
		die(t);
		break;
	case SIGHUP:
		reopen_log(t);
		break;
	case SIGUSR1:
		t->keep_log = true;
		commands_dump(t->commands);
		break;
	case SIGUSR2:
		commands_poll_now(t->commands);
		break;
	}
}

static void take_signals(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals_taken) / sizeof(int); i++)
		sigaddset(set, signals_taken[i]);
	sigprocmask(SIG_BLOCK, set, NULL);
	signal(SIGPIPE, SIG_IGN); /* EPIPE says it */
	signal(SIGXFSZ, SIG_IGN); /* EFBIG, from the request */
}

static int watch_signals(struct tapdisk *t, const sigset_t *set)
{
	int err;

	t->signals.fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (t->signals.fd < 0)
		return fail("signalfd", -errno);
	t->signals.fn = signalled;
	t->signals.arg = t;
	err = loop_watch(t->loop, &t->signals, EPOLLIN);
	return err < 0 ? fail("signalfd", err) : 0;
}

static void left(void *arg)
{
	struct tapdisk *t = arg;

	loop_stop(t->loop);
}

static int start(struct tapdisk *t, const sigset_t *set)
{
	int err;

	snprintf(t->socket_path, sizeof(t->socket_path), "%s/ctl%d",
		 host_run_dir(), getpid());
	snprintf(t->log_path, sizeof(t->log_path), "%s/tapdisk.%d.log",
		 host_log_dir(), getpid());
	err = loop_open(&t->loop);
	if (err < 0)
		return fail("epoll", err);
	err = start_log(t);
	if (err < 0)
		return err;
	err = watch_signals(t, set);
	if (err < 0)
		return err;
	err = host_mkdir(host_run_dir(), 0755);
	if (err < 0)
		return fail(host_run_dir(), err);
	err = commands_open(t->loop, t->socket_path, left, t, &t->commands);
	return err < 0 ? fail(t->socket_path, err) : 0;
}

/* The last words on stdout; after them nobody reads stderr either. */
static int announce(const struct tapdisk *t, int out)
{
	int null, err = 0;

	if (dprintf(out, "%s\n", t->socket_path) < 0)
		err = -errno;
	close(out);
	if (err < 0)
		return fail("stdout", err);
	null = host_open("/dev/null", O_RDWR);
	if (null < 0)
		return fail("/dev/null", null);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (!t->foreground)
		dup2(null, STDERR_FILENO);
	close(null);
	return 0;
}

static int serve(struct tapdisk *t)
{
	int err;

	log_info("started");
	err = loop_run(t->loop);
	if (err == 0)
		return 0;
	/* Nothing can be finished any more. */
	log_err("loop: %s", strerror(-err));
	host_unlink(t->socket_path);
	log_drain();
	_exit(1);
}

static void stop(struct tapdisk *t, int status)
{
	bool left_io = t->commands && commands_left_io(t->commands);

	if (t->commands)
		commands_close(t->commands);
	if (left_io) {
		log_drain();
		if (!keeps_log(t))
			host_unlink(t->log_path);
		_exit(status);
	}
	end_log(t);
	if (t->signals.fd >= 0) {
		loop_unwatch(t->loop, &t->signals);
		close(t->signals.fd);
	}
	if (t->loop)
		loop_close(t->loop);
}

int main(int argc, char **argv)
{
	struct tapdisk t = { .signals = { .fd = -1 }, .log = { .fd = -1 } };
	sigset_t set;
	int out, err;

	err = parse_arguments(argc, argv, &t);
	if (err >= 0)
		return err;
	mallopt(M_ARENA_MAX, 1); /* an arena a thread is a megabyte a disk */
	take_signals(&set);
	out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (out < 0) {
		fail("stdout", -errno);
		return 1;
	}
	if (!t.foreground && daemonise() < 0)
		return 1;
	err = start(&t, &set);
	if (err == 0)
		err = announce(&t, out);
	if (err == 0)
		err = serve(&t);
	stop(&t, err < 0 ? 1 : 0);
	return err < 0 ? 1 : 0;
}
