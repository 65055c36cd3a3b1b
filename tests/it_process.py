#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The life of a tapdisk: how it starts, what signals do, and that it leaves
nothing behind.
"""

import os
import re
import shutil
import signal
import subprocess
import sys

from tapdisk import (
    Guest,
    ATTACH,
    BUILD,
    CLOSE,
    DETACH,
    PATIENCE_S,
    SIZE,
    STATS,
    Tapdisk,
    directories,
    errno_of,
    json_of,
    message,
    open_message,
    run,
    tapdisk,
    until,
)

# ---------------------------------------------------------------- process


def hup_reopens_the_log():
    """T20"""
    with tapdisk() as t:
        until(lambda: "started" in t.log_text(), "no log")
        os.rename(t.log, t.log + ".1")
        os.kill(t.pid, signal.SIGHUP)
        until(lambda: os.path.exists(t.log), "no new log")
        until(lambda: "reopened" in t.log_text(), "nothing in the new log")
        t.answers_soon()


def usr1_dumps_and_keeps_the_log():
    with tapdisk() as t:
        t.must(message(ATTACH))
        os.kill(t.pid, signal.SIGUSR1)
        until(lambda: "waiting" in t.log_text(), "no dump")
        os.kill(t.pid, signal.SIGUSR2)
        os.kill(t.pid, signal.SIGXFSZ)
        os.kill(t.pid, signal.SIGPIPE)
        t.answers_soon()
        t.must(message(DETACH))
        assert t.wait() == 0
        assert t.dirs.left() == [os.path.basename(t.log)], t.dirs.left()


def a_clean_end_leaves_nothing():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        t.must(message(CLOSE))
        t.must(message(DETACH))
        assert t.wait() == 0
        assert t.dirs.left() == [], t.dirs.left()


def errors_keep_the_log():
    with tapdisk() as t:
        t.must(message(ATTACH))
        assert errno_of(t.ask(open_message("aio:/nonexistent/image"))) == 2
        t.must(message(DETACH))
        assert t.wait() == 0
        assert t.dirs.left() == [os.path.basename(t.log)], t.dirs.left()
        assert "/nonexistent/image" in t.log_text()


def the_name_is_gone_before_the_last_answer():
    with tapdisk() as t:
        t.must(message(ATTACH))
        with t.connect() as s:
            s.sendall(message(DETACH))
            assert s.recv(SIZE)
            assert not os.path.exists(t.socket)


def int_closes_all_and_leaves_nothing():
    for attach in False, True:
        with tapdisk() as t:
            if attach:
                t.must(message(ATTACH))
                t.must(open_message("aio:" + t.dirs.image("a.img")))
            os.kill(t.pid, signal.SIGINT)
            assert t.wait() == 0
            assert t.dirs.left() == [], t.dirs.left()


def term_ends_it_at_once_and_leaves_nothing():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        os.kill(t.pid, signal.SIGTERM)
        assert t.wait() == -signal.SIGTERM
        assert t.dirs.left() == [], t.dirs.left()


def kill_does_not_stand_in_the_way_of_the_next():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        t.proc.kill()
        t.proc.wait()
        assert os.path.exists(t.socket)
        other = Tapdisk(t.dirs)
        try:
            other.must(message(ATTACH))
            other.must(open_message("aio:" + os.path.join(t.dirs.td, "a.img")))
        finally:
            other.end()


def run_it(dirs, *arguments):
    return subprocess.run(
        [os.path.join(BUILD, "bin", "tapdisk"), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=dirs.environment(),
        stdin=subprocess.DEVNULL,
    )


def the_daemon_announces_itself_and_lets_go():
    with directories() as dirs:
        done = run_it(dirs)  # returns at the end of its stdout and stderr
        assert (done.returncode, done.stderr) == (0, ""), done
        found = re.fullmatch(re.escape(dirs.run) + r"/ctl(\d+)\n", done.stdout)
        assert found, done.stdout
        pid = int(found.group(1))
        try:
            with open("/proc/%d/comm" % pid) as f:
                assert f.read() == "tapdisk\n"
            assert os.getsid(pid) != os.getsid(0)
            assert os.readlink("/proc/%d/cwd" % pid) == "/"
        finally:
            os.kill(pid, signal.SIGTERM)
        until(lambda: not os.path.exists("/proc/%d" % pid), "it does not end")
        assert dirs.left() == [], dirs.left()


def makes_its_directories():
    with directories() as dirs:
        shutil.rmtree(dirs.run)
        shutil.rmtree(dirs.log)
        done = run_it(dirs)
        assert done.returncode == 0, done
        pid = int(re.search(r"ctl(\d+)$", done.stdout.strip()).group(1))
        assert os.stat(dirs.run).st_mode & 0o777 == 0o755
        os.kill(pid, signal.SIGTERM)
        until(lambda: not os.path.exists("/proc/%d" % pid), "it does not end")
        assert os.listdir(dirs.run) == [] == os.listdir(dirs.log)


def says_why_it_cannot_start():
    with directories() as dirs:
        shutil.rmtree(dirs.run)
        open(dirs.run, "w").close()
        done = run_it(dirs, "-D")
        assert done.returncode == 1, done
        assert done.stdout == "" and "File exists" in done.stderr, done


def knows_its_options():
    with directories() as dirs:
        for argument in "-h", "--help", "--version":
            done = run_it(dirs, argument)
            assert done.returncode == 0 and "tapdisk" in done.stdout, done
        for argument in "-x", "--nonsense", "aio:/x":
            done = run_it(dirs, argument)
            assert done.returncode == 2 and done.stdout == "", done
            assert argument.lstrip("-")[:4] in done.stderr, done


def an_idle_connected_process_is_small():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        guest = Guest(os.path.join(t.dirs.top, "guest"))
        try:
            t.must(guest.connect_message())
            guest.read_block()
            json_of(t.must(message(STATS)))
            kib = 0
            with open("/proc/%d/smaps_rollup" % t.pid) as f:
                for line in f:
                    if line.startswith(("Private_Dirty:", "Swap:")):
                        kib += int(line.split()[1])
        finally:
            guest.close()
        assert os.environ.get("SAN") or kib < 2048, "%d KiB" % kib


TESTS = [
    hup_reopens_the_log,
    usr1_dumps_and_keeps_the_log,
    a_clean_end_leaves_nothing,
    errors_keep_the_log,
    the_name_is_gone_before_the_last_answer,
    int_closes_all_and_leaves_nothing,
    term_ends_it_at_once_and_leaves_nothing,
    kill_does_not_stand_in_the_way_of_the_next,
    the_daemon_announces_itself_and_lets_go,
    makes_its_directories,
    says_why_it_cannot_start,
    knows_its_options,
    an_idle_connected_process_is_small,
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
