# SPDX-License-Identifier: BSD-3-Clause
"""
What the tests of tap-ctl share: a private run directory, a tapdisk that is only
a socket, recorded data, checks, and the runner.  BUILD names the build
directory (build).
"""

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

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(HERE, "..", "build")))
TAP_CTL = os.path.join(BUILD, "bin", "tap-ctl")
WIRE = os.path.join(HERE, "data", "wire")
CLI = os.path.join(HERE, "data", "cli")

SIZE = 544
ERROR, OPEN, CLOSE, RESUME, LIST_RSP = 1, 7, 13, 11, 20
ADD_LOG, ENCRYPTED = 0x10, 0x400
HANG_S = 60  # nothing may take so long


class Place:
    """A run directory of its own and the tap-ctl that uses it."""

    def __init__(self, program=TAP_CTL, where=None, **env):
        self.dir = tempfile.mkdtemp(prefix="it_tapctl.", dir=where)
        self.run_dir = os.path.join(self.dir, "run")
        self.program = program
        self.env = dict(os.environ, LC_ALL="C", TAPDISK_RUN_DIR=self.run_dir)
        self.env.update(env)
        self.fakes = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for fake in self.fakes:
            fake.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __call__(self, command, stdin=b""):
        argv = command.split() if isinstance(command, str) else command
        return subprocess.run([self.program] + argv, input=stdin, env=self.env,
                              capture_output=True, timeout=HANG_S)

    def mkdir(self):
        os.makedirs(os.path.join(self.run_dir, "tapdisk"), exist_ok=True)

    def marker(self, minor):
        return os.path.join(self.run_dir, "tapdisk", "tapdisk-%d" % minor)

    def mark(self, *minors):
        self.mkdir()
        for minor in minors:
            open(self.marker(minor), "w").close()

    def fake(self, pid, behave):
        self.mkdir()
        fake = Fake(os.path.join(self.run_dir, "ctl%d" % pid), behave)
        self.fakes.append(fake)
        return fake


class Fake:
    """
    A tapdisk as far as its socket goes.  behave(type, request, connection)
    returns the bytes to answer, or None to hang up.
    """

    def __init__(self, path, behave):
        self.behave = behave
        self.requests = []
        self.open = []
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def stop(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes accept
        except OSError:
            pass
        self.socket.close()
        for connection in self.open:
            connection.close()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.open.append(connection)
            threading.Thread(target=self.serve_one, args=(connection,),
                             daemon=True).start()

    def serve_one(self, connection):
        try:
            request = receive(connection)
            self.requests.append(request)
            reply = self.behave(header(request)[0], request, connection)
            if reply:
                connection.sendall(reply)
        except OSError:
            pass
        connection.close()


def header(request):
    return struct.unpack_from("<HH", request)


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            break
        data += more
    return data


def receive(connection):
    """A request with what belongs behind it."""
    request = read_exactly(connection, SIZE)
    kind = header(request)[0]
    flags = struct.unpack_from("<I", request, 8)[0]
    if kind >= 128:
        request += read_exactly(connection, struct.unpack_from("<Q", request, 16)[0])
    if kind in (OPEN, RESUME) and flags & ADD_LOG:
        request += read_exactly(connection, 256)
    if kind == OPEN and flags & ENCRYPTED:
        size = read_exactly(connection, 1)
        request += size + read_exactly(connection, size[0])
    return request


def message(kind, cookie=0, body=b""):
    return struct.pack("<HHI", kind, cookie, 0) + body.ljust(SIZE - 8, b"\0")


def error(number, cookie=0):
    return message(ERROR, cookie, struct.pack("<i", number))


def list_entry(count, minor, state, spec):
    return message(LIST_RSP, 0xFFFF,
                   struct.pack("<iii", count, minor, state) + spec.encode())


def wire(name):
    with open(os.path.join(WIRE, name)) as file:
        return bytes.fromhex(file.read())


def cli(name):
    """argv, stdin, exit, stdout and stderr of a recorded case."""
    with open(os.path.join(CLI, name + ".txt"), "rb") as file:
        head, _, rest = file.read().partition(b"--- stdout\n")
    fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
    size = int(fields["stdout"].split()[0])
    out, rest = rest[:size], rest[size:]
    argv = fields["argv"].split()[1:]
    stdin = int(fields.get("stdin", "0 bytes").split()[0])
    return (argv, b"k" * stdin, int(fields["exit"]), out,
            rest.partition(b"--- stderr\n")[2])


def last_line(data):
    lines = data.decode().splitlines()
    return lines[-1] if lines else ""


def silent(kind, request, connection):
    connection.recv(1)  # until the client goes


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def check_run(got, exit_status, stdout=None, stderr_end=None):
    check(got.returncode == exit_status, "exit", got.returncode, "not",
          exit_status, got)
    if stdout is not None:
        check(got.stdout == stdout.encode(), "stdout", got.stdout, "not", stdout)
    if exit_status:
        check(last_line(got.stderr).startswith("tap-ctl: "), got.stderr)
        check(last_line(got.stderr).endswith(": " + os.strerror(exit_status))
              or stderr_end, got.stderr)
    else:
        check(not got.stderr, got.stderr)
    if stderr_end:
        check(last_line(got.stderr).endswith(stderr_end), got.stderr)


def run(tests):
    """The functions test_* of a dictionary, or those that argv names."""
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(1))  # clean up
    wanted = sys.argv[1:]
    chosen = [(name, test) for name, test in list(tests.items())
              if name.startswith("test_") and
              (not wanted or any(word in name for word in wanted))]
    failed = 0
    for name, test in chosen:
        since = time.monotonic()
        try:
            test()
            print("ok   %s (%.1f s)" % (name[5:], time.monotonic() - since))
        except Exception:
            failed += 1
            print("FAIL %s" % name[5:])
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
    print("%d passed, %d failed" % (len(chosen) - failed, failed))
    return failed != 0
