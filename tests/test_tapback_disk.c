/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tapback with a real tapdisk process and a guest that does real I/O: what
 * both sides take the other to mean.  Only xenstore is one of our own.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <json-c/json.h>
#include "poll/host.h"
#include "tests/backrig.h"
#include "tests/frontend.h"
#include "tests/scratch.h"
#include "tools/ctl/client.h"
#include "tools/ctl/messages.h"

#define D 5 /* the domain */
#define MINOR 3
#define SECOND UINT64_C(1000000000)
#define PATIENCE_MS 10000

static struct backrig rig;
static struct frontend *f;
static char guest[128]; /* "local:PATH" */
static pid_t tapdisk;

static void call(struct client_request *request)
{
	struct wire_message reply;
	int err = client_call(tapdisk, PATIENCE_MS, request, &reply);

	ck_assert_msg(err == 0, "%s: %s", wire_type_name(request->message.type),
		      strerror(-err));
	client_request_fini(request);
}

static void call_plain(uint16_t type)
{
	struct client_request request;

	client_request_init(&request, type, MINOR);
	call(&request);
}

static void run_tapdisk(int out)
{
	const char *build = getenv("BUILD");
	char path[512];
	int null = open("/dev/null", O_RDWR);

	/* as a child of ours, and gone when we are */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	snprintf(path, sizeof(path), "%s/bin/tapdisk", build ? build : "build");
	execl(path, "tapdisk", "-D", (char *)NULL);
	_exit(127);
}

static void start_tapdisk(const char *spec)
{
	const struct client_request_image image = {
		.spec = spec,
		.parent_minor = CLIENT_REQUEST_NO_MINOR,
	};
	struct client_request request;
	char path[200], line[256];
	int out[2];

	snprintf(path, sizeof(path), "%s/tapdisk", host_run_dir());
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/tapdisk/tapdisk-%d", host_run_dir(),
		 MINOR);
	close(host_create(path));
	ck_assert_int_eq(pipe(out), 0);
	tapdisk = fork();
	ck_assert_int_ge(tapdisk, 0);
	if (tapdisk == 0)
		run_tapdisk(out[1]);
	close(out[1]);
	/* it says where it listens, once it does */
	ck_assert_int_gt(read(out[0], line, sizeof(line)), 0);
	close(out[0]);
	call_plain(WIRE_ATTACH);
	ck_assert_int_eq(client_request_open(&request, MINOR, &image), 0);
	call(&request);
}

static void stop_tapdisk(void)
{
	int status;

	kill(tapdisk, SIGKILL);
	ck_assert_int_eq(waitpid(tapdisk, &status, 0), tapdisk);
}

static void open_guest(void)
{
	struct frontend_options options = { .abi = ABI_X86_64, .sleep = true };
	static char path[108];

	scratch_path(path, sizeof(path), "guest");
	options.socket = path;
	ck_assert_int_eq(frontend_open(&options, &f), 0);
	snprintf(guest, sizeof(guest), "local:%s", path);
	rig.env.guest = guest;
}

static void setup(void)
{
	char dir[128];

	backrig_open(&rig);
	scratch_path(dir, sizeof(dir), "shm");
	mkdir(dir, 0700);
	setenv("TAPDISK_SHM_DIR", dir, 1);
	scratch_path(dir, sizeof(dir), "log");
	setenv("TAPDISK_LOG_DIR", dir, 1);
	open_guest();
	start_tapdisk("ram:4m");
}

static void teardown(void)
{
	backrig_close(&rig);
	stop_tapdisk();
	frontend_close(f);
}

static void write_ring(void)
{
	char text[16];

	snprintf(text, sizeof(text), "%" PRIu32, frontend_refs(f)[0]);
	backrig_put_front(&rig, D, "ring-ref", text);
	snprintf(text, sizeof(text), "%" PRIu32, frontend_port(f));
	backrig_put_front(&rig, D, "event-channel", text);
	backrig_put_front(&rig, D, "protocol", "x86_64-abi");
}

static void name_tapdisk(void)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/nbd%d.%d", host_run_dir(), tapdisk,
		 MINOR);
	backrig_put_back(&rig, D, "physical-device-path", path);
	backrig_put_back(&rig, D, "hotplug-status", "connected");
}

static void connect_guest(void)
{
	backrig_plug(&rig, D);
	name_tapdisk();
	backrig_await(&rig, D, 2);
	write_ring();
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	backrig_put_front(&rig, D, "state", "4");
	backrig_settle(&rig);
}

static int io(uint8_t op, uint64_t sector, unsigned char fill)
{
	struct frontend_request r;
	unsigned tag;
	int next, ret;

	frontend_fill(&r, op, sector, 4096);
	next = frontend_next_tag(f);
	if (next < 0)
		return next;
	memset(frontend_data(f, (unsigned)next),
	       op == BLKIF_OP_WRITE ? fill : ~fill, 4096);
	ret = frontend_do(f, &r, 10 * SECOND, &tag);
	if (ret == 0 && op == BLKIF_OP_READ &&
	    *(unsigned char *)frontend_data(f, tag) != fill)
		ret = -EBADMSG;
	return ret;
}

START_TEST(a_guest_reads_what_it_wrote)
{
	connect_guest();
	ck_assert_str_eq(backrig_back(&rig, D, "sectors"), "8192");
	for (unsigned i = 0; i < 64; i++)
		ck_assert_int_eq(io(BLKIF_OP_WRITE, 8 * i, (uint8_t)i), 0);
	for (unsigned i = 0; i < 64; i++)
		ck_assert_int_eq(io(BLKIF_OP_READ, 8 * i, (uint8_t)i), 0);
	/* again and again, as firmware and then a kernel */
	for (unsigned i = 0; i < 20; i++) {
		backrig_put_front(&rig, D, "state", i & 1 ? "6" : "5");
		backrig_await(&rig, D, i & 1 ? 6 : 5);
		backrig_put_front(&rig, D, "state", "6");
		backrig_await(&rig, D, 6);
		frontend_reset(f);
		backrig_put_front(&rig, D, "state", "1");
		backrig_await(&rig, D, 2);
		backrig_put_front(&rig, D, "state", "4");
		backrig_await(&rig, D, 4);
		ck_assert_int_eq(io(BLKIF_OP_READ, 8 * i, (uint8_t)i), 0);
	}
}
END_TEST

static struct {
	bool stop;
	int err;
	unsigned done;
} load;

static void *run_load(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&load.stop, __ATOMIC_RELAXED) && !load.err) {
		load.err = io(BLKIF_OP_WRITE, 8 * (load.done % 64),
			      (uint8_t)load.done);
		if (!load.err)
			load.err = io(BLKIF_OP_READ, 8 * (load.done % 64),
				      (uint8_t)load.done);
		__atomic_add_fetch(&load.done, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

START_TEST(io_goes_on_while_tapback_is_replaced)
{
	pthread_t thread;
	unsigned before;

	connect_guest();
	ck_assert_int_eq(pthread_create(&thread, NULL, run_load, NULL), 0);
	for (int i = 0; i < 20; i++) {
		before = __atomic_load_n(&load.done, __ATOMIC_RELAXED);
		backrig_stop(&rig);
		backrig_run_ms(&rig, 5);
		backrig_start(&rig);
		backrig_settle(&rig);
		backrig_settle(&rig);
		ck_assert_int_eq(backrig_state(&rig, D), 4);
		while (__atomic_load_n(&load.done, __ATOMIC_RELAXED) ==
			       before &&
		       !load.err)
			backrig_run_ms(&rig, 1);
	}
	__atomic_store_n(&load.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ck_assert_msg(load.err == 0, "after %u requests: %d", load.done,
		      load.err);
}
END_TEST

/* What the tapdisk says of its polling. */
static struct json_object *polling(void)
{
	struct client_request request;
	struct wire_message reply;
	struct json_object *json;
	char *text;
	size_t size;

	client_request_init(&request, WIRE_POLLING, MINOR);
	ck_assert_int_eq(client_call_text(tapdisk, PATIENCE_MS, &request,
					  &reply, &text, &size),
			 0);
	ck_assert_int_eq(messages_parse(text, size, &json), 0);
	free(text);
	return json;
}

static void assert_polling(const char *source, int duration_us, int threshold)
{
	struct json_object *json = polling(), *value;

	ck_assert(json_object_object_get_ex(json, "source", &value));
	ck_assert_str_eq(json_object_get_string(value), source);
	ck_assert(json_object_object_get_ex(json, "requested_us", &value));
	ck_assert_int_eq(json_object_get_int(value), duration_us);
	ck_assert(json_object_object_get_ex(json, "idle_threshold", &value));
	ck_assert_int_eq(json_object_get_int(value), threshold);
	json_object_put(json);
}

START_TEST(polling_keys_take_effect_while_io_runs)
{
	backrig_plug(&rig, D);
	backrig_put_back(&rig, D, "polling-duration", "8000");
	backrig_put_back(&rig, D, "polling-idle-threshold", "50");
	connect_guest();
	assert_polling("connect", 8000, 50);
	backrig_put_back(&rig, D, "polling-duration", "12000");
	backrig_settle(&rig);
	assert_polling("xenstore", 12000, 50);
	backrig_put_back(&rig, D, "polling-duration", NULL);
	backrig_settle(&rig);
	assert_polling("xenstore", 0, 50);
	ck_assert_int_eq(io(BLKIF_OP_WRITE, 0, 1), 0);
}
END_TEST

START_TEST(a_guest_hears_that_its_disk_has_grown)
{
	const struct client_request_image image = { .spec = "ram:8m" };
	struct client_request request;

	connect_guest();
	call_plain(WIRE_PAUSE);
	ck_assert_int_eq(client_request_resume(&request, MINOR, &image), 0);
	call(&request);
	while (strcmp(backrig_back(&rig, D, "sectors"), "16384"))
		backrig_run_ms(&rig, 1);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
	ck_assert_uint_eq(xenstore_stamp(rig.xs, BACKRIG_B "/sectors", D),
			  xenstore_stamp(rig.xs, BACKRIG_B "/state", D));
	ck_assert_int_eq(io(BLKIF_OP_WRITE, 16384 - 8, 1), 0);
}
END_TEST

START_TEST(a_killed_tapdisk_can_be_replaced)
{
	connect_guest();
	stop_tapdisk();
	backrig_await(&rig, D, 5);
	backrig_put_front(&rig, D, "state", "6");
	backrig_await(&rig, D, 6);
	start_tapdisk("ram:4m");
	name_tapdisk();
	frontend_reset(f);
	backrig_put_front(&rig, D, "state", "1");
	backrig_await(&rig, D, 2);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	ck_assert_int_eq(io(BLKIF_OP_WRITE, 0, 7), 0);
	ck_assert_int_eq(io(BLKIF_OP_READ, 0, 7), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tapback_disk");
	TCase *tc = tcase_create("tapback_disk");
	SRunner *runner = srunner_create(suite);
	int failed;

	scratch_open();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_guest_reads_what_it_wrote);
	tcase_add_test(tc, io_goes_on_while_tapback_is_replaced);
	tcase_add_test(tc, polling_keys_take_effect_while_io_runs);
	tcase_add_test(tc, a_guest_hears_that_its_disk_has_grown);
	tcase_add_test(tc, a_killed_tapdisk_can_be_replaced);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
