#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The control socket of a running tapdisk: our own commands, their order, and
clients that are slow, silent, greedy or hostile.
"""

import contextlib
import fcntl
import json
import os
import random
import socket
import struct
import sys
import time

from tapdisk import (
    ADD_LOG,
    ATTACH,
    CLOSE,
    DETACH,
    DISCONNECT,
    ENCRYPTED,
    ERROR,
    EVENTS,
    FORCE,
    Guest,
    HELLO,
    JSON_CONNECT,
    LIST,
    OPEN,
    PAUSE,
    PID,
    POLLING,
    RESUME,
    SIZE,
    SOON_S,
    STATS,
    errno_of,
    json_of,
    message,
    open_message,
    ours,
    receive_all,
    reply_of,
    run,
    tapdisk,
    until,
)

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
        (message(31, 7), "above upstream's last"),
        (message(129, 7), "an answer"),
        (message(65534, 7), "unknown"),
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


def a_stuck_device_delays_no_answer():
    """T04"""
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("delay:us=60000000;null:8m"))
        guest = Guest(os.path.join(t.dirs.top, "guest"))
        try:
            t.must(guest.connect_message())
            guest.ask_for_block()
            until(
                lambda: json_of(t.ask(message(STATS)))["reqs_outstanding"] == 1,
                "the request is not taken",
            )
            with t.connect() as pausing:
                pausing.sendall(message(PAUSE))
                t.answers_soon()
                start = time.monotonic()
                t.must(ours(POLLING, {"mode": "fixed", "duration_us": 100}))
                t.must(message(DISCONNECT, 0, struct.pack("<II", 7, 51712)))
                t.must(message(FORCE))
                assert time.monotonic() - start < 3 * SOON_S
                assert errno_of(receive_all(pausing)) != 0, "it is not paused"
            t.must(message(DETACH))
            assert t.wait() == 0
            assert t.dirs.left() == [], t.dirs.left()
        finally:
            guest.close()


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


def keep_for_events(t):
    """A client that asked for events, and its answer's type."""
    s = t.connect()
    s.sendall(ours(EVENTS))
    head = b""
    while len(head) < SIZE:
        head += s.recv(SIZE - len(head))
    return s, reply_of(head)[0]


def event_readers_that_do_not_read_are_dropped():
    with tapdisk() as t:
        t.must(message(ATTACH))
        t.must(open_message("null:8m"))
        readers = [keep_for_events(t) for _ in range(17)]
        assert [kind for _, kind in readers] == 16 * [EVENTS + 1] + [ERROR]
        readers[0][0].close()  # one that hangs up makes room at once
        t.answers_soon()
        readers.append(keep_for_events(t))
        assert readers[-1][1] == EVENTS + 1
        # the kernel takes some hundred events for each, then we do
        for _ in range(3000):
            t.must(message(PAUSE))
            t.must(message(RESUME))
            readers.append(keep_for_events(t))
            if readers[-1][1] != ERROR:
                break
            readers.pop()[0].close()
        assert readers[-1][1] == EVENTS + 1, "nobody was dropped"
        t.answers_soon()
        for s, _ in readers:
            s.close()


TESTS = [
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
    a_stuck_device_delays_no_answer,
    commands_wait_in_order_even_for_who_has_gone,
    too_many_waiting_commands_are_refused,
    event_readers_that_do_not_read_are_dropped,
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
