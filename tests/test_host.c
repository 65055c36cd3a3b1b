/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths become descriptors: what is created, what is replaced, what is refused
 * and with which error.
 */
#include "poll/host.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char dir[64];

/* Unchecked fixtures: the parent's, so teardown runs after a failure too. */
static void make_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_host.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_dir(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* One of two static buffers. */
static const char *in_dir(const char *name)
{
	static char paths[2][256];
	static unsigned turn;
	char *path = paths[turn++ % 2];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void write_file(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
}

static void check_closes_on_exec(int fd)
{
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

START_TEST(environment_moves_the_directories)
{
	static const struct {
		const char *(*fn)(void);
		const char *variable, *otherwise;
	} dirs[] = {
		{ host_run_dir, "TAPDISK_RUN_DIR", "/run/blktap-control" },
		{ host_shm_dir, "TAPDISK_SHM_DIR", "/dev/shm" },
		{ host_log_dir, "TAPDISK_LOG_DIR", "/var/log/blktap" },
	};

	unsetenv(dirs[_i].variable);
	ck_assert_str_eq(dirs[_i].fn(), dirs[_i].otherwise);
	setenv(dirs[_i].variable, "/some/where", 1);
	ck_assert_str_eq(dirs[_i].fn(), "/some/where");
	setenv(dirs[_i].variable, "", 1);
	ck_assert_str_eq(dirs[_i].fn(), dirs[_i].otherwise);
}
END_TEST

START_TEST(opens_what_is_there)
{
	const char *path = in_dir("opens");
	int fd;

	ck_assert_int_eq(host_open(path, O_RDWR), -ENOENT);
	ck_assert_int_eq(access(path, F_OK), -1);
	write_file(path, "x", 1);
	fd = host_open(path, O_RDONLY);
	check_closes_on_exec(fd);
	close(fd);
	ck_assert_int_eq(host_open(dir, O_RDWR), -EISDIR);
}
END_TEST

START_TEST(appends_to_regular_files_only)
{
	const char *path = in_dir("append"), *fifo = in_dir("fifo");
	struct stat st;
	int fd, i;

	for (i = 0; i < 2; i++) {
		fd = host_open_append(path);
		check_closes_on_exec(fd);
		ck_assert_int_eq(write(fd, "line\n", 5), 5);
		close(fd);
	}
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, 10);
	ck_assert_int_eq(st.st_mode & 07777, 0600);

	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	ck_assert_int_eq(host_open_append(fifo), -ENXIO);
	ck_assert_int_eq(host_open_append("/dev/null"), -EINVAL);
	ck_assert_int_eq(host_open_append(dir), -EISDIR);
	ck_assert_int_eq(host_open_append(in_dir("no/such")), -ENOENT);
}
END_TEST

START_TEST(reads_the_beginning_as_a_string)
{
	const char *path = in_dir("text");
	char buf[8];

	write_file(path, "4000\n", 5);
	ck_assert_int_eq(host_read_text(path, buf, sizeof(buf)), 5);
	ck_assert_str_eq(buf, "4000\n");
	write_file(path, "0123456789", 10);
	ck_assert_int_eq(host_read_text(path, buf, sizeof(buf)), 7);
	ck_assert_str_eq(buf, "0123456");
	ck_assert_int_eq(host_read_text(path, buf, 1), 0);
	ck_assert_str_eq(buf, "");
	write_file(path, "", 0);
	ck_assert_int_eq(host_read_text(path, buf, sizeof(buf)), 0);
	ck_assert_str_eq(buf, "");
	ck_assert_int_eq(host_read_text(in_dir("none"), buf, sizeof(buf)),
			 -ENOENT);
	ck_assert_int_eq(host_read_text(dir, buf, sizeof(buf)), -EISDIR);
	ck_assert_int_gt(host_read_text("/proc/self/stat", buf, sizeof(buf)),
			 0);
}
END_TEST

START_TEST(making_and_removing_twice_is_fine)
{
	const char *path = in_dir("made"), *file = in_dir("file");
	struct stat st;

	ck_assert_int_eq(host_mkdir(path, 0700), 0);
	ck_assert_int_eq(host_mkdir(path, 0755), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0700);
	write_file(file, "", 0);
	ck_assert_int_eq(host_mkdir(file, 0700), -EEXIST);
	ck_assert_int_eq(host_unlink(file), 0);
	ck_assert_int_eq(access(file, F_OK), -1);
	ck_assert_int_eq(host_unlink(file), 0);
	ck_assert_int_eq(host_unlink(path), -EISDIR);
	ck_assert_int_eq(host_mkdir(in_dir("no/such"), 0700), -ENOENT);
}
END_TEST

START_TEST(removes_a_directory_with_its_files_and_never_behind_a_link)
{
	char path[256], link[256], file[300];

	snprintf(path, sizeof(path), "%s/removed", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	snprintf(file, sizeof(file), "%s/file", path);

	ck_assert_int_eq(host_remove_dir(path), 0); /* nothing there */
	ck_assert_int_eq(host_mkdir_new(path, 0700), 0);
	close(host_create(file));
	ck_assert_int_eq(symlink(path, link), 0);
	ck_assert_int_eq(host_remove_dir(link), 0);
	ck_assert_int_ne(access(link, F_OK), 0);
	ck_assert_int_eq(access(file, F_OK), 0);
	ck_assert_int_eq(host_mkdir_new(path, 0700), 0);
	ck_assert_msg(access(file, F_OK) != 0, "the new one is not empty");
	ck_assert_int_eq(host_remove_dir(path), 0);
	ck_assert_int_ne(access(path, F_OK), 0);
	close(host_create(path)); /* a file in the way */
	ck_assert_int_eq(host_mkdir_new(path, 0700), 0);
	ck_assert_int_eq(host_remove_dir(path), 0);
}
END_TEST

START_TEST(tells_where_a_link_leads)
{
	const char *link = in_dir("link");
	char buf[64];

	ck_assert_int_eq(symlink("../some/where", link), 0);
	ck_assert_int_eq(host_read_link(link, buf, sizeof(buf)), 0);
	ck_assert_str_eq(buf, "../some/where");
	ck_assert_int_eq(host_read_link(link, buf, 14), 0);
	ck_assert_int_eq(host_read_link(link, buf, 13), -ENAMETOOLONG);
	ck_assert_int_eq(host_read_link(dir, buf, sizeof(buf)), -EINVAL);
	ck_assert_int_eq(host_read_link(in_dir("none"), buf, sizeof(buf)),
			 -ENOENT);
	ck_assert_int_eq(unlink(link), 0);
}
END_TEST

START_TEST(a_lock_excludes_until_it_is_closed)
{
	const char *path = in_dir("marker");
	int fd, again;

	ck_assert_int_eq(host_lock(path), -ENOENT);
	write_file(path, "", 0);
	fd = host_lock(path);
	check_closes_on_exec(fd);
	ck_assert_int_eq(host_lock(path), -EAGAIN);
	close(fd);
	again = host_lock(path);
	ck_assert_int_ge(again, 0);
	close(again);
}
END_TEST

START_TEST(listens_where_a_stale_socket_was)
{
	const char *path = in_dir("socket");
	int stale, fd, client, served;

	stale = host_listen(path, 1);
	ck_assert_int_ge(stale, 0);
	close(stale);
	ck_assert_int_eq(host_connect(path, SOCK_STREAM), -ECONNREFUSED);

	fd = host_listen(path, 4);
	check_closes_on_exec(fd);
	/* nobody is there: it must not wait */
	ck_assert_int_eq(accept(fd, NULL, NULL), -1);
	ck_assert_int_eq(errno, EAGAIN);

	client = host_connect(path, SOCK_STREAM);
	check_closes_on_exec(client);
	ck_assert_int_eq(fcntl(client, F_GETFL) & O_NONBLOCK, 0);
	served = accept(fd, NULL, NULL);
	ck_assert_int_ge(served, 0);
	ck_assert_int_eq(write(client, "x", 1), 1);
	close(client);
	close(served);
	ck_assert_int_eq(host_connect(path, SOCK_DGRAM), -EPROTOTYPE);
	close(fd);
}
END_TEST

START_TEST(listening_replaces_no_other_file)
{
	const char *path = in_dir("precious");

	write_file(path, "data", 4);
	ck_assert_int_eq(host_listen(path, 1), -EADDRINUSE);
	ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(refuses_paths_that_are_no_addresses)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	size_t len = sizeof(path) - 1;
	int fd;

	ck_assert_int_eq(host_listen("", 1), -ENOENT);
	ck_assert_int_eq(host_connect("", SOCK_STREAM), -ENOENT);
	ck_assert_int_eq(host_listen(in_dir("no/such"), 1), -ENOENT);

	memset(path, 'a', len);
	memcpy(path, dir, strlen(dir));
	path[strlen(dir)] = '/';
	path[len] = '\0';
	ck_assert_int_eq(host_listen(path, 1), -ENAMETOOLONG);
	ck_assert_int_eq(host_connect(path, SOCK_STREAM), -ENAMETOOLONG);
	path[len - 1] = '\0'; /* the longest that fits */
	fd = host_listen(path, 1);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("host");
	TCase *tcase = tcase_create("host");
	SRunner *runner;
	int failed;

	tcase_add_unchecked_fixture(tcase, make_dir, remove_dir);
	tcase_add_loop_test(tcase, environment_moves_the_directories, 0, 3);
	tcase_add_test(tcase, opens_what_is_there);
	tcase_add_test(tcase, appends_to_regular_files_only);
	tcase_add_test(tcase, reads_the_beginning_as_a_string);
	tcase_add_test(tcase, making_and_removing_twice_is_fine);
	tcase_add_test(
		tcase,
		removes_a_directory_with_its_files_and_never_behind_a_link);
	tcase_add_test(tcase, tells_where_a_link_leads);
	tcase_add_test(tcase, a_lock_excludes_until_it_is_closed);
	tcase_add_test(tcase, listens_where_a_stale_socket_was);
	tcase_add_test(tcase, listening_replaces_no_other_file);
	tcase_add_test(tcase, refuses_paths_that_are_no_addresses);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
