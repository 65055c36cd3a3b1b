/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mailbox, used by one thread: nothing is out of order, nobody sleeps on a
 * full box, and nobody who is awake pays for a system call.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "poll/mailbox.h"
#include "tests/rig.h"

struct note {
	struct mail mail; /* first, so that a mail is its note */
	struct mailbox *box;
	struct note *more;
	unsigned number;
};

static unsigned order[8];
static unsigned nr_run;

static void remember(struct mail *mail)
{
	order[nr_run++] = ((struct note *)mail)->number;
}

static bool readable(const struct mailbox *box, int timeout_ms)
{
	struct pollfd pfd = { .fd = box->fd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

static void setup(struct mailbox *box)
{
	nr_run = 0;
	ck_assert_int_eq(mailbox_init(box), 0);
}

START_TEST(runs_letters_oldest_first)
{
	struct note notes[5] = { 0 };
	struct mailbox box;
	unsigned i;

	setup(&box);
	for (i = 0; i < 5; i++) {
		notes[i].mail.fn = remember;
		notes[i].number = i;
		mailbox_post(&box, &notes[i].mail);
		ck_assert_uint_eq(box.word, i + 1);
	}
	ck_assert_uint_eq(mailbox_run(&box), 5);
	for (i = 0; i < 5; i++)
		ck_assert_uint_eq(order[i], i);
	ck_assert_uint_eq(mailbox_run(&box), 0);
	ck_assert_uint_eq(nr_run, 5);
	mailbox_fini(&box);
}
END_TEST

static void free_and_post(struct mail *mail)
{
	struct note *note = (struct note *)mail;

	order[nr_run++] = note->number;
	if (note->more)
		mailbox_post(note->box, &note->more->mail);
	free(note);
}

START_TEST(a_letter_may_free_itself_and_post_more)
{
	struct mailbox box;
	struct note *more = NULL, *note;
	unsigned i, word;

	setup(&box);
	for (i = 0; i < 3; i++) {
		note = calloc(1, sizeof(*note));
		ck_assert_ptr_nonnull(note);
		*note = (struct note){ .mail.fn = free_and_post,
				       .box = &box,
				       .more = more,
				       .number = 2 - i };
		more = note;
	}
	mailbox_post(&box, &more->mail);
	for (i = 0; i < 3; i++) {
		word = box.word;
		ck_assert_uint_eq(mailbox_run(&box), 1);
		ck_assert_uint_eq(order[i], i);
		/* who waits now must see what was posted while we ran */
		ck_assert_int_eq(box.word != word, i < 2);
		ck_assert_int_eq(mailbox_arm(&box), i < 2);
	}
	mailbox_fini(&box);
}
END_TEST

START_TEST(rings_only_for_who_sleeps)
{
	static const struct {
		const char *why;
		bool arm, disarm, rings;
	} cases[] = {
		{ "awake", false, false, false },
		{ "asleep", true, false, true },
		{ "awake again", true, true, false },
	};
	struct note notes[2] = { { .mail.fn = remember },
				 { .mail.fn = remember } };
	struct mailbox box;

	setup(&box);
	if (cases[_i].arm)
		ck_assert(!mailbox_arm(&box));
	if (cases[_i].disarm)
		mailbox_disarm(&box);
	mailbox_post(&box, &notes[0].mail);
	mailbox_post(&box, &notes[1].mail);
	ck_assert_msg(readable(&box, 0) == cases[_i].rings, "%s",
		      cases[_i].why);
	mailbox_disarm(&box);
	ck_assert_uint_eq(mailbox_run(&box), 2);
	ck_assert_msg(!readable(&box, 0), "%s: still rings", cases[_i].why);
	mailbox_fini(&box);
}
END_TEST

START_TEST(never_arms_a_full_box)
{
	struct note notes[2] = { { .mail.fn = remember },
				 { .mail.fn = remember } };
	struct mailbox box;

	setup(&box);
	mailbox_post(&box, &notes[0].mail);
	ck_assert(mailbox_arm(&box));
	mailbox_post(&box, &notes[1].mail);
	ck_assert(!readable(&box, 0)); /* not armed, so not rung */
	ck_assert_uint_eq(mailbox_run(&box), 2);
	ck_assert(!mailbox_arm(&box));
	mailbox_fini(&box);
}
END_TEST

/*
 * A sender can lose the CPU between claiming the eventfd and writing to it.
 * We play it: 2 is mailbox.c's RUNG.
 */
START_TEST(a_late_ring_is_neither_lost_nor_stuck)
{
	struct note note = { .mail.fn = remember };
	struct mailbox box;
	uint64_t one = 1;

	setup(&box);
	ck_assert(!mailbox_arm(&box));
	box.armed = 2;
	mailbox_disarm(&box);
	ck_assert_uint_eq(mailbox_run(&box), 0);
	/* sleeps again, and the next sender does not ring: one will */
	ck_assert(!mailbox_arm(&box));
	mailbox_post(&box, &note.mail);
	ck_assert(!readable(&box, 0));
	ck_assert_int_eq(write(box.fd, &one, sizeof(one)), sizeof(one));
	ck_assert(readable(&box, 0));
	ck_assert_uint_eq(mailbox_run(&box), 1);
	ck_assert(!readable(&box, 0));
	/* and all is as in the beginning */
	ck_assert(!mailbox_arm(&box));
	mailbox_post(&box, &note.mail);
	ck_assert(readable(&box, 0));
	mailbox_disarm(&box);
	ck_assert_uint_eq(mailbox_run(&box), 1);
	mailbox_fini(&box);
}
END_TEST

/* From here on any system call but exit_group kills the process. */
static bool forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
	};
	struct sock_fprog prog = { .len = 4, .filter = filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void ignore(struct mail *mail)
{
	mail->fn = NULL;
}

START_TEST(awake_makes_no_system_call)
{
	struct note notes[3];
	struct mailbox box;
	int status, i;
	pid_t pid;

	setup(&box);
	/* it must not remember a sleep for ever either */
	notes[0].mail.fn = ignore;
	ck_assert(!mailbox_arm(&box));
	mailbox_post(&box, &notes[0].mail);
	mailbox_disarm(&box);
	ck_assert_uint_eq(mailbox_run(&box), 1);

	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		if (!forbid_system_calls())
			_exit(77);
		for (i = 0; i < 1000; i++)
			mailbox_run(&box);
		for (i = 0; i < 3; i++) {
			notes[i].mail.fn = ignore;
			mailbox_post(&box, &notes[i].mail);
		}
		/* not _exit, around which sanitizers make calls of their own */
		syscall(__NR_exit_group, mailbox_run(&box) == 3 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "a system call was made");
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	mailbox_fini(&box);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("mailbox");
	TCase *tcase = tcase_create("mailbox");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, runs_letters_oldest_first);
	tcase_add_test(tcase, a_letter_may_free_itself_and_post_more);
	tcase_add_loop_test(tcase, rings_only_for_who_sleeps, 0, 3);
	tcase_add_test(tcase, never_arms_a_full_box);
	tcase_add_test(tcase, a_late_ring_is_neither_lost_nor_stuck);
	tcase_add_test(tcase, awake_makes_no_system_call);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
