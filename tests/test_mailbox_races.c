/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mailbox, used by many at once: in no interleaving, and under no load, is
 * a letter or a wake-up lost.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "poll/mailbox.h"
#include "tests/rig.h"

#define SENDERS 3
#define LETTERS 100000

static bool readable(const struct mailbox *box, int timeout_ms)
{
	struct pollfd pfd = { .fd = box->fd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

static void ignore(struct mail *mail)
{
	mail->fn = NULL;
}

/* What the two processes of an interleaving share. */
struct stage {
	struct mailbox box;
	struct mail mail;
	bool asleep;
	bool done;
};

static void arm_box(struct stage *stage)
{
	stage->asleep = !mailbox_arm(&stage->box);
}

static void post_letter(struct stage *stage)
{
	mailbox_post(&stage->box, &stage->mail);
}

/*
 * Run @stepped for @steps instructions, then all of @whole, then the rest.
 * False: @stepped was through before.
 */
static bool interleave(struct stage *stage, unsigned steps,
		       void (*stepped)(struct stage *),
		       void (*whole)(struct stage *))
{
	bool inside;
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		syscall(__NR_kill, getpid(), SIGSTOP);
		stepped(stage);
		stage->done = true;
		syscall(__NR_exit_group, 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSTOPPED(status));
	for (; steps && !stage->done; steps--) {
		ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSTOPPED(status));
	}
	inside = !stage->done;
	whole(stage);
	ck_assert_int_eq(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return inside;
}

/*
 * All that two CPUs can do to each other in a few nanoseconds, one at a time:
 * a letter is posted between any two instructions of mailbox_arm, and a
 * receiver arms between any two of mailbox_post.
 */
START_TEST(no_interleaving_loses_the_wakeup)
{
	unsigned steps = 0, asleep = 0, awake = 0;
	struct stage *stage;
	bool inside = true;

	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(stage, MAP_FAILED);
	while (inside) {
		memset(stage, 0, sizeof(*stage));
		stage->mail.fn = ignore;
		ck_assert_int_eq(mailbox_init(&stage->box), 0);
		inside = interleave(stage, steps, _i ? post_letter : arm_box,
				    _i ? arm_box : post_letter);
		steps++;
		if (stage->asleep) {
			asleep++;
			ck_assert_msg(readable(&stage->box, 0),
				      "asleep on a full box, step %u", steps);
		} else {
			awake++;
		}
		mailbox_disarm(&stage->box);
		ck_assert_uint_eq(mailbox_run(&stage->box), 1);
		ck_assert(!readable(&stage->box, 0));
		mailbox_fini(&stage->box);
	}
	ck_assert_uint_gt(steps, 10);
	ck_assert_uint_gt(asleep, 0);
	ck_assert_uint_gt(awake, 0);
	munmap(stage, sizeof(*stage));
}
END_TEST

struct note {
	struct mail mail; /* first, so that a mail is its note */
	struct mailbox *box;
	unsigned number;
};

struct sender {
	pthread_t thread;
	struct mailbox *box;
	struct note *notes;
	unsigned received;
	bool disordered;
};

static struct sender senders[SENDERS];

static void receive(struct mail *mail)
{
	struct note *note = (struct note *)mail;
	struct sender *from = &senders[note->number / LETTERS];

	if (note->number % LETTERS != from->received++)
		from->disordered = true;
}

/* Gaps of many lengths, so that the receiver is met in every state. */
static void pause_a_little(unsigned seed)
{
	volatile unsigned left = seed * 2654435761u >> 22;

	if (seed % 8)
		left = seed % 3;
	while (left)
		left = left - 1;
}

static void *send_all(void *arg)
{
	struct sender *self = arg;
	unsigned i;

	for (i = 0; i < LETTERS; i++) {
		mailbox_post(self->box, &self->notes[i].mail);
		pause_a_little(i);
	}
	return NULL;
}

static void start_senders(struct mailbox *box)
{
	struct sender *sender;
	unsigned s, i;

	for (s = 0; s < SENDERS; s++) {
		sender = &senders[s];
		*sender = (struct sender){ .box = box };
		sender->notes = calloc(LETTERS, sizeof(*sender->notes));
		ck_assert_ptr_nonnull(sender->notes);
		for (i = 0; i < LETTERS; i++) {
			sender->notes[i].mail.fn = receive;
			sender->notes[i].number = s * LETTERS + i;
		}
		ck_assert_int_eq(pthread_create(&sender->thread, NULL, send_all,
						sender),
				 0);
	}
}

START_TEST(threads_lose_no_letter_and_no_wakeup)
{
	unsigned got = 0, s;
	struct mailbox box;

	ck_assert_int_eq(mailbox_init(&box), 0);
	start_senders(&box);
	while (got < SENDERS * LETTERS) {
		got += mailbox_run(&box);
		if (mailbox_arm(&box))
			continue;
		if (got < SENDERS * LETTERS) {
			ck_assert_msg(readable(&box, 20000),
				      "asleep with %u of %u, %sletters in box",
				      got, SENDERS * LETTERS,
				      box.newest ? "" : "no ");
		}
		mailbox_disarm(&box);
	}
	for (s = 0; s < SENDERS; s++) {
		pthread_join(senders[s].thread, NULL);
		ck_assert_uint_eq(senders[s].received, LETTERS);
		ck_assert(!senders[s].disordered);
		free(senders[s].notes);
	}
	ck_assert_uint_eq(box.word, SENDERS * LETTERS);
	mailbox_fini(&box);
}
END_TEST

static unsigned answered;

static void answer(struct mail *mail)
{
	(void)mail;
	__atomic_fetch_add(&answered, 1, __ATOMIC_RELEASE);
}

/* Sends the same letter again as soon as it was run, give or take. */
static void *send_one_by_one(void *arg)
{
	struct note note = { .mail.fn = answer, .box = arg };
	unsigned i;

	for (i = 0; i < LETTERS; i++) {
		mailbox_post(note.box, &note.mail);
		while (__atomic_load_n(&answered, __ATOMIC_ACQUIRE) != i + 1)
			sched_yield();
		pause_a_little(i);
	}
	return NULL;
}

/* With one letter under way nobody else repairs a lost wake-up. */
START_TEST(a_lone_letter_always_wakes)
{
	struct mailbox box;
	pthread_t thread;
	unsigned got = 0;

	ck_assert_int_eq(mailbox_init(&box), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, send_one_by_one, &box),
			 0);
	while (got < LETTERS) {
		if (!mailbox_arm(&box))
			ck_assert_msg(readable(&box, 20000),
				      "asleep after %u letters", got);
		mailbox_disarm(&box);
		got += mailbox_run(&box);
	}
	pthread_join(thread, NULL);
	mailbox_fini(&box);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("mailbox_races");
	TCase *tcase = tcase_create("mailbox_races");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, no_interleaving_loses_the_wakeup, 0, 2);
	tcase_add_test(tcase, threads_lose_no_letter_and_no_wakeup);
	tcase_add_test(tcase, a_lone_letter_always_wakes);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
