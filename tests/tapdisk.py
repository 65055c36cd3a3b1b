# SPDX-License-Identifier: BSD-3-Clause
"""
For tests of whole processes: a tapdisk in directories of its own, the bytes of
its control socket, and a local guest.
"""

import concurrent.futures
import contextlib
import fcntl
import json
import mmap
import os
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

    def ask_for_block(self):
        """One read of 4 KiB on a native ring that was just connected."""
        at = self.RING * 4096
        struct.pack_into("<BBHxxxxQQ", self.map, at + 64, 0, 1, 0, 7, 0)
        struct.pack_into("<IBB", self.map, at + 64 + 24, self.DATA, 0, 7)
        struct.pack_into("<I", self.map, at, 1)
        os.write(self.events[1], struct.pack("<Q", 1))

    def read_block(self):
        self.ask_for_block()
        at = self.RING * 4096
        until(
            lambda: struct.unpack_from("<I", self.map, at + 8)[0] == 1,
            "the ring does not answer",
        )
        assert struct.unpack_from("<h", self.map, at + 64 + 10)[0] == 0

    def connect_message(self):
        m = bytearray(message(CONNECT, 0, struct.pack("<III", 7, 51712, self.RING)))
        struct.pack_into("<II", m, 48, 0, 1)
        m[56 : 56 + len(self.path) + 6] = b"local:" + self.path.encode()
        struct.pack_into("<I", m, 312, 1)
        return bytes(m)

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


def run(tests, workers=4):
    """Run them, some at a time: most of them wait.  The exit status."""
    # A killed test must not leave a tapdisk: run the clean-ups.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wanted = [t for t in tests if not sys.argv[1:] or t.__name__ in sys.argv[1:]]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for test, future in [(t, pool.submit(t)) for t in wanted]:
            error = future.exception()
            if error:
                failed += 1
                print("FAILED %s" % test.__name__)
                traceback.print_exception(error, file=sys.stdout)
    print("%d passed, %d failed" % (len(wanted) - failed, failed))
    return 1 if failed else 0
