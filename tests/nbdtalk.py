# SPDX-License-Identifier: BSD-3-Clause
"""An NBD client that says exactly what a test wants said, byte by byte."""

import os
import socket
import struct

OPT, REP = b"IHAVEOPT", 0x0003E889045565A9
READ, WRITE, DISC, FLUSH, TRIM, ZEROES, STATUS = 0, 1, 2, 3, 4, 6, 7
FUA = 1
GO = OPT + struct.pack(">IIIH", 7, 6, 0, 0)
FLAGS = struct.pack(">I", 3)
STRUCTURED = OPT + struct.pack(">II", 8, 0)
ALLOCATION = (
    OPT + struct.pack(">II", 10, 27) + bytes(7) + b"\x01" + b"\0\0\0\x0fbase:allocation"
)


def path(run, pid, minor, name="nbd"):
    return os.path.join(run, "%s%d.%d" % (name, pid, minor))


def request(type_, offset=0, length=0, cookie=1, flags=0, data=b""):
    return (
        struct.pack(">IHHQQI", 0x25609513, flags, type_, cookie, offset, length) + data
    )


class Client:
    def __init__(self, path, timeout=30.0, greet=True, structured=False):
        if isinstance(path, socket.socket):
            self.s = path
        else:
            self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.s.connect(path)
        self.s.settimeout(timeout)
        if greet:
            self.greet(structured)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def take(self, n):
        got = b""
        while len(got) < n:
            part = self.s.recv(min(n - len(got), 1 << 20))
            assert part, "the server hung up after %d of %d bytes" % (len(got), n)
            got += part
        return got

    def say(self, data):
        self.s.sendall(data)

    def option_replies(self):
        """[(type, data)] up to the one that ends them."""
        found = []
        while True:
            magic, _, type_, length = struct.unpack(">QIII", self.take(20))
            assert magic == REP
            found.append((type_, self.take(length)))
            if type_ == 1 or type_ & 0x80000000:
                return found

    def greet(self, structured=False):
        assert self.take(18) == b"NBDMAGICIHAVEOPT\0\3"
        self.say(FLAGS)
        if structured:
            self.say(STRUCTURED)
            assert self.option_replies() == [(1, b"")]
            self.say(ALLOCATION)
            assert self.option_replies()[-1] == (1, b"")
        self.say(GO)
        self.described(self.option_replies())

    def described(self, replies):
        info = dict((struct.unpack(">H", d[:2])[0], d[2:]) for _, d in replies[:-1])
        self.size, self.flags = struct.unpack(">QH", info[0])
        self.blocks = struct.unpack(">III", info[3])

    def simple(self):
        """(error, cookie) of a simple reply."""
        magic, error, cookie = struct.unpack(">IIQ", self.take(16))
        assert magic == 0x67446698, hex(magic)
        return error, cookie

    def do(self, type_, offset=0, length=0, flags=0, data=b""):
        """The error, and what was read."""
        self.say(request(type_, offset, length, 7, flags, data))
        error, cookie = self.simple()
        assert cookie == 7
        return error, self.take(length) if type_ == READ and not error else b""

    def chunk(self):
        """(flags, type, cookie, data) of a chunk of a structured reply."""
        magic, flags, type_, cookie, length = struct.unpack(">IHHQI", self.take(20))
        assert magic == 0x668E33EF, hex(magic)
        return flags, type_, cookie, self.take(length)

    def is_hung_up(self):
        try:
            return self.s.recv(1) == b""
        except ConnectionResetError:
            return True
