#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Upstream's bytes on the control socket.

Every exchange recorded from upstream (tests/data/wire) is sent again in the
order of recording, with the paths of this machine, and the answers are
compared byte for byte.  What differs on purpose is named in DIFFERENT with the
reason; bytes that upstream leaves stale may be zero here.
"""

import os
import re
import socket
import struct
import sys

from tapdisk import (
    ATTACH,
    CLOSE,
    CONNECT,
    DISCONNECT,
    ERROR,
    Guest,
    LIST,
    OPEN,
    PAUSE,
    PID,
    RESUME,
    ROOT,
    SIZE,
    STATS,
    Tapdisk,
    directories,
    message,
    open_message,
    receive_all,
    run,
    tapdisk,
)

WIRE = os.path.join(ROOT, "tests", "data", "wire")
THEIR_DIR = b"/var/tmp/td"

READ_ONLY = "vhd is only read so far"
NOT_YET = "not supported yet: said so, and nothing is opened"

# name: (errno, why)
DIFFERENT = {
    "open-historic-type": (2, "a type we never had is an unknown type"),
    "open-not-a-vhd": (30, READ_ONLY),
    "open-D": (30, READ_ONLY),
    "open-vhd": (30, READ_ONLY),
    "open-vhd-child": (30, READ_ONLY),
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
    # ours behind upstream's
    text, own, _ = m[SIZE:].partition(b', "tapdisk": { ')
    if own:
        text += b" } ]" if text.startswith(b"[") else b" }"
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


TESTS = [
    answers_as_upstream_byte_for_byte,
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
