#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Clients of the control socket that misbehave while a guest works: no ring I/O
takes 20 ms longer because of them, nothing crashes, and others are answered.

Each is held while short loads run until one of them, of so many, has no longer
request: a stalled data thread would show in all of them, a busy host would not.
"""

import contextlib
import os
import random
import socket
import struct
import sys
import threading
import time

from host import host
from tapdisk import (
    ATTACH,
    CLOSE,
    CONNECT,
    DETACH,
    EVENTS,
    FORCE,
    JSON_CONNECT,
    LIST,
    OPEN,
    PAUSE,
    PID,
    RESUME,
    SIZE,
    SOON_S,
    STATS,
    message,
    receive_all,
    reply_of,
    run,
)

RUNS = 20
ALLOWED_US = 20000
RANDOM = int(20000 * float(os.environ.get("SCALE") or 1))


class Clients:
    def __init__(self, h, disk):
        self.path = os.path.join(h.dirs.run, "ctl%d" % disk.pid)
        self.open = []

    def connect(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(self.path)
        s.settimeout(30)
        self.open.append(s)
        return s

    def ask(self, request):
        with self.connect() as s:
            s.sendall(request)
            return receive_all(s)

    def close(self):
        for s in self.open:
            s.close()


@contextlib.contextmanager
def working_disk():
    with host() as h:
        disk = h.create("ram:64m")
        clients = Clients(h, disk)
        try:
            yield disk, clients
            # it lives, and does as it is told
            assert reply_of(clients.ask(message(PID)))[2] == disk.pid
            assert str(disk.pid) in h.ctl("list")
        finally:
            clients.close()
        disk.destroy()


def longest_us(disk):
    result = disk.bench("--runtime", "0.3", "--rw", "randrw")
    return result["lat_us"]["max"]


def unharmed(disk, clients):
    for _ in range(RUNS):
        longest = longest_us(disk)
        if longest < ALLOWED_US:
            break
    print("longest I/O: %d us" % longest)
    assert longest < ALLOWED_US, longest
    since = time.monotonic()
    clients.ask(message(LIST, 0xFFFF))
    assert time.monotonic() - since < SOON_S


def sixty_four_idle_clients_delay_no_io():
    with working_disk() as (disk, clients):
        for _ in range(64):
            clients.connect()
        unharmed(disk, clients)


def a_byte_and_half_a_message_held_open_delay_no_io():
    with working_disk() as (disk, clients):
        clients.connect().sendall(message(PID)[:1])
        clients.connect().sendall(message(STATS)[: SIZE // 2])
        clients.connect().sendall(message(STATS)[: SIZE - 1])
        unharmed(disk, clients)


def a_dribbler_delays_no_io():
    with working_disk() as (disk, clients):
        stop = threading.Event()

        def dribble():
            while not stop.is_set():
                with contextlib.suppress(OSError), clients.connect() as s:
                    for byte in message(STATS):
                        s.sendall(bytes([byte]))
                        if stop.wait(0.005):
                            break

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            unharmed(disk, clients)
        finally:
            stop.set()
            thread.join()


def clients_that_take_no_answer_delay_no_io():
    with working_disk() as (disk, clients):
        for _ in range(8):
            s = clients.connect()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            s.sendall(message(STATS))
        unharmed(disk, clients)


# What would end the load, if it were meant for this disk.
CHANGE = ATTACH, OPEN, PAUSE, RESUME, CLOSE, DETACH, FORCE, CONNECT, JSON_CONNECT


def random_request(r):
    """Of every type there is, and some there are not; any cookie, and all."""
    m = bytearray(r.randbytes(SIZE))
    type_ = r.choice([*range(33), 128, 129, 130, 131, 132, 133, 138, 65535])
    cookie = r.choice([1, 2, 700, 65535, r.randrange(1, 65536)])
    if type_ not in CHANGE and r.random() < 0.5:
        cookie = 0
    struct.pack_into("<HH", m, 0, type_, cookie)
    if r.random() < 0.8:
        m[20 + r.randrange(256)] = 0
    if type_ >= 128:
        struct.pack_into("<Q", m, 16, r.randrange(200))
    elif type_ in (OPEN, RESUME):
        struct.pack_into("<I", m, 8, 0)
    return m + r.randbytes(r.randrange(200))


def random_messages_of_every_type_delay_no_io():
    r = random.Random(19)
    with working_disk() as (disk, clients):
        longest = []
        stop = threading.Event()

        def load():
            while not stop.is_set():
                longest.append(longest_us(disk))

        thread = threading.Thread(target=load)
        thread.start()
        try:
            for i in range(RANDOM):
                with clients.connect() as s, contextlib.suppress(OSError):
                    s.sendall(random_request(r))
                    s.shutdown(socket.SHUT_WR)
                    if i % 4:
                        receive_all(s)
                clients.open.clear()
            for cookie in 0, 0xFFFF:  # an open disk and "all" ended upstream's
                assert reply_of(clients.ask(message(STATS, cookie)))[0] == STATS + 1
        finally:
            stop.set()
            thread.join()
        print("longest I/O: %d us of %d runs" % (min(longest), len(longest)))
        assert min(longest) < ALLOWED_US, longest
        unharmed(disk, clients)


def event_readers_that_read_nothing_delay_no_io():
    with working_disk() as (disk, clients):
        for _ in range(16):
            clients.connect().sendall(message(EVENTS))
        unharmed(disk, clients)


if __name__ == "__main__":
    # one after another: each wants to be alone with its load
    tests = [
        sixty_four_idle_clients_delay_no_io,
        a_byte_and_half_a_message_held_open_delay_no_io,
        a_dribbler_delays_no_io,
        clients_that_take_no_answer_delay_no_io,
        event_readers_that_read_nothing_delay_no_io,
        random_messages_of_every_type_delay_no_io,
    ]
    sys.exit(run(tests, workers=1))
