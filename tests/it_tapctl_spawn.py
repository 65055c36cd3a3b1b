#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
tap-ctl as the one who starts and ends tapdisks: spawn, create, destroy.

The tapdisk is Python under that name: it runs sitecustomize first.
"""

import os
import shutil
import signal
import subprocess
import sys
import time

# beside us, and nothing compiled is left there
sys.dont_write_bytecode = True
from tapctl import HANG_S, TAP_CTL, Place, check, check_run, run

FAKE_TAPDISK = '''
import os, signal, socket, struct, sys, time
how = os.environ["FAKE"]
place = os.environ["FAKE_DIR"]
seen = os.path.join(place, "seen")
with open(seen, "a") as file:
    fds = [fd for fd in os.listdir("/proc/self/fd")
           if os.path.exists("/proc/self/fd/" + fd)]
    kinds = sorted(int(fd) for fd in fds if int(fd) != file.fileno())
    print(repr((open("/proc/self/cmdline").read(),
                os.readlink("/proc/self/fd/0"), kinds)), file=file)
def message(kind, cookie, number):
    return struct.pack("<HHIi", kind, cookie, 0, number).ljust(544, b"\\0")
if how.startswith("exit "):
    os._exit(int(how.split()[1]))
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "usr1" and len(open(seen).readlines()) < 3:
    os.kill(os.getpid(), signal.SIGUSR1)
if how.startswith("say "):
    os.write(1, how[4:].encode() + b"\\n")
    os._exit(0)
if os.fork():
    os._exit(0)
os.setsid()
path = "%s/ctl%d" % (os.environ["TAPDISK_RUN_DIR"], os.getpid())
with open(os.path.join(place, "pids"), "a") as file:
    print(os.getpid(), file=file)
server = socket.socket(socket.AF_UNIX)
os.makedirs(os.path.dirname(path), exist_ok=True)
server.bind(path)
server.listen(8)
os.write(1, path.encode() + b"\\n")
os.close(1)
os.close(2)
signal.alarm(60)
while True:
    client, _ = server.accept()
    request = client.recv(1024)
    kind, cookie = struct.unpack_from("<HH", request)
    fails = how.split("fails ")[1].split() if "fails " in how else []
    reply = message(kind + 1, cookie, 0)
    if {5: "attach", 7: "open", 15: "detach"}.get(kind) in fails:
        reply = message(1, cookie, 5)
    client.sendall(reply)
    client.close()
    if kind == 15 and "detach" not in fails:
        os.unlink(path)
        os._exit(0)
'''


class Spawner(Place):
    def __init__(self, how):
        super().__init__(FAKE=how)

    def __enter__(self):
        try:
            self.install()
        except BaseException:
            self.__exit__()
            raise
        return self

    def install(self):
        where = os.path.join(self.dir, "bin")
        os.mkdir(where)
        shutil.copy(TAP_CTL, where)
        self.program = os.path.join(where, "tap-ctl")
        os.symlink(os.path.realpath(sys.executable), os.path.join(where, "tapdisk"))
        with open(os.path.join(where, "sitecustomize.py"), "w") as file:
            file.write(FAKE_TAPDISK)
        self.env.update(FAKE_DIR=self.dir, PYTHONPATH=where,
                        PYTHONHOME="%s:%s" % (sys.base_prefix,
                                              sys.base_exec_prefix))

    def lines(self, name):
        try:
            with open(os.path.join(self.dir, name)) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def alive(self):
        return [int(pid) for pid in self.lines("pids") if is_alive(int(pid))]

    def __exit__(self, *unused):
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)
        super().__exit__()


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def soon(condition):
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_spawn_starts_a_clean_tapdisk_and_prints_its_pid():
    with Spawner("well") as place:
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        got = subprocess.run([place.program, "spawn"], env=place.env,
                             capture_output=True, timeout=HANG_S,
                             pass_fds=[writer])
        os.close(writer)
        check_run(got, 0, place.lines("pids")[0] + "\n")
        check(os.read(reader, 1) == b"", "the tapdisk kept our pipe")
        os.close(reader)
        argv, stdin, fds = eval(place.lines("seen")[0])
        check(argv == "tapdisk\0", repr(argv))
        check(stdin == "/dev/null", stdin)
        check(fds == [0, 1, 2], fds)
        check(len(place.alive()) == 1, "it is gone")


def test_spawn_tells_how_it_failed():
    cases = {"exit 3": 3, "exit 0": 1, "say ": 1, "say hello": 1,
             "say /run/x/ctl": 1, "say /run/x/ctl12x": 1, "say /run/x/ctl-1": 1,
             "killed": 4}
    for how, status in cases.items():
        with Spawner(how) as place:
            check_run(place("spawn"), status, "")
    with Spawner("say /elsewhere/ctl123") as place:
        check_run(place("spawn"), 0, "123\n")


def test_spawn_tries_again_after_a_debug_signal():
    with Spawner("usr1") as place:
        check_run(place("spawn"), 0)
        check(len(place.lines("seen")) == 3, place.lines("seen"))


def test_create_makes_a_disk_and_destroy_ends_it():
    with Spawner("well") as place:
        check_run(place("create -a aio:/x -d ignored -R"), 0,
                  place.marker(0) + "\n")
        pid = place.lines("pids")[0]
        check(place.alive() == [int(pid)], "alive")
        check_run(place("destroy -p %s -m 0" % pid), 0, "")
        check(soon(lambda: not place.alive()), "still there")
        check(os.listdir(os.path.join(place.run_dir, "tapdisk")) == [], "marker")


def test_a_failed_create_leaves_nothing():
    cases = {"exit 3": 3, "exit 0": 1, "fails attach": 22, "fails open": 5,
             "fails open detach": 5}
    for how, status in cases.items():
        with Spawner(how) as place:
            got = place("create -a aio:/x")
            check(got.returncode == status and not got.stdout, how, got)
            check(len(got.stderr.splitlines()) == 1, how, got.stderr)
            check(soon(lambda: not place.alive()), how, "tapdisk is left")
            left = os.listdir(place.run_dir)
            check(left == ["tapdisk"], how, left)
            left = os.listdir(os.path.join(place.run_dir, "tapdisk"))
            check(left == [], how, left)
    with Spawner("well") as place:
        check_run(place(["create", "-a", "aio:/" + "x" * 300]), 36, "")
        check(not place.lines("pids"), "a tapdisk was started for it")
        check(os.listdir(os.path.join(place.run_dir, "tapdisk")) == [], "marker")


def test_destroy_cleans_up_behind_a_killed_tapdisk():
    with Spawner("well") as place:
        check_run(place("create -a aio:/x"), 0)
        pid = place.alive()[0]
        os.kill(pid, signal.SIGKILL)
        check(soon(lambda: not place.alive()), "alive")
        check_run(place("close -p %d -m 0" % pid), 111, "")
        check_run(place("list"), 0, "minor=0\n")
        check_run(place("destroy -p %d -m 0" % pid), 0, "")
        check(os.listdir(place.run_dir) == ["tapdisk"], "socket")
        check_run(place("list"), 0, "")


if __name__ == "__main__":
    sys.exit(run(globals()))
