/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tapback: serve the backend/vbd3 devices of xenstore with tapdisks.
 * Starting, signals and ending; what happens in between is devices.c.
 *
 * Ending leaves every guest to its tapdisk, and starting again finds them: so
 * it can be replaced while they run.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "poll/host.h"
#include "poll/log.h"
#include "tools/tapback/devices.h"
#include "tools/tapback/keys.h"
#include "tools/tapback/notify.h"
#include "tools/tapback/store_xen.h"

#define TAPBACK_VERSION "0.1"
#define TIMEOUT_MS 10000 /* of each call to a tapdisk */
#define DOMID_MAX 32751 /* DOMID_FIRST_RESERVED is not one */
#define NAME_SIZE 32

struct tapback {
	bool foreground; /* -d */
	const char *pid_file;
	uint32_t only;
	struct device_env env;
	struct devices *devices;
	struct loop_watch signals; /* fd -1: not open */
	struct loop_watch log; /* likewise */
	int status;
};

static void usage(FILE *to)
{
	fprintf(to,
		"usage: tapback [-dvb] [-n NAME] [-p FILE] [-x DOMID]\n"
		"Connect the block devices of guests to tapdisks.\n"
		"  -d --debug      do not become a daemon, log to stderr too\n"
		"  -v --verbose    with -d: say each change of a device\n"
		"  -b --nobarrier  do not offer write barriers\n"
		"  -n --name NAME  serve backend/NAME of xenstore (vbd3)\n"
		"  -p --pidfile FILE  write our process id there\n"
		"  -x --domain DOMID  serve this domain only, and end with it\n"
		"  -h --help       this text\n"
		"     --version    the version\n"
		"See tapback(8).\n");
}

static int misuse(const char *what, const char *word)
{
	fprintf(stderr, "tapback: %s: %s\n", word, what);
	usage(stderr);
	return 2;
}

/* It becomes part of paths. */
static bool is_name(const char *name)
{
	return *name && strlen(name) < NAME_SIZE && !strchr(name, '/');
}

/* Returns -1 to go on, else the exit status. */
static int take_option(struct tapback *t, int c)
{
	switch (c) {
	case 'd':
		t->foreground = true;
		return -1;
	case 'v':
		t->env.verbose = true;
		return -1;
	case 'b':
		t->env.barrier = false;
		return -1;
	case 'n':
		if (!is_name(optarg))
			return misuse("not a name", optarg);
		t->env.name = optarg;
		return -1;
	case 'p':
		t->pid_file = optarg;
		return -1;
	case 'x':
		if (keys_u32(optarg, 0, DOMID_MAX, &t->only) < 0)
			return misuse("not the number of a domain", optarg);
		return -1;
	case 'h':
		usage(stdout);
		return 0;
	case 'V':
		printf("tapback " TAPBACK_VERSION "\n");
		return 0;
	default:
		usage(stderr);
		return 2;
	}
}

static int parse_arguments(int argc, char **argv, struct tapback *t)
{
	static const struct option options[] = {
		{ "debug", no_argument, NULL, 'd' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "nobarrier", no_argument, NULL, 'b' },
		{ "name", required_argument, NULL, 'n' },
		{ "pidfile", required_argument, NULL, 'p' },
		{ "domain", required_argument, NULL, 'x' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int c, ret;

	while ((c = getopt_long(argc, argv, "dvbn:p:x:h", options, NULL)) !=
	       -1) {
		ret = take_option(t, c);
		if (ret >= 0)
			return ret;
	}
	if (optind < argc)
		return misuse("unexpected argument", argv[optind]);
	return -1;
}

static int fail(const char *what, int err)
{
	log_err("%s: %s", what, strerror(-err));
	return err;
}

/*
 * Go on in a child that no terminal owns.  The parent ends when the child can
 * serve, or with its status when it cannot.
 */
static int daemonise(int *out_ready)
{
	int ready[2];
	char c;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return fail("pipe", -errno);
	pid = fork();
	if (pid < 0)
		return fail("fork", -errno);
	if (pid > 0) {
		close(ready[1]);
		_exit(read(ready[0], &c, 1) == 1 ? 0 : 1);
	}
	close(ready[0]);
	setsid(); /* cannot fail in a child that leads no group */
	if (chdir("/") < 0)
		return fail("/", -errno);
	*out_ready = ready[1];
	return 0;
}

static void end_of_start(const struct tapback *t, int ready)
{
	int null, err;

	err = notify_service("READY=1");
	if (err < 0)
		log_warn("NOTIFY_SOCKET: %s", strerror(-err));
	if (t->foreground)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
	if (write(ready, "", 1) != 1)
		log_warn("whoever started us did not wait");
	close(ready);
}

static void log_ready(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	log_drain();
}

static int start_log(struct tapback *t)
{
	char ident[32];
	int fd, err;

	snprintf(ident, sizeof(ident), "tapback[%d]", getpid());
	fd = host_connect("/dev/log", SOCK_DGRAM);
	/* stderr is nobody's once a daemon has started */
	err = log_open(ident, fd < 0 ? -1 : fd, -1, true);
	if (err < 0)
		return fail("log", err);
	t->log.fd = log_fd();
	t->log.fn = log_ready;
	err = loop_watch(t->env.loop, &t->log, EPOLLIN);
	return err < 0 ? fail("log", err) : 0;
}

static void signalled(void *arg, uint32_t events)
{
	struct tapback *t = arg;
	struct signalfd_siginfo info;

	(void)events;
	if (read(t->signals.fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo != SIGTERM && info.ssi_signo != SIGINT)
		return;
	log_info("ended by signal %u; guests go on", info.ssi_signo);
	loop_stop(t->env.loop);
}

static int take_signals(struct tapback *t)
{
	sigset_t set;
	int err;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	t->signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (t->signals.fd < 0)
		return fail("signalfd", -errno);
	t->signals.fn = signalled;
	t->signals.arg = t;
	err = loop_watch(t->env.loop, &t->signals, EPOLLIN);
	return err < 0 ? fail("signalfd", err) : 0;
}

/* A connection to each tapdisk's events, and another to ask it. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int open_xen(struct tapback *t)
{
	char text[STORE_VALUE_MAX];
	int err;

	err = store_xen_open(&t->env.store);
	if (err < 0)
		return fail("xenstore", err);
	/* a driver domain is told; domain 0 need not be */
	err = t->env.store->ops->read(t->env.store, STORE_NO_TX, "domid", text,
				      sizeof(text));
	if (err >= 0)
		err = keys_u32(text, 0, DOMID_MAX, &t->env.self);
	if (err < 0 && err != -ENOENT)
		return fail("xenstore: domid", err);
	err = domains_xen_open(&t->env.domains);
	if (err < 0)
		log_warn("libxenctrl: %s; only xenstore tells of dead "
			 "domains",
			 strerror(-err));
	return 0;
}

static void left(void *arg)
{
	struct tapback *t = arg;

	loop_stop(t->env.loop);
}

static void lost(void *arg, int err)
{
	struct tapback *t = arg;

	(void)err;
	t->status = 1;
	loop_stop(t->env.loop);
}

static int write_pid(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int err = 0;

	if (fd < 0)
		return fail(path, -errno);
	if (dprintf(fd, "%d\n", getpid()) < 0)
		err = fail(path, -errno);
	close(fd);
	return err;
}

static int start(struct tapback *t)
{
	const struct devices_owner owner = { left, lost, t };
	int err;

	raise_limit();
	err = loop_open(&t->env.loop);
	if (err < 0)
		return fail("epoll", err);
	err = start_log(t);
	if (err == 0)
		err = take_signals(t);
	if (err == 0)
		err = open_xen(t);
	if (err == 0 && t->pid_file)
		err = write_pid(t->pid_file);
	if (err == 0)
		err = devices_open(&t->env, t->only, &owner, &t->devices);
	return err;
}

static void stop(struct tapback *t)
{
	notify_service("STOPPING=1");
	if (t->devices)
		devices_close(t->devices);
	if (t->pid_file)
		unlink(t->pid_file);
	if (t->env.domains)
		t->env.domains->close(t->env.domains);
	if (t->env.store)
		t->env.store->ops->close(t->env.store);
	if (t->log.fd >= 0)
		loop_unwatch(t->env.loop, &t->log);
	log_close();
	if (t->signals.fd >= 0) {
		loop_unwatch(t->env.loop, &t->signals);
		close(t->signals.fd);
	}
	if (t->env.loop)
		loop_close(t->env.loop);
}

int main(int argc, char **argv)
{
	struct tapback t = {
		.only = DEVICES_ALL,
		.env = { .name = "vbd3",
			 .barrier = true,
			 .timeout_ms = TIMEOUT_MS,
			 .guest = "xen" },
		.signals = { .fd = -1 },
		.log = { .fd = -1 },
	};
	int ready = -1, err;

	err = parse_arguments(argc, argv, &t);
	if (err >= 0)
		return err;
	/* libxenstore has a thread: before it, not after */
	if (!t.foreground && daemonise(&ready) < 0)
		return 1;
	err = start(&t);
	if (err == 0) {
		end_of_start(&t, ready);
		log_info("started, for %s", t.env.name);
		err = loop_run(t.env.loop);
		if (err < 0)
			fail("loop", err);
	}
	stop(&t);
	return err < 0 ? 1 : t.status;
}
