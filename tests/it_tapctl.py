#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
tap-ctl as its callers see it: argv in; stdout, stderr and exit status out.

Without a tapdisk, against a tapdisk that says what upstream's was recorded to
say (tests/data), and against ones that hang, hang up or talk nonsense.
"""

import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

# beside us, and nothing compiled is left there
sys.dont_write_bytecode = True
from tapctl import (CLOSE, ERROR, HANG_S, LIST_RSP, SIZE, TAP_CTL, Place, check,
                    check_run, cli, error, header, last_line, list_entry,
                    message, run, silent, wire)

CONNECT, POLLING, HELLO, DISCONNECT = 128, 130, 132, 26

UPSTREAM = ("list allocate free create destroy spawn attach detach open close "
            "pause unpause stats").split()
OURS = "connect disconnect polling".split()


def json_reply(kind, value):
    text = json.dumps(value).encode()
    return message(kind + 1, 0, struct.pack("<HHIQ", 0, 0, 0, len(text))) + text


# Without a tapdisk


def test_no_or_unknown_command_prints_usage_and_succeeds():
    with Place() as place:
        for command in ("", "frobnicate", "x" * 25, "--help", "-h", "major"):
            got = place(command)
            check_run(got, 0)
            check(got.stdout.startswith(b"usage: tap-ctl COMMAND"), got.stdout)
            for name in UPSTREAM + OURS:
                check(name.encode() in got.stdout, name)


def test_every_command_has_help():
    with Place() as place:
        for name in UPSTREAM + OURS:
            for option in ("-h", "--help"):
                got = place([name, option])
                check_run(got, 0)
                start = ("usage: tap-ctl %s" % name).encode()
                check(got.stdout.startswith(start), got.stdout)


def test_misuse_is_22_with_usage_on_stderr_only():
    commands = ["%s -Z" % name for name in UPSTREAM + OURS]
    commands += ["%s --nonsense" % name for name in UPSTREAM + OURS]
    commands += [name for name in UPSTREAM + OURS
                 if name not in ("list", "allocate", "spawn")]
    commands += ["open -p 1 -m 1", "attach -p 1", "list -p", "close -p 1 -m 1 -t",
                 "polling -p 1 -m 1 extra", "connect -p 1 -m 0 -d 1 -v 2 --port 3",
                 "disconnect -p 1 -m 0 -d 1"]
    with Place() as place:
        for command in commands:
            got = place(command)
            check_run(got, 22, "")
            check(got.stderr.startswith(b"usage: tap-ctl "), command, got.stderr)
        check(not os.path.exists(place.run_dir), "something was made")


def test_numbers_and_words_are_read_strictly():
    rest = "connect -p 1 -m 0 -d 1 -v 2"
    commands = [
        "attach -p -5 -m 0", "attach -p 0 -m 0", "attach -p 1x -m 0",
        "attach -p 0x10 -m 0", "attach -p 99999999999999999999 -m 0",
        "attach -p 2147483648 -m 0", "attach -p 1 -m -1", "attach -p 1 -m 65535",
        "attach -p 1 -m +1", "free -m 1.0", "close -p 1 -m 0 -t -1",
        "close -p 1 -m 0 -t 5s", "open -p 1 -m 0 -a x:y -t 65536",
        "open -p 1 -m 0 -a x:y -e -1", "polling -p 1 -m 0 --duration 60000001",
        "polling -p 1 -m 0 --idle-threshold 101", "polling -p 1 -m 0 --mode fix",
        "polling -p 1 -m 0 --align yes",
        "polling -p 1 -m 0 --mode default --duration 5",
        "polling -p 1 -m 0 --mode default --cap 5",
        "polling -p 1 -m 0 --mode default --sync off",
        "polling -p 1 -m 0 --cap 102401", "polling -p 1 -m 0 --cap -1",
        "polling -p 1 -m 0 --sync maybe", "polling -p 1 -m 0 --watch --mode event",
        "polling -p 1 -m 0 --advise --watch", "polling -p 1 -m 0 --plot x",
        "polling -p 1 -m 0 --trace x --advise", "polling -p 1 -m 0 --trace x --cap 5",
        "polling -p 1 -m 0 --trace x --json", "polling -p 1 -m 0 --seconds 5",
        "polling -p 1 -m 0 --watch --seconds 0", "polling -p 1 -m 0 --kind guest",
        "polling -p 1 -m 0 --trace x --kind nobody",
        rest + " --ring-ref 1,2,3 --port 4", rest + " --ring-ref , --port 4",
        rest + " --ring-ref 1, --port 4", rest + " --ring-ref 1,x --port 4",
        rest + " --ring-ref -1 --port 4", rest + " --ring-ref 4294967296 --port 4",
        rest + " --ring-ref " + ",".join("1" * 32) + " --port 4",
        rest + " --ring-ref 1 --port 4 --protocol vax",
        rest + " --ring-ref 1 --port 4 --guest local:",
        rest + " --ring-ref 1 --port 4 --guest qemu",
        rest + " --ring-ref 1 --port 4 --polling-duration 60000001",
    ]
    with Place() as place:
        for command in commands:
            got = place(command)
            check_run(got, 22, "")
            check(len(got.stderr.splitlines()) == 1, command, got.stderr)


def test_without_a_tapdisk_the_exit_status_is_enoent():
    cases = ["attach", "open", "close", "detach", "pause", "unpause", "stats",
             "destroy"]
    with Place() as place:
        for name in cases:
            argv, stdin, status, out, err = cli(name + "-no-tapdisk")
            check_run(place(argv, stdin), status, out.decode(),
                      err.decode().strip())
        check_run(place("polling -p 99999 -m 0"), 2, "")
        check_run(place("disconnect -p 99999 -m 0 -d 1 -v 2"), 2, "")
        check_run(place("list"), 0, "")
        check_run(place("list -p 99999"), 0, "")


def test_minors_are_allocated_lowest_first_and_freed():
    with Place() as place:
        check_run(place("free -m 77"), 2, "")
        check_run(place("allocate"), 0, place.marker(0) + "\n")
        check_run(place("allocate foo"), 0, place.marker(1) + "\n")
        check(os.stat(place.marker(0)).st_mode & 0o777 == 0o600, "mode")
        check(os.stat(place.run_dir).st_mode & 0o777 == 0o700, "mode")
        check_run(place("list"), 0, "minor=0\nminor=1\n")
        check_run(place("list -m 1"), 0, "minor=1\n")
        check_run(place("list -t aio"), 0, "")
        check_run(place("list -f /a"), 0, "")
        check_run(place("free -m 0"), 0, "")
        check_run(place("allocate"), 0, place.marker(0) + "\n")
        with open(place.marker(1)) as marker:
            fcntl.flock(marker, fcntl.LOCK_EX)
            check_run(place("free -m 1"), 11, "")
        check_run(place("free -m 1"), 0, "")
        check_run(place("free -m 1"), 2, "")


def test_many_may_allocate_at_once_on_a_fresh_host():
    with Place() as place, ThreadPoolExecutor(20) as pool:
        got = list(pool.map(lambda _: place("allocate"), range(40)))
        for one in got:
            check_run(one, 0)
        paths = {one.stdout.decode().strip() for one in got}
        check(paths == {place.marker(n) for n in range(40)}, paths)


def test_the_last_minor_is_followed_by_enospc():
    # thousands of files take long on a disk
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with Place(where=where) as place:
        place.mark(*range(16383))
        check_run(place("allocate"), 0, place.marker(16383) + "\n")
        check_run(place("allocate"), 28, "")
        check_run(place("free -m 5000"), 0, "")
        check_run(place("allocate"), 0, place.marker(5000) + "\n")


def test_debug_is_ignored_anywhere():
    with Place() as place:
        place.mark(0)
        for command in ("--debug list", "list --debug", "list --debug -m 0"):
            check_run(place(command), 0, "minor=0\n")


def test_output_that_cannot_be_written_is_an_error():
    with Place() as place, open("/dev/full", "w") as full:
        got = subprocess.run([TAP_CTL, "allocate"], env=place.env, stdout=full,
                             stderr=subprocess.PIPE, timeout=HANG_S)
        check(got.returncode == 28, got)


# Against what upstream's tapdisk was recorded to say.  Each: the recorded
# command line, the recorded reply.

RECORDED = [
    ("attach", "attach"),
    ("attach-again", "attach-again"),
    ("attach-no-marker", "attach-no-marker"),
    ("detach", "detach"),
    ("detach-open", "detach-open"),
    ("detach-unknown-minor", "detach-unknown-minor"),
    ("open", "open"),
    ("open-again", "open-already"),
    ("open-enoent", "open-enoent-file"),
    ("open-unknown-type", "open-unknown-type"),
    ("open-no-colon", "open-no-colon"),
    ("open-unknown-minor", "open-unknown-minor"),
    ("open-name-too-long", None),
    ("open-bad-key-size", None),
    ("open-R", "open-R"),
    ("open-C-t-D", "open-C"),
    ("open-2", "open-2"),
    ("close", "close"),
    ("close-again", "close-again"),
    ("close-f", "force-shutdown"),
    ("close-unknown-minor", "close-unknown-minor"),
    ("pause", "pause"),
    ("pause-again", "pause-again"),
    ("pause-unknown-minor", "pause-unknown-minor"),
    ("unpause", "resume"),
    ("unpause-a", "resume-new-path"),
    ("unpause-c", "resume-log"),
    ("unpause-not-paused", "resume-not-paused"),
    ("unpause-other-size", "resume-other-size"),
    ("unpause-enoent", "resume-enoent"),
    ("unpause-unknown-minor", "resume-unknown-minor"),
    ("list-attached", "list-attached"),
    ("list-open", "list-open"),
    ("list-p-m", "list-open"),
    ("list-m", "list-open"),
    ("list-t", "list-open"),
    ("list-t-none", "list-open"),
    ("list-f", "list-open"),
    ("list-f-none", "list-open"),
    ("list-paused", "list-paused"),
]

# stdout that we do not copy: an error there.
STDOUT_DIFFERS = {"detach-open": "", "detach-unknown-minor": ""}
# The real reason, where upstream's exit status hides it.
STDERR_DIFFERS = {
    "attach-again": "File exists",
    "attach-no-marker": "Operation not permitted",
    "detach-open": "Device or resource busy",
    "detach-unknown-minor": "No such device",
    "open-bad-key-size": "Operation not permitted",
}


def test_recorded_replies_give_the_recorded_output():
    for name, reply in RECORDED:
        argv, stdin, status, out, err = cli(name)
        data = wire(reply + ".rsp.hex") if reply else None
        with Place() as place:
            place.fake(4805, lambda *unused: data)
            got = place(argv, stdin)
        try:
            check_run(got, status, STDOUT_DIFFERS.get(name, out.decode()),
                      STDERR_DIFFERS.get(name, last_line(err)))
        except AssertionError as failure:
            raise AssertionError("%s: %s" % (name, failure)) from failure


def test_list_shows_tapdisks_then_unused_minors():
    _, _, _, out, _ = cli("list-tapdisk-no-vbd")
    with Place() as place:
        place.fake(4805, lambda *unused: wire("list-no-vbd.rsp.hex"))
        place.mark(0)
        check_run(place("list"), 0, out.decode())
    _, _, _, out, _ = cli("list-several")
    replies = {
        4805: list_entry(1, 0, 2, "") + list_entry(0, -1, 0, ""),
        4866: list_entry(2, 1, 0, "aio:/var/tmp/td/b.img") +
              list_entry(1, 2, 0, "vhd:/var/tmp/td/base.vhd") +
              list_entry(0, -1, 0, ""),
    }
    with Place() as place:
        for pid, reply in replies.items():
            place.fake(pid, lambda *unused, reply=reply: reply)
        place.mark(0, 1, 2)
        check_run(place("list"), 0, out.decode())
        place.mark(9)
        check_run(place("list"), 0, out.decode() + "minor=9\n")
        check_run(place("list -p 4805"), 0, "pid=4805 minor=0 state=0x2\n")
        check_run(place("list -t vhd -m 2"), 0,
                  "pid=4866 minor=2 state=0 args=vhd:/var/tmp/td/base.vhd\n")


def test_the_state_is_hexadecimal_but_for_zero():
    for state, shown in {0: "0", 2: "0x2", 0x2A: "0x2a", 0x22A: "0x22a"}.items():
        reply = list_entry(1, 0, state, "") + list_entry(0, -1, 0, "")
        with Place() as place:
            place.fake(7, lambda *unused: reply)
            check_run(place("list"), 0, "pid=7 minor=0 state=%s\n" % shown)


def test_a_path_may_hold_anything_but_stays_on_its_line():
    """T07"""
    specs = {"aio:/a b:c=d": "aio:/a b:c=d", "aio:/x\ny": "aio:/x?y",
             "vhd:/\u00fc": "vhd:/\u00fc", "aio:": "aio:", "nocolon": "nocolon",
             "aio:/" + "x" * 400: "aio:/" + "x" * 250}
    for spec, shown in specs.items():
        with Place() as place:
            entry = struct.pack("<HHIiii", LIST_RSP, 0xFFFF, 0, 1, 0, 0)
            entry = (entry + spec.encode())[:276].ljust(SIZE, b"\0")
            end = list_entry(0, -1, 0, "")
            place.fake(7, lambda *unused: entry + end)
            check_run(place("list"), 0, "pid=7 minor=0 state=0 args=%s\n" % shown)


def test_on_a_terminal_list_has_columns():
    with Place() as place:
        place.fake(4805, lambda *unused: wire("list-open.rsp.hex"))
        place.mark(3)
        master, slave = pty.openpty()
        subprocess.run([TAP_CTL, "list"], env=place.env, stdout=slave,
                       timeout=HANG_S, check=True)
        os.close(slave)
        lines = os.read(master, 65536).decode().splitlines()
        os.close(master)
    check(lines[1:] == ["    4805    0    0        aio /var/tmp/td/a.img",
                        "       -    3    -          - -"], lines)


def test_stats_prints_the_json_on_the_first_line():
    reply = wire("stats-open.rsp.hex")
    with Place() as place:
        place.fake(5, lambda *unused: reply)
        check_run(place("stats -p 5 -m 0"), 0, reply[SIZE:].decode() + "\n\n")
        json.loads(place("stats -p 5 -m 0").stdout.splitlines()[0])
    with Place() as place:
        place.fake(5, lambda *unused: wire("stats-unknown-minor.rsp.hex"))
        check_run(place("stats -p 5 -m 700"), 19, "")


# The recorded requests, and the command lines that made them.

IMAGE = "aio:/var/tmp/td/a.img"
SENT = {
    "attach": "attach -p P -m 0",
    "attach-no-marker": "attach -p P -m 700",
    "detach": "detach -p P -m 1",
    "open": "open -p P -m 0 -a " + IMAGE,
    "open-t": "open -p P -m 0 -t 30 -a " + IMAGE,
    "open-C": "open -p P -m 0 -C /var/tmp/td/a.cbt -a " + IMAGE,
    "open-2": "open -p P -m 0 -2 aio:/var/tmp/td/sec.img -a " + IMAGE,
    "open-2-s": "open -p P -m 0 -2 aio:/var/tmp/td/sec.img -s -a " + IMAGE,
    "open-E-256": "open -p P -m 0 -a vhd:/var/tmp/td/plain.vhd -E",
    "open-E-512": "open -p P -m 0 -a vhd:/var/tmp/td/plain.vhd -E",
    "open-all-flags": "open -p P -m 0 -a " + IMAGE +
                      " -R -D -t 65535 -C /var/tmp/td/a.cbt",
    "close": "close -p P -m 1 -t 120",
    "force-shutdown": "close -p P -m 0 -f",
    "pause": "pause -p P -m 0",
    "resume": "unpause -p P -m 0",
    "resume-new-path": "unpause -p P -m 0 -a aio:/var/tmp/td/b.img",
    "resume-log": "unpause -p P -m 0 -c /var/tmp/td/a.cbt",
    "resume-secondary": "unpause -p P -m 0 -2 aio:/var/tmp/td/sec.img",
    "resume-secondary-null": "unpause -p P -m 0 -2 null",
    "stats-open": "stats -p P -m 0",
    "list-open": "list -p P",
    "xenblkif-disconnect": "disconnect -p P -m 0 -d 7 -v 51712",
}


def without_stack_bytes(request):
    """Behind the NUL of a log path upstream sent what was on its stack."""
    if len(request) != SIZE + 256:
        return request
    return request[:SIZE] + request[SIZE:].split(b"\0")[0]


def test_command_lines_send_the_recorded_bytes():
    for name, command in SENT.items():
        size = 64 if name.endswith("512") else 32
        with Place() as place:
            fake = place.fake(77, lambda *unused: None)
            place(command.replace("-p P", "-p 77"), bytes(range(size)))
            check(len(fake.requests) == 1, name, len(fake.requests))
            check(without_stack_bytes(fake.requests[0]) ==
                  without_stack_bytes(wire(name + ".req.hex")), name)


def test_the_remaining_open_flags_are_sent():
    with Place() as place:
        fake = place.fake(77, lambda *unused: wire("open.rsp.hex"))
        check_run(place("open -p 77 -m 3 -a vhd:/l -r -e 0"), 0, "")
        request = fake.requests[0]
        check(struct.unpack_from("<I", request, 8)[0] == 0x20 | 0x40, "flags")
        check(struct.unpack_from("<I", request, 276)[0] == 0, "parent's minor")
        check(struct.unpack_from("<I", request, 12)[0] == 3, "minor")


# Tapdisks that do not behave


def garbage(kind, request, connection):
    return b"HTTP/1.1 200 OK\r\n" * 64


def half_reply(kind, request, connection):
    return message(kind + 1)[:300]


def wrong_type(kind, request, connection):
    return message(77)


def huge_text(kind, request, connection):
    return message(kind + 1, 0, struct.pack("<QQ", 0, 1 << 40))


def short_text(kind, request, connection):
    return message(kind + 1, 0, struct.pack("<QQ", 0, 100)) + b"{}"


def not_json(kind, request, connection):
    return message(kind + 1, 0, struct.pack("<QQ", 0, 4)) + b"nope"


def test_nonsense_and_hang_ups_are_eproto():
    commands = ["attach -p 5 -m 0", "open -p 5 -m 0 -a aio:/x", "close -p 5 -m 0",
                "pause -p 5 -m 0", "unpause -p 5 -m 0", "stats -p 5 -m 0",
                "polling -p 5 -m 0", "destroy -p 5 -m 0"]
    for behave in (garbage, half_reply, wrong_type, lambda *unused: None):
        with Place() as place:
            place.fake(5, behave)
            for command in commands:
                check_run(place(command), 71, "")
            check_run(place("list"), 0, "pid=5\n")
    for behave in (huge_text, short_text):
        with Place() as place:
            place.fake(5, behave)
            check_run(place("stats -p 5 -m 0"), 71, "")
            check_run(place("polling -p 5 -m 0"), 71, "")
    with Place() as place:
        place.fake(5, not_json)
        check_run(place("polling -p 5 -m 0"), 71, "")


def test_a_refusal_with_odd_numbers_or_words_is_survived():
    for number in (0, -2, 1 << 30):
        with Place() as place:
            place.fake(5, lambda *unused: error(number))
            check_run(place("close -p 5 -m 0"), 71, "")
    words = struct.pack("<i", 16) + b"3 requests\n\x1b[31m" + b"x" * 400
    with Place() as place:
        place.fake(5, lambda *unused: message(ERROR, 0, words[:260]))
        got = place("close -p 5 -m 0")
        check_run(got, 16, "")
        check(b"3 requests??[31m" in got.stderr, got.stderr)


def timed(place, command):
    since = time.monotonic()
    got = place(command)
    return got, time.monotonic() - since


def drip(kind, request, connection):
    for byte in message(kind + 1):
        connection.send(bytes([byte]))
        time.sleep(0.02)


def test_a_timeout_is_kept_whatever_the_tapdisk_does():
    commands = ["close -p 5 -m 0 -t 1", "close -f -t 1 -p 5 -m 0",
                "pause -p 5 -m 0 -t 1", "destroy -p 5 -m 0 -t 1"]
    for behave in (silent, drip):
        with Place() as place, ThreadPoolExecutor(8) as pool:
            place.fake(5, behave)
            for got, seconds in pool.map(lambda c: timed(place, c), commands):
                check_run(got, 110, "")
                check(0.99 < seconds < 10, seconds)


def test_a_timeout_of_zero_sends_and_does_not_wait():
    with Place() as place:
        fake = place.fake(5, silent)
        got, seconds = timed(place, "close -p 5 -m 0 -t 0")
        check_run(got, 110, "")
        check(seconds < 10, seconds)
        for _ in range(500):
            if fake.requests:
                break
            time.sleep(0.01)
        check(header(fake.requests[0])[0] == CLOSE, "was not sent")


def test_list_waits_once_for_all_that_hang():
    good = list_entry(1, 1, 0, "aio:/a") + list_entry(0, -1, 0, "")
    with Place() as place:
        for pid in (11, 12, 13, 14):
            place.fake(pid, silent)
        place.fake(15, lambda *unused: good)
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(os.path.join(place.run_dir, "ctl16"))
            killed.listen(1)
        full = socket.socket(socket.AF_UNIX)  # stopped long ago
        full.bind(os.path.join(place.run_dir, "ctl17"))
        full.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        open(os.path.join(place.run_dir, "ctl18x"), "w").close()
        got, seconds = timed(place, "list")
        for client in waiting + [full]:
            client.close()
        check_run(got, 0, "pid=11\npid=12\npid=13\npid=14\n"
                          "pid=15 minor=1 state=0 args=aio:/a\npid=17\n")
        check(9.9 < seconds < 30, seconds)


# Our own messages

REPORT = {"mode": "fixed", "requested_us": 6000, "effective_us": 8000,
          "granularity_us": 4000, "granularity_source": "default", "align": True,
          "idle_threshold": 50, "source": "tap-ctl", "requests": 6,
          "spin_ns": 1500000000, "hits": 2, "misses": 3, "sleeps": 4, "arms": 5,
          "guest_events": 7, "notifications": 8, "newer": [1]}


def asked(fake, at=0):
    return json.loads(fake.requests[at][SIZE:])


def test_polling_sends_what_is_to_change_and_shows_the_rest():
    cases = {
        "": {},
        "--mode event": {"mode": "event"},
        "--mode fixed --duration 6000": {"mode": "fixed", "duration_us": 6000},
        "--mode default": {"mode": "default"},
        "--mode adaptive": {"mode": "adaptive"},
        "--duration 0 --align off": {"duration_us": 0, "align": False},
        "--align on --idle-threshold 100": {"align": True, "idle_threshold": 100},
        "--cap 0": {"cap": 0},
        "--cap 250 --sync off": {"cap": 250, "sync": "off"},
        "--sync auto": {"sync": "auto"},
        "--sync on": {"sync": "on"},
    }
    for options, want in cases.items():
        with Place() as place:
            fake = place.fake(5, lambda *unused: json_reply(POLLING, REPORT))
            got = place("polling -p 5 -m 3 --json " + options)
            check_run(got, 0)
            check(got.stdout.count(b"\n") == 1, got.stdout)
            check(json.loads(got.stdout) == REPORT, got.stdout)
            check(asked(fake) == want, asked(fake))
            check(header(fake.requests[0]) == (POLLING, 3), "header")
    with Place() as place:
        place.fake(5, lambda *unused: json_reply(POLLING, REPORT))
        got = place("polling -p 5 -m 3")
        check_run(got, 0)
        lines = [line.split(None, 1) for line in got.stdout.decode().splitlines()]
        check(["mode", "fixed, set by tap-ctl"] in lines, lines)
        check(["effective", "8000 us, align on"] in lines, lines)
        check(["time", "spinning   1.500000 s"] in lines, lines)
        check(["arms", "5"] in lines, lines)


def test_an_older_tapdisk_is_shown_without_what_it_does_not_tell():
    with Place() as place:
        place.fake(5, lambda *unused: json_reply(POLLING, REPORT))
        check_run(place("polling -p 5 -m 0"), 0)
        check_run(place("polling -p 5 -m 0 --watch --seconds 1"), 0)
        got = place("polling -p 5 -m 0 --advise")
        check_run(got, 71, "")
        check(b"does not tell its waits" in got.stderr, got.stderr)
    with Place() as place:
        fake = place.fake(5, lambda kind, *unused:
                          json_reply(HELLO, {}) if kind == HELLO else error(22))
        trace = os.path.join(place.dir, "trace")
        check_run(place(["polling", "-p", "5", "-m", "0", "--trace", trace]), 22, "")
        check(asked(fake) == {"kind": "guest"}, asked(fake))


def test_an_advice_is_asked_for_as_documented():
    gaps = {"guest": [[20479, 300, 6000000]], "device": [], "both": []}
    policy = {"price": 0.05, "rho": 0, "w0_us": 40, "cw_us": 12}
    reply = dict(REPORT, policy=policy, gaps=gaps, requests=300)
    with Place() as place:
        fake = place.fake(5, lambda *unused: json_reply(POLLING, reply))
        got = place("polling -p 5 -m 0 --advise --json")
        check_run(got, 0)
        check(asked(fake) == {"want": ["gaps"]}, asked(fake))
        advice = json.loads(got.stdout)
        check(advice["recommended"] == "adaptive", advice)
        check(advice["kinds"]["guest"]["threshold_ns"] == 20479, advice)
        check(advice["ways"][0]["cost_us"] == 40.6, advice)


def test_a_trace_is_written_as_it_came():
    asks = []

    def trace(kind, request, connection):
        asks.append(json.loads(request[SIZE:]))
        n = len(asks)
        return json_reply(136, {"cursor": n, "lost": int(n == 2), "gaps": [n, 20],
                                "ops": "wf"})

    with Place() as place:
        place.fake(5, trace)
        path = os.path.join(place.dir, "trace")
        got = place(["polling", "-p", "5", "-m", "0", "--trace", path, "--seconds",
                     "1", "--kind", "both"])
        check_run(got, 0, "%d waits recorded, 1 lost\n" % (2 * len(asks)))
        check(asks[0] == {"kind": "both"}, asks[0])
        check(asks[2] == {"kind": "both", "cursor": 2}, asks[2])
        with open(path) as file:
            check(file.read().startswith("1 write\n20 flush\n2 write\n"), "trace")


def test_a_tapdisk_without_adaptive_mode_says_so():
    with Place() as place:
        place.fake(5, lambda *unused: error(95))
        check_run(place("polling -p 5 -m 0 --mode adaptive"), 95, "")


def test_a_stock_tapdisk_is_told_from_a_wrong_value():
    with Place() as place:
        place.fake(5, lambda *unused: error(22))
        got = place("polling -p 5 -m 0")
        check_run(got, 22, "")
        check(b"stock tapdisk" in got.stderr, got.stderr)

    def ours(kind, request, connection):
        return error(22) if kind == POLLING else json_reply(HELLO, {})

    with Place() as place:
        place.fake(5, ours)
        got = place("polling -p 5 -m 0")
        check_run(got, 22, "")
        check(b"stock" not in got.stderr, got.stderr)


def test_connect_sends_the_documented_message():
    start = "connect -p 5 -m 3 -d 7 -v 51712 --port 9 "
    base = {"domid": 7, "devid": 51712, "protocol": "native", "guest": "xen",
            "queues": [{"port": 9, "ring_refs": [8]}]}
    cases = {
        "--ring-ref 8": {},
        "--ring-ref 8,9": {"queues": [{"port": 9, "ring_refs": [8, 9]}]},
        "--ring-ref 8 --protocol x86_32": {"protocol": "x86_32-abi"},
        "--ring-ref 8 --protocol x86_64-abi": {"protocol": "x86_64-abi"},
        "--ring-ref 8 --guest local:/s k": {"guest": "local:/s"},
        "--ring-ref 8 --polling-duration 8000 --idle-threshold 50":
            {"polling": {"mode": "adaptive", "duration_us": 8000,
                         "idle_threshold": 50, "align": True}},
        "--ring-ref 8 --polling-duration 0":
            {"polling": {"mode": "event", "duration_us": 0,
                         "idle_threshold": 0, "align": True}},
    }
    for options, more in cases.items():
        options = options.replace(" k", "")
        with Place() as place:
            fake = place.fake(5, lambda *unused: json_reply(CONNECT, {}))
            check_run(place(start + options), 0, "")
            check(asked(fake) == dict(base, **more), asked(fake))
            check(header(fake.requests[0]) == (CONNECT, 3), "header")
    with Place() as place:
        fake = place.fake(5, lambda *unused: error(19))
        check_run(place("disconnect -p 5 -m 3 -d 7 -v 51712"), 19, "")
        check(header(fake.requests[0])[0] == DISCONNECT, "type")


if __name__ == "__main__":
    sys.exit(run(globals()))
