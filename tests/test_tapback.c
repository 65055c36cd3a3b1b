/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tapback, from xenstore to xenstore: how frontends of every kind get to
 * Connected and back, in whatever order the keys arrive.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "poll/host.h"
#include "tests/backrig.h"
#include "tests/scratch.h"

#define D 5 /* the domain */

static struct backrig rig;

static void setup(void)
{
	backrig_open(&rig);
}

static void teardown(void)
{
	backrig_close(&rig);
}

static void assert_key(const char *key, const char *want)
{
	const char *value = backrig_back(&rig, D, key);

	if (!want) {
		ck_assert_msg(!value, "%s is \"%s\"", key, value);
		return;
	}
	ck_assert_msg(value && !strcmp(value, want), "%s is \"%s\", not %s",
		      key, value ? value : "(not there)", want);
}

START_TEST(offers_what_the_tapdisk_can_before_it_waits)
{
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	assert_key("max-ring-page-order", "4");
	assert_key("feature-flush-cache", "1");
	assert_key("feature-barrier", "1");
	assert_key("feature-discard", "1");
	assert_key("discard-granularity", "4096");
	assert_key("discard-alignment", "0");
	assert_key("feature-persistent", "0");
	assert_key("sector-size", "512");
	assert_key("physical-sector-size", "4096");
	assert_key("sectors", "2048");
	assert_key("info", "0");
	assert_key("kthread-pid", "1000001");
}
END_TEST

START_TEST(offers_a_stock_tapdisk_as_what_it_is)
{
	rig.tap[0].stock = true;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	assert_key("max-ring-page-order", "3");
	assert_key("feature-flush-cache", "0");
	assert_key("feature-barrier", "1");
	assert_key("feature-discard", "0");
	assert_key("discard-granularity", NULL);
	assert_key("discard-alignment", NULL);
	assert_key("physical-sector-size", "512");
	assert_key("sectors", "2048");
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	ck_assert(rig.tap[0].served);
	ck_assert_uint_eq(rig.tap[0].ring.domid, D);
	ck_assert_uint_eq(rig.tap[0].refs[0], 8);
	ck_assert_uint_eq(rig.tap[0].ring.port, 15);
	ck_assert_uint_eq(rig.tap[0].ring.proto, ABI_X86_64);
}
END_TEST

START_TEST(offers_no_barrier_if_told_so)
{
	rig.env.barrier = false;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	assert_key("feature-barrier", "0");
}
END_TEST

static const struct {
	const char *mode, *type;
	bool read_only;
	uint32_t info;
	const char *want, *discard;
} kinds[] = {
	{ "w", "disk", false, 0, "0", "1" },
	{ "r", "disk", false, 0, "4", "0" },
	{ "w", "disk", true, 4, "4", "0" },
	{ "r", "cdrom", true, 5, "5", "0" },
	{ "r", "cdrom", false, 0, "5", "0" },
};

START_TEST(says_what_kind_of_disk_it_is)
{
	rig.tap[0].read_only = kinds[_i].read_only;
	rig.tap[0].info = kinds[_i].info;
	rig.tap[0].granularity = kinds[_i].read_only ? 0 : 4096;
	backrig_plug(&rig, D);
	backrig_put_back(&rig, D, "mode", kinds[_i].mode);
	backrig_put_front(&rig, D, "device-type", kinds[_i].type);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	assert_key("info", kinds[_i].want);
	assert_key("feature-discard", kinds[_i].discard);
	assert_key("feature-flush-cache", "1");
}
END_TEST

START_TEST(connects_a_frontend_that_follows_the_book)
{
	backrig_connect(&rig, D, 0);
	ck_assert(rig.tap[0].served);
	ck_assert_uint_eq(rig.tap[0].connects, 1);
	ck_assert_uint_eq(rig.tap[0].hellos, 2);
	ck_assert_str_eq(rig.tap[0].guest, "xen");
	ck_assert_uint_eq(rig.tap[0].ring.domid, D);
	ck_assert_uint_eq(rig.tap[0].ring.devid, BACKRIG_DEVID);
	ck_assert_uint_eq(rig.tap[0].ring.port, 15);
	ck_assert_uint_eq(rig.tap[0].refs[0], 8);
	ck_assert_ptr_null(xenstore_peek(rig.xs, BACKRIG_ERROR, D));
	backrig_put_front(&rig, D, "state", "5");
	backrig_await(&rig, D, 5);
	ck_assert(rig.tap[0].served); /* it may still have I/O */
	backrig_put_front(&rig, D, "state", "6");
	backrig_await(&rig, D, 6);
	ck_assert(!rig.tap[0].served);
	backrig_put_front(&rig, D, "state", "1");
	backrig_await(&rig, D, 2);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	ck_assert_uint_eq(rig.tap[0].connects, 2);
	backrig_unplug(&rig, D);
	backrig_settle(&rig);
	ck_assert(!rig.tap[0].served);
	ck_assert_ptr_null(devices_find(rig.devices, D, BACKRIG_DEVID));
	ck_assert_int_eq(backrig_state(&rig, D), -1);
}
END_TEST

START_TEST(sees_at_connected_what_has_changed_since)
{
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	rig.tap[1].sectors = 4096;
	rig.tap[1].physical = 512;
	backrig_name(&rig, D, 1);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	ck_assert(!rig.tap[0].served && rig.tap[1].served);
	ck_assert_uint_eq(faketap_listeners(&rig.tap[1]), 1);
	assert_key("sectors", "4096");
	assert_key("physical-sector-size", "512");
	assert_key("kthread-pid", "1000002");
}
END_TEST

/* The same for grub (3, and never 4) and OVMF and Mirage (4 at once). */
START_TEST(connects_a_frontend_that_waits_for_nothing)
{
	backrig_plug(&rig, D);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", _i ? "4" : "3");
	backrig_settle(&rig);
	ck_assert_int_eq(backrig_state(&rig, D), 1); /* hotplug has not run */
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 4);
	ck_assert(rig.tap[0].served);
	/* grub does not say Closing */
	backrig_put_front(&rig, D, "state", "6");
	backrig_await(&rig, D, 6);
	ck_assert(!rig.tap[0].served);
	/* then the kernel */
	backrig_put_front(&rig, D, "state", "1");
	backrig_await(&rig, D, 2);
}
END_TEST

static const struct {
	const char *order, *ref, *ref0;
	unsigned nr, first;
} rings[] = {
	{ NULL, "8", NULL, 1, 8 }, { NULL, "8", "9", 1, 8 },
	{ "0", NULL, "9", 1, 9 },  { "0", "8", "9", 1, 9 },
	{ "0", "8", NULL, 1, 8 },  { "1", "8", "9", 2, 9 },
	{ "2", NULL, "9", 4, 9 },  { "3", NULL, "9", 8, 9 },
	{ "4", NULL, "9", 16, 9 },
};

START_TEST(finds_the_ring_under_every_name_it_has)
{
	char key[32], value[32];

	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_put_front(&rig, D, "ring-page-order", rings[_i].order);
	backrig_put_front(&rig, D, "ring-ref", rings[_i].ref);
	backrig_put_front(&rig, D, "ring-ref0", rings[_i].ref0);
	for (unsigned i = 1; i < rings[_i].nr; i++) {
		snprintf(key, sizeof(key), "ring-ref%u", i);
		snprintf(value, sizeof(value), "%u", 100 + i);
		backrig_put_front(&rig, D, key, value);
	}
	backrig_put_front(&rig, D, "event-channel", "15");
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 4);
	ck_assert_uint_eq(rig.tap[0].nr_refs, rings[_i].nr);
	ck_assert_uint_eq(rig.tap[0].refs[0], rings[_i].first);
	for (unsigned i = 1; i < rings[_i].nr; i++)
		ck_assert_uint_eq(rig.tap[0].refs[i], 100 + i);
}
END_TEST

static const struct {
	const char *name;
	enum abi abi;
} protocols[] = {
	{ NULL, ABI_X86_32 },
	{ "x86_32-abi", ABI_X86_32 },
	{ "x86_64-abi", ABI_X86_64 },
	{ "arm-abi", ABI_NATIVE },
};

START_TEST(takes_a_missing_protocol_for_32_bits)
{
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "protocol", protocols[_i].name);
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 4);
	ck_assert_uint_eq(rig.tap[0].ring.proto, protocols[_i].abi);
}
END_TEST

/* Six steps that come in any order. */
static void step(int which)
{
	switch (which) {
	case 0:
		backrig_put_back(&rig, D, "hotplug-status", "connected");
		break;
	case 1: {
		char path[160];

		snprintf(path, sizeof(path), "%s/nbd%d.0",
			 getenv("TAPDISK_RUN_DIR"), BACKRIG_PID);
		backrig_put_back(&rig, D, "physical-device-path", path);
		break;
	}
	case 2:
		backrig_put_back(&rig, D, "mode", "w");
		break;
	case 3: {
		char path[64];

		snprintf(path, sizeof(path), BACKRIG_F, D);
		backrig_put_back(&rig, D, "frontend", path);
		break;
	}
	case 4:
		backrig_put_front(&rig, D, "device-type", "disk");
		break;
	case 5:
		backrig_write_ring(&rig, D);
		backrig_put_front(&rig, D, "state", "3");
		break;
	}
}

/* The @nth of the 720 orders; one by one, or all at once. */
static void plug_in_order(int nth, bool settle)
{
	int left[6] = { 0, 1, 2, 3, 4, 5 };
	int n, at;

	/* that is looked at only once it is needed */
	step(2);
	for (n = 6; n; n--) {
		at = nth % n;
		nth /= n;
		step(left[at]);
		memmove(left + at, left + at + 1,
			(size_t)(n - at - 1) * sizeof(int));
		if (settle)
			backrig_settle(&rig);
	}
}

/* Field: B11 */
START_TEST(connects_in_whatever_order_the_keys_arrive)
{
	for (int i = 0; i < 720; i++) {
		rig.tap[0].connects = 0;
		plug_in_order(i, _i);
		backrig_await(&rig, D, 4);
		backrig_settle(&rig);
		ck_assert(rig.tap[0].served);
		ck_assert_uint_eq(rig.tap[0].connects, 1);
		backrig_unplug(&rig, D);
		backrig_settle(&rig);
		ck_assert(!rig.tap[0].served);
	}
}
END_TEST

/* Field: B10 */
START_TEST(finds_what_was_there_before_it_was)
{
	backrig_stop(&rig);
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_plug(&rig, D + 1);
	backrig_put_back(&rig, D + 1, "physical-device-path", "/dev/sda");
	/* one malformed device, and one that is no device at all */
	xenstore_put(rig.xs, "", "/local/domain/0/backend/vbd3/abc/1/frontend");
	xenstore_put(rig.xs, "", "/local/domain/0/backend/vbd3/5/x/frontend");
	xenstore_put(rig.xs, "junk",
		     "/local/domain/0/backend/vbd3/5/77/frontend");
	backrig_start(&rig);
	backrig_await(&rig, D, 2);
	ck_assert_int_eq(backrig_state(&rig, D + 1), 1);
}
END_TEST

START_TEST(finds_a_tapdisk_by_its_minor_alone)
{
	char path[160];
	int fd;

	/* we hold the marker, so we are the tapdisk */
	rig.tap[1].minor = 26;
	snprintf(path, sizeof(path), "%s/tapdisk", getenv("TAPDISK_RUN_DIR"));
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/tapdisk/tapdisk-26",
		 getenv("TAPDISK_RUN_DIR"));
	fd = host_create(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	fd = host_lock(path);
	ck_assert_int_ge(fd, 0);
	faketap_close(&rig.tap[1]);
	faketap_open(&rig.tap[1], rig.loop, getpid(), 26);
	backrig_plug(&rig, D);
	backrig_put_back(&rig, D, "physical-device", "0:1a");
	backrig_put_back(&rig, D, "hotplug-status", "connected");
	backrig_await(&rig, D, 2);
	ck_assert_uint_eq(rig.tap[1].hellos, 1);
	close(fd);
}
END_TEST

static const struct {
	const char *key, *value;
} unready[] = {
	{ "hotplug-status", "" },
	{ "hotplug-status", "error" },
	{ "hotplug-status", "Connected" },
	{ "hotplug-status", "connected " },
	{ "physical-device-path", "/dev/xen/blktap-2/tapdev0" },
	{ "physical-device-path", "/run/blktap-control/nbd" },
	/* a real disk's minor is not a tapdisk's */
	{ "physical-device", "8:1" },
	{ "physical-device", "0:99" },
	{ "physical-device", "" },
	{ "physical-device", "0:1:2" },
};

/* Field: B12 */
START_TEST(waits_for_a_hotplug_that_names_a_tapdisk)
{
	backrig_plug(&rig, D);
	backrig_put_back(&rig, D, "hotplug-status", "connected");
	if (!strcmp(unready[_i].key, "hotplug-status"))
		backrig_name(&rig, D, 0);
	backrig_put_back(&rig, D, unready[_i].key, unready[_i].value);
	backrig_settle(&rig);
	ck_assert_int_eq(backrig_state(&rig, D), 1);
	ck_assert_uint_eq(rig.tap[0].all, 0);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
}
END_TEST

START_TEST(passes_polling_on_and_applies_it_live)
{
	backrig_plug(&rig, D);
	backrig_put_back(&rig, D, "polling-duration", "8000");
	backrig_put_back(&rig, D, "polling-idle-threshold", "50");
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 4);
	ck_assert_uint_eq(rig.tap[0].duration_us, 8000);
	ck_assert_uint_eq(rig.tap[0].idle_threshold, 50);
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.tap[0].polls, 0);

	backrig_put_back(&rig, D, "polling-duration", "12000");
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.tap[0].duration_us, 12000);
	ck_assert_uint_eq(rig.tap[0].idle_threshold, 50);
	ck_assert_uint_eq(rig.tap[0].polls, 1);

	/* the same again is nothing new, junk keeps what was */
	backrig_put_back(&rig, D, "polling-duration", "12000");
	backrig_put_back(&rig, D, "polling-duration", "12 ms");
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.tap[0].polls, 1);

	/* bent into range */
	backrig_put_back(&rig, D, "polling-duration", "99999999999999999999");
	backrig_put_back(&rig, D, "polling-idle-threshold", "101");
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.tap[0].duration_us, 60000000);
	ck_assert_uint_eq(rig.tap[0].idle_threshold, 100);

	/* and without the keys there is none */
	backrig_put_back(&rig, D, "polling-duration", NULL);
	backrig_put_back(&rig, D, "polling-idle-threshold", NULL);
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.tap[0].duration_us, 0);
	ck_assert_uint_eq(rig.tap[0].connects, 1);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
}
END_TEST

START_TEST(serves_domain_0_and_many_at_once)
{
	backrig_connect(&rig, 0, 0);
	backrig_connect(&rig, D, 1);
	ck_assert(rig.tap[0].served && rig.tap[1].served);
	backrig_unplug(&rig, 0);
	backrig_settle(&rig);
	ck_assert(!rig.tap[0].served && rig.tap[1].served);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
}
END_TEST

START_TEST(serves_one_domain_alone_if_told_so)
{
	backrig_stop(&rig);
	rig.only = D;
	backrig_start(&rig);
	backrig_plug(&rig, D + 1);
	backrig_name(&rig, D + 1, 1);
	backrig_connect(&rig, D, 0);
	ck_assert_int_eq(backrig_state(&rig, D + 1), 1);
	ck_assert_uint_eq(rig.left, 0);
	backrig_unplug(&rig, D + 1);
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.left, 0);
	backrig_unplug(&rig, D);
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.left, 1);
}
END_TEST

START_TEST(says_so_when_xenstore_is_gone)
{
	backrig_connect(&rig, D, 0);
	xenstore_lose(rig.xs);
	backrig_run_ms(&rig, 1);
	backrig_run_ms(&rig, 1);
	ck_assert_int_eq(rig.lost, -EBADF);
	ck_assert(rig.tap[0].served);
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(table[0])))

int main(void)
{
	Suite *suite = suite_create("tapback");
	TCase *tc = tcase_create("tapback");
	SRunner *runner = srunner_create(suite);
	int failed;

	scratch_open();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, offers_what_the_tapdisk_can_before_it_waits);
	tcase_add_test(tc, offers_a_stock_tapdisk_as_what_it_is);
	tcase_add_test(tc, offers_no_barrier_if_told_so);
	tcase_add_loop_test(tc, says_what_kind_of_disk_it_is, 0, COUNT(kinds));
	tcase_add_test(tc, connects_a_frontend_that_follows_the_book);
	tcase_add_test(tc, sees_at_connected_what_has_changed_since);
	tcase_add_loop_test(tc, connects_a_frontend_that_waits_for_nothing, 0,
			    2);
	tcase_add_loop_test(tc, finds_the_ring_under_every_name_it_has, 0,
			    COUNT(rings));
	tcase_add_loop_test(tc, takes_a_missing_protocol_for_32_bits, 0,
			    COUNT(protocols));
	tcase_add_loop_test(tc, connects_in_whatever_order_the_keys_arrive, 0,
			    2);
	tcase_add_test(tc, finds_what_was_there_before_it_was);
	tcase_add_test(tc, finds_a_tapdisk_by_its_minor_alone);
	tcase_add_loop_test(tc, waits_for_a_hotplug_that_names_a_tapdisk, 0,
			    COUNT(unready));
	tcase_add_test(tc, passes_polling_on_and_applies_it_live);
	tcase_add_test(tc, serves_domain_0_and_many_at_once);
	tcase_add_test(tc, serves_one_domain_alone_if_told_so);
	tcase_add_test(tc, says_so_when_xenstore_is_gone);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
