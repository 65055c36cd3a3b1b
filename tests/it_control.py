#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The control socket of a running tapdisk: upstream's bytes, hostile clients and
signals.

Every exchange recorded from upstream (tests/data/wire) is sent again in the
order of recording, with the paths of this machine, and the answers are
compared byte for byte.  What differs on purpose is named in DIFFERENT with the
reason; bytes that upstream leaves stale may be zero here.
"""

import contextlib
import fcntl
import json
import mmap
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
WIRE = os.path.join(ROOT, "tests", "data", "wire")
THEIR_DIR = b"/var/tmp/td"

SIZE = 544
ERROR, PID, ATTACH, OPEN, PAUSE, RESUME, CLOSE = 1, 3, 5, 7, 9, 11, 13
DETACH, LIST, STATS, FORCE, CONNECT, DISCONNECT = 15, 19, 21, 23, 24, 26
JSON_CONNECT, POLLING, HELLO, EVENTS = 128, 130, 132, 134
ADD_LOG, SECONDARY, ENCRYPTED = 0x10, 0x80, 0x400

# What an answer of a loaded machine may take; usual is a millisecond.
SOON_S = 1.0
# What must not take for ever but has no date.
PATIENCE_S = 30.0


def message(type_, cookie=0, body=b"", at=8):
    m = bytearray(SIZE)
    struct.pack_into("<HH", m, 0, type_, cookie)
    m[at : at + len(body)] = body
    return bytes(m)


def open_message(spec, cookie=0, type_=OPEN, flags=0, secondary=b""):
    m = bytearray(message(type_, cookie, spec.encode(), 20))
    struct.pack_into("<I", m, 8, flags)
    m[282 : 282 + len(secondary)] = secondary
    return bytes(m)


def ours(type_, value=None, cookie=0):
    text = b"" if value is None else json.dumps(value).encode()
    return message(type_, cookie, struct.pack("<HHIQ", 0, 0, 0, len(text))) + text


def reply_of(m):
    """(type, cookie, first word of the union)"""
    return struct.unpack_from("<HHxxxxi", m)


def errno_of(m):
    type_, _, error = reply_of(m)
    return error if type_ == ERROR else 0


def json_of(m):
    (length,) = struct.unpack_from("<Q", m, 16)
    assert len(m) == SIZE + length, (len(m), length)
    return json.loads(m[SIZE:])


def until(what, why, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, why
        time.sleep(0.005)


class Tapdisk:
    """One in the foreground, in directories of its own unless told which."""

    def __init__(self, dirs, minors=(0,)):
        self.dirs = dirs
        for minor in minors:
            open(os.path.join(dirs.run, "tapdisk", "tapdisk-%d" % minor), "w").close()
        self.stderr = open(os.path.join(dirs.top, "stderr"), "a+")
        self.proc = subprocess.Popen(
            [os.path.join(BUILD, "bin", "tapdisk"), "-D"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=dirs.environment(),
        )
        line = self.proc.stdout.readline()
        self.pid = self.proc.pid
        self.socket = os.path.join(dirs.run, "ctl%d" % self.pid)
        self.log = os.path.join(dirs.log, "tapdisk.%d.log" % self.pid)
        assert line == (self.socket + "\n").encode(), line
        assert self.proc.stdout.read() == b"", "stdout is not closed"

    def connect(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(self.socket)
        s.settimeout(PATIENCE_S)
        return s

    def ask(self, request):
        with self.connect() as s:
            s.sendall(request)
            return receive_all(s)

    def must(self, request):
        reply = self.ask(request)
        assert errno_of(reply) == 0, os.strerror(errno_of(reply))
        return reply

    def answers_soon(self):
        for request in message(PID), message(LIST, 0xFFFF):
            start = time.monotonic()
            assert len(self.ask(request)) >= SIZE
            taken = time.monotonic() - start
            assert taken < SOON_S, "an answer took %.1f s" % taken

    def log_text(self):
        with open(self.log) as f:
            return f.read()

    def wait(self):
        return self.proc.wait(PATIENCE_S)

    def end(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        self.proc.stdout.close()
        self.stderr.close()


class Dirs:
    def __init__(self, top):
        self.top = top
        for name in "run", "shm", "log", "td":
            os.mkdir(os.path.join(top, name))
            setattr(self, name, os.path.join(top, name))
        os.mkdir(os.path.join(self.run, "tapdisk"))

    def environment(self):
        return dict(
            os.environ,
            TAPDISK_RUN_DIR=self.run,
            TAPDISK_SHM_DIR=self.shm,
            TAPDISK_LOG_DIR=self.log,
        )

    def image(self, name, mib=8):
        path = os.path.join(self.td, name)
        with open(path, "wb") as f:
            f.truncate(mib << 20)
        return path

    def left(self):
        """What a tapdisk must not leave: all but the marker files."""
        found = os.listdir(self.run) + os.listdir(self.shm) + os.listdir(self.log)
        found.remove("tapdisk")
        return found


def receive_all(s):
    parts = []
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


@contextlib.contextmanager
def directories():
    top = tempfile.mkdtemp(prefix="ctl.")
    try:
        yield Dirs(top)
    finally:
        shutil.rmtree(top, ignore_errors=True)


@contextlib.contextmanager
def tapdisk(**options):
    with directories() as dirs:
        t = Tapdisk(dirs, **options)
        try:
            yield t
        finally:
            t.end()


class Guest:
    """A local guest: memory, eight event channels, and a ring in page 8."""

    PAGES, PORTS, RING, DATA = 64, 8, 8, 20

    def __init__(self, path):
        self.path = path
        self.memory = memfd(self.PAGES * 4096)
        self.map = mmap.mmap(self.memory, self.PAGES * 4096)
        self.events = [eventfd() for _ in range(self.PORTS)]
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(8)
        self.peers = []
        self.reset()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        hello = struct.pack(
            "<6I", 0x6C6F6361, 1, self.PAGES, self.PORTS, os.getpid(), 0
        )
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                socket.send_fds(peer, [hello], [self.memory] + self.events)
                self.peers.append(peer)

    def reset(self):
        at = self.RING * 4096
        self.map[at : at + 8 * 4096] = bytes(8 * 4096)
        struct.pack_into("<4I", self.map, at, 0, 1, 0, 1)

    def read_block(self):
        """One read of 4 KiB on a native ring that was just connected."""
        at = self.RING * 4096
        struct.pack_into("<BBHxxxxQQ", self.map, at + 64, 0, 1, 0, 7, 0)
        struct.pack_into("<IBB", self.map, at + 64 + 24, self.DATA, 0, 7)
        struct.pack_into("<I", self.map, at, 1)
        os.write(self.events[1], struct.pack("<Q", 1))
        until(
            lambda: struct.unpack_from("<I", self.map, at + 8)[0] == 1,
            "the ring does not answer",
        )
        assert struct.unpack_from("<h", self.map, at + 64 + 10)[0] == 0

    def close(self):
        # shutdown, because close alone does not end accept()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        for s in [self.listener] + self.peers:
            s.close()
        self.map.close()
        for fd in [self.memory] + self.events:
            os.close(fd)


def memfd(size):
    fd = os.memfd_create("guest", os.MFD_CLOEXEC | 2)  # MFD_ALLOW_SEALING
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, 1033, 2 | 4)  # F_ADD_SEALS: shrink, grow
    return fd


def eventfd():
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)


# ---------------------------------------------------------------- upstream

NO_VHD = "no vhd driver yet: an unknown type"
NOT_YET = "not supported yet: said so, and nothing is opened"

# name: (errno, why)
DIFFERENT = {
    "open-historic-type": (2, "a type we never had is an unknown type"),
    "open-not-a-vhd": (2, NO_VHD),
    "open-D": (2, NO_VHD),
    "open-vhd": (2, NO_VHD),
    "open-vhd-child": (2, NO_VHD),
    "open-C": (95, NOT_YET),
    "open-C-enoent": (95, NOT_YET),
    "open-2": (95, NOT_YET),
    "open-2-s": (95, NOT_YET),
    "open-2-other-size": (95, NOT_YET),
    "open-r": (95, NOT_YET),
    "open-e": (95, NOT_YET),
    "open-e-missing": (95, NOT_YET),
    "open-E-256": (95, NOT_YET),
    "open-E-512": (95, NOT_YET),
    "open-all-flags": (95, NOT_YET),
    "resume-log": (95, NOT_YET),
    "resume-secondary": (95, NOT_YET),
}

SKIPPED = {
    "xenblkif-connect-bad-domain": "a local guest has no domain number to miss",
}

# Requests that stood between the recorded ones.
PAUSE_FIRST = message(PAUSE)
CLOSE_FIRST = message(CLOSE)
DISCONNECT_FIRST = message(DISCONNECT, 0, struct.pack("<II", 7, 51712))
BEFORE = {
    "xenblkif-connect-x86_64-order3-poll": [DISCONNECT_FIRST],
    "xenblkif-connect-order4": [DISCONNECT_FIRST],
    "resume-new-path": [PAUSE_FIRST],
    "resume-log": [PAUSE_FIRST],
    "resume-secondary": [PAUSE_FIRST],
    "resume-secondary-null": [PAUSE_FIRST],
    "resume-enoent": [PAUSE_FIRST],
    "open-t": [CLOSE_FIRST],
    "open-D": [CLOSE_FIRST],
    "open-all-flags": [CLOSE_FIRST],
    "detach-last": [CLOSE_FIRST],
}


def read_hex(name):
    with open(os.path.join(WIRE, name)) as f:
        return bytes.fromhex(f.read())


def put_string(m, at, size, text):
    assert len(text) < size
    m[at : at + size] = text.ljust(size, b"\0")


def here(m, at, size, directory):
    """The string at @at with this machine's directory."""
    text = bytes(m[at : at + size]).split(b"\0")[0]
    if THEIR_DIR in text:
        put_string(m, at, size, text.replace(THEIR_DIR, directory))


def our_request(name, dirs, guest):
    m = bytearray(read_hex(name + ".req.hex"))
    directory = dirs.td.encode()
    if len(m) < SIZE:
        return bytes(m)
    (type_,) = struct.unpack_from("<H", m)
    if type_ in (OPEN, RESUME):
        here(m, 20, 256, directory)
        here(m, 282, 256, directory)
    if len(m) == SIZE + 256:
        here(m, SIZE, 256, directory)
    if type_ == CONNECT and name != "xenblkif-connect-pool-unterminated":
        put_string(m, 56, 256, b"local:" + guest.path.encode())
    return bytes(m)


def normal_stats(m):
    text = m[SIZE:]
    text = re.sub(rb'"max": \d+', b'"max": N', text)  # a limit of the driver's
    text = re.sub(rb'"kicks": \[ \d+, \d+ \]', b'"kicks": N', text)  # timing
    return m[:16] + bytes(8) + m[24:SIZE] + text


def normal_list(m):
    """Zeros for what upstream leaves over from an entry before."""
    m = bytearray(m)
    for at in range(0, len(m), SIZE):
        text = bytes(m[at + 20 : at + 276]).split(b"\0")[0]
        put_string(m, at + 20, 256, text)
        if struct.unpack_from("<i", m, at + 8)[0] == 0:
            struct.pack_into("<i", m, at + 16, 0)
    return bytes(m)


def normal(reply, pid):
    type_ = struct.unpack_from("<H", reply)[0] if len(reply) >= SIZE else 0
    if type_ == PID + 1:
        assert pid is None or struct.unpack_from("<i", reply, 8)[0] == pid
        return reply[:8] + bytes(4) + reply[12:]
    if type_ == LIST + 1:
        return normal_list(reply)
    if type_ == STATS + 1:
        return normal_stats(reply)
    return reply


def their_reply(name, dirs):
    m = bytearray(read_hex(name + ".rsp.hex"))
    directory = dirs.td.encode()
    if len(m) < SIZE:
        return bytes(m)
    (type_,) = struct.unpack_from("<H", m)
    if type_ == LIST + 1:
        for at in range(0, len(m), SIZE):
            here(m, at + 20, 256, directory)
    if type_ == STATS + 1:
        text = bytes(m[SIZE:]).replace(THEIR_DIR, directory)
        m[SIZE:] = text
        struct.pack_into("<Q", m, 16, len(text))
    if name in DIFFERENT:
        (cookie,) = struct.unpack_from("<H", m, 2)
        return message(ERROR, cookie, struct.pack("<i", DIFFERENT[name][0]))
    return bytes(m)


def exchanges():
    with open(os.path.join(WIRE, "index.tsv")) as f:
        return [line.split("\t")[0] for line in f.read().splitlines()[1:]]


class Replay:
    """
    Upstream served two disks in one process; here each has its own: requests
    for minor 1 go to a second tapdisk, and a list of two is two lists.
    """

    def __init__(self, dirs, guest):
        self.dirs = dirs
        self.guest = guest
        self.first = Tapdisk(dirs)
        self.second = None
        self.wrong = []

    def start_second(self):
        self.second = Tapdisk(self.dirs, minors=(1,))
        self.second.must(message(ATTACH, 1))

    def compare(self, name, got, want, pid):
        got, want = normal(got, pid), normal(want, None)
        if got == want:
            return
        at = next(
            (i for i, (a, b) in enumerate(zip(got, want)) if a != b),
            min(len(got), len(want)),
        )
        self.wrong.append(
            "%s: %d bytes, not %d; first difference at %d\n   got  %r\n   want %r"
            % (name, len(got), len(want), at, got[at : at + 60], want[at : at + 60])
        )

    def list_of_two(self, name):
        want = their_reply(name, self.dirs)
        first = want[:8] + struct.pack("<i", 1) + want[12:SIZE] + want[2 * SIZE :]
        for t, part in (self.first, first), (self.second, want[SIZE:]):
            got = t.ask(read_hex(name + ".req.hex"))
            self.compare(name, got, part, t.pid)

    def short(self, name):
        with self.first.connect() as s:
            s.sendall(read_hex(name + ".req.hex"))
            s.shutdown(socket.SHUT_WR)
            self.compare(name, receive_all(s), b"", None)

    def one(self, name):
        request = our_request(name, self.dirs, self.guest)
        t = self.first
        if len(request) >= SIZE and struct.unpack_from("<H", request, 2)[0] == 1:
            t = self.second
        for extra in BEFORE.get(name, []):
            t.must(extra)
        self.compare(name, t.ask(request), their_reply(name, self.dirs), t.pid)

    def step(self, name):
        if name == "list-two":
            self.start_second()
        if name == "list-two-open":
            self.second.must(open_message("aio:%s/big.img" % self.dirs.td, 1))
        if name.startswith("xenblkif-connect-"):
            self.guest.reset()
        if name == "stats-connected":
            self.guest.read_block()
        if name == "short-request":
            self.short(name)
        elif name in ("list-two", "list-two-open", "list-closed"):
            self.list_of_two(name)
        else:
            self.one(name)
        if name == "open-R":  # the next ones open the same minor again
            self.first.must(CLOSE_FIRST)

    def run(self):
        for name in exchanges():
            if name not in SKIPPED:
                self.step(name)

    def end(self):
        for t in self.first, self.second:
            if t:
                t.end()


def answers_as_upstream_byte_for_byte():
    with directories() as dirs:
        for name in "a.img", "b.img", "ro.img", "sec.img":
            dirs.image(name)
        # another size is refused if it is smaller; a larger disk is a resize
        dirs.image("big.img", 4)
        for name in "plain.vhd", "leaf.vhd":
            dirs.image(name)
        guest = Guest(os.path.join(dirs.top, "guest"))
        replay = Replay(dirs, guest)
        try:
            replay.run()
            assert not replay.wrong, "\n".join(replay.wrong)
            assert replay.first.wait() == 0, "the last detach ends the process"
            assert replay.second.wait() == 0
            assert not os.path.exists(replay.first.socket)
        finally:
            replay.end()
            guest.close()


# ---------------------------------------------------------------- commands


def serves_one_disk_only():
    with tapdisk(minors=(0, 1)) as t:
        t.must(message(ATTACH, 0))
        assert errno_of(t.ask(message(ATTACH, 1))) == 16
        assert errno_of(t.ask(message(ATTACH, 0))) == 17
        t.must(message(DETACH, 0))
        assert t.wait() == 0


def holds_the_marker_while_attached():
    with tapdisk() as t:
        marker = os.path.join(t.dirs.run, "tapdisk", "tapdisk-0")
        with open(marker) as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert errno_of(t.ask(message(ATTACH))) == 1, "locked by another"
            fcntl.flock(f, fcntl.LOCK_UN)
            t.must(message(ATTACH))
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                raise AssertionError("the marker is not locked")
            except BlockingIOError:
                pass
            t.must(message(DETACH))
            # free comes right after the answer
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)


def takes_what_follows_an_unsupported_open():
    with tapdisk() as t:
        t.must(message(ATTACH))
        image = "aio:" + t.dirs.image("a.img")
        log = b"/nowhere".ljust(256, b"\0")
        for flags, extra in [
            (ADD_LOG, log),
            (ENCRYPTED, b"\x20" + bytes(32)),
            (ADD_LOG | ENCRYPTED, log + b"\x40" + bytes(64)),
        ]:
            with t.connect() as s:
                s.sendall(open_message(image, flags=flags))
                time.sleep(0.05)
                for byte in extra:
                    s.sendall(bytes([byte]))
                assert errno_of(receive_all(s)) == 95
        bad_key = open_message(image, flags=ENCRYPTED) + b"\x81"
        assert errno_of(t.ask(bad_key)) == 22
        t.must(open_message(image))


def tells_and_changes_polling():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        now = json_of(t.must(ours(POLLING)))
        assert now["mode"] == "event" and now["source"] == "default", now
        now = json_of(t.must(ours(POLLING, {"mode": "fixed", "duration_us": 1000})))
        assert (now["mode"], now["requested_us"], now["source"]) == (
            "fixed",
            1000,
            "tap-ctl",
        ), now
        assert now["effective_us"] % now["granularity_us"] == 0, now
        now = json_of(t.must(ours(POLLING, {"idle_threshold": 30})))
        assert (now["requested_us"], now["idle_threshold"]) == (1000, 30), now
        now = json_of(t.must(ours(POLLING, {"duration_us": 0})))
        assert now["mode"] == "event", now
        now = json_of(t.must(ours(POLLING, {"mode": "default"})))
        assert now["source"] == "default", now
        for bad in [
            {"mode": "wild"},
            {"duration_us": -1},
            {"duration_us": 60000001},
            {"idle_threshold": 101},
            {"align": "yes"},
            [],
        ]:
            assert errno_of(t.ask(ours(POLLING, bad))) == 22, bad
        assert errno_of(t.ask(ours(POLLING, {}, cookie=9))) == 19


def says_hello_and_connects_by_json():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        hello = json_of(t.must(ours(HELLO)))
        assert hello["ring_order_max"] == 4 and hello["sectors"] == 16384, hello
        guest = Guest(os.path.join(t.dirs.top, "guest"))
        connect = {
            "domid": 7,
            "devid": 51712,
            "protocol": "native",
            "guest": "local:" + guest.path,
            "queues": [{"port": 1, "ring_refs": [8]}],
        }
        try:
            t.must(ours(JSON_CONNECT, connect))
            assert errno_of(t.ask(ours(JSON_CONNECT, connect))) == 114
            connect["queues"][0]["ring_refs"] = [8, 9, 10]
            assert errno_of(t.ask(ours(JSON_CONNECT, connect))) == 22
            t.must(message(DISCONNECT, 0, struct.pack("<II", 7, 51712)))
        finally:
            guest.close()


def tells_events_until_the_end():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        with t.connect() as s:
            s.sendall(ours(EVENTS))
            head = b""
            while len(head) < SIZE:
                head += s.recv(SIZE - len(head))
            assert reply_of(head)[0] == EVENTS + 1, reply_of(head)
            t.must(message(PAUSE))
            t.must(message(RESUME))
            t.must(message(CLOSE))
            t.must(message(DETACH))
            events = [json.loads(x)["event"] for x in receive_all(s).splitlines()]
        assert events == ["paused", "closing"], events
        assert t.wait() == 0


# ---------------------------------------------------------------- clients


def a_slow_client_harms_nobody():
    with tapdisk() as t, t.connect() as slow:
        end = time.monotonic() + 3
        for byte in message(PID):
            slow.sendall(bytes([byte]))
            t.answers_soon()
            time.sleep(0.1)
            if time.monotonic() > end:
                break


def a_slow_client_is_answered_or_dropped():
    with tapdisk() as t:
        with t.connect() as slow, t.connect() as silent:
            for part in range(0, SIZE, 32):
                slow.sendall(message(PID)[part : part + 32])
                time.sleep(0.02)
            assert reply_of(receive_all(slow))[2] == t.pid
            start = time.monotonic()
            assert receive_all(silent) == b""
            assert time.monotonic() - start > 5, "ten seconds are promised"


def silent_clients_make_room():
    with tapdisk() as t:
        silent = [t.connect() for _ in range(50)]
        t.answers_soon()
        fds = os.listdir("/proc/%d/fd" % t.pid)
        assert len(fds) < 40, fds
        # and one of them may still say something if it is young
        silent[-1].sendall(message(PID))
        assert reply_of(receive_all(silent[-1]))[2] == t.pid
        for s in silent:
            s.close()
        t.answers_soon()


def a_half_closed_client_gets_its_answer():
    with tapdisk() as t, t.connect() as s:
        s.sendall(message(PID))
        s.shutdown(socket.SHUT_WR)
        assert reply_of(receive_all(s))[2] == t.pid


def garbage_is_refused():
    garbage = [
        (b"\xff" * SIZE, "all ones"),
        (b"\x00" * SIZE, "all zeros"),
        (message(PID, 0, b"\xff" * 400), "no end of the path"),
        (message(OPEN, 0, b"\xff" * 500), "nor here"),
        (message(POLLING, 0, struct.pack("<QQ", 0, 65537)), "too long"),
        (message(POLLING, 0, struct.pack("<QQ", 0, 2**64 - 1)), "wraps"),
        (message(HELLO, 0, struct.pack("<QQ", 0, 2**63)), "negative"),
        (message(129), "an answer"),
        (message(65534), "unknown"),
        (message(LIST) [:1] + b"\x7f" + bytes(542), "unknown"),
    ]
    with tapdisk() as t:
        for request, why in garbage:
            assert reply_of(t.ask(request)) == (ERROR, 0, 22), why
        t.must(message(ATTACH))
        for text in b"{", b"[1", b"{}x", b"\xff\xfe", b"nul", b'"' * 65536:
            body = struct.pack("<QQ", 0, len(text))
            reply = t.ask(message(POLLING, 0, body) + text)
            assert errno_of(reply) == 22, text[:10]
        # it said 64 KiB and goes away after 9
        with t.connect() as s:
            s.sendall(message(POLLING, 0, struct.pack("<QQ", 0, 65536)) + b"123456789")
        # it asks for much and takes nothing
        with t.connect() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            s.sendall(message(STATS))
            t.answers_soon()
        t.answers_soon()


def random_bytes_do_not_end_it():
    import random

    r = random.Random(544)
    with tapdisk() as t:
        t.must(message(ATTACH))
        for i in range(300):
            m = bytearray(r.randbytes(SIZE))
            type_ = r.choice(list(range(0, 33)) + [128, 129, 130, 132, 134, 255])
            if type_ in (DETACH, LIST - 2):
                continue
            struct.pack_into("<HH", m, 0, type_, r.choice([0, 0, 1, 65535]))
            if r.random() < 0.8:
                m[20 + r.randrange(256)] = 0
            if r.random() < 0.5:
                struct.pack_into("<Q", m, 16, r.randrange(70000))
            with t.connect() as s, contextlib.suppress(OSError):
                s.sendall(m + r.randbytes(r.randrange(600)))
                s.shutdown(socket.SHUT_WR)
                if i % 3:
                    receive_all(s)
        t.answers_soon()
        t.must(message(CLOSE))
        t.must(message(DETACH))
        assert t.wait() == 0


@contextlib.contextmanager
def busy(t):
    """A disk whose RESUME is busy for ten seconds: the image is missing."""
    t.must(message(ATTACH))
    image = t.dirs.image("a.img")
    t.must(open_message("aio:" + image))
    t.must(message(PAUSE))
    with t.connect() as s:
        s.sendall(open_message("aio:/nonexistent/image", type_=RESUME))
        t.answers_soon()
        yield s


def a_busy_disk_answers_what_only_looks():
    with tapdisk() as t:
        with busy(t) as s:
            for request in (
                message(STATS),
                message(28),
                ours(POLLING),
                ours(HELLO),
            ):
                start = time.monotonic()
                t.must(request)
                assert time.monotonic() - start < SOON_S
            assert errno_of(t.ask(message(DISCONNECT, 0, b"\1"))) == 19
            start = time.monotonic()
            assert reply_of(t.must(message(FORCE)))[0] == CLOSE + 1
            assert time.monotonic() - start < SOON_S
            assert errno_of(receive_all(s)) != 0, "it was not resumed"
        t.must(message(DETACH))
        assert t.wait() == 0


def commands_wait_in_order_even_for_who_has_gone():
    with tapdisk() as t:
        with busy(t):
            pass  # hung up while it waits; the command goes on
        image = "aio:" + os.path.join(t.dirs.td, "a.img")
        waiting = []
        for request in (
            open_message(image, type_=RESUME),
            message(CLOSE),
            open_message(image),
            message(CLOSE),
            message(DETACH),
        ):
            s = t.connect()
            s.sendall(request)
            waiting.append(s)
            t.answers_soon()
        waiting[1].close()  # this one too, and is carried out
        replies = [receive_all(s) for i, s in enumerate(waiting) if i != 1]
        assert [errno_of(r) for r in replies] == [0, 0, 0, 0], replies
        assert t.wait() == 0


def too_many_waiting_commands_are_refused():
    with tapdisk() as t:
        with busy(t):
            waiting = []
            for _ in range(30):
                s = t.connect()
                s.sendall(message(PAUSE))
                waiting.append(s)
            t.answers_soon()
            assert errno_of(t.ask(message(PAUSE))) == 16
            t.must(message(FORCE))
            refused = [errno_of(receive_all(s)) for s in waiting]
        assert refused.count(16) == 14, refused
        t.answers_soon()


def event_readers_that_do_not_read_are_dropped():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        readers = []
        for _ in range(20):
            s = t.connect()
            readers.append(s)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            s.sendall(ours(EVENTS))
        t.answers_soon()
        assert errno_of(receive_all(readers[-1])) == 16, "there is a limit"
        readers[0].close()
        t.answers_soon()
        for _ in range(40):
            t.must(message(PAUSE))
            t.must(message(RESUME))
        t.answers_soon()
        for s in readers:
            s.close()


# ---------------------------------------------------------------- process


def hup_reopens_the_log():
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


def an_idle_process_is_small():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("aio:" + t.dirs.image("a.img")))
        json_of(t.must(message(STATS)))
        kib = 0
        with open("/proc/%d/smaps_rollup" % t.pid) as f:
            for line in f:
                if line.startswith(("Private_Dirty:", "Swap:")):
                    kib += int(line.split()[1])
        assert os.environ.get("SAN") or kib < 2048, "%d KiB" % kib


TESTS = [
    answers_as_upstream_byte_for_byte,
    serves_one_disk_only,
    holds_the_marker_while_attached,
    takes_what_follows_an_unsupported_open,
    tells_and_changes_polling,
    says_hello_and_connects_by_json,
    tells_events_until_the_end,
    a_slow_client_harms_nobody,
    a_slow_client_is_answered_or_dropped,
    silent_clients_make_room,
    a_half_closed_client_gets_its_answer,
    garbage_is_refused,
    random_bytes_do_not_end_it,
    a_busy_disk_answers_what_only_looks,
    commands_wait_in_order_even_for_who_has_gone,
    too_many_waiting_commands_are_refused,
    event_readers_that_do_not_read_are_dropped,
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
    an_idle_process_is_small,
]


def main():
    # A killed test must not leave a tapdisk: run the clean-ups.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wanted = sys.argv[1:]
    passed = failed = 0
    for test in TESTS:
        if wanted and test.__name__ not in wanted:
            continue
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print("FAILED %s" % test.__name__)
            traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
