#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Failures that users of tapdisks met in the field, and where each is tried here.

Every row is named in the comment of a test, in any other file of tests/, or
says in a line why it is not.  T: tap-ctl and its socket; B: tapback; S:
statistics; N: NBD and changed-block tracking.
"""

import os
import re
import sys

TESTS = os.path.dirname(os.path.abspath(__file__))

# id: (what went wrong, why there is no test)
NO_CLIENT = "there is no NBD client driver yet"
NO_CBT = "there is no changed-block tracking yet: -C is refused"
ROWS = {
    "T01": ("a signal in the middle of a call ended it", None),
    "T02": ("one tapdisk that vanished made list fail", None),
    "T03": ("a timeout was taken for a date, or its error for another", None),
    "T04": ("close waited for a slow device for ever", None),
    "T05": ("many at once on a fresh host disturbed each other", None),
    "T06": ("a filtered list showed minors that nobody asked for", None),
    "T07": ("spaces, colons, UTF-8 or a line's end in a path", None),
    "T09": ("a long path was cut, and another file opened", None),
    "T10": ("the type's length was checked one byte too late", None),
    "T11": ("unpause with a path that changed, or is not there", None),
    "T12": ("a failed snapshot left the disk paused", None),
    "T14": ("a killed tapdisk left things that nobody could remove", None),
    "T15": ("more disks than the message had room for",
            "one process has one disk, and the message with room for 63 is refused"),
    "T16": ("an error on stdout was parsed", None),
    "T17": ("a failed plug left half of a disk", None),
    "T18": ("a drive could not be ejected while a client was connected", None),
    "T19": ("needed a kernel module", None),
    "T20": ("logs filled the disk", None),
    "B01": ("a ring's size that is none, or changes while it is read", None),
    "B04": ("the toolstack closed a disk that its guest was using", None),
    "B06": ("the backend's directory went away under load", None),
    "B07": ("one stuck disk held up all others", None),
    "B09": ("a frontend that comes and goes quickly left things behind", None),
    "B10": ("a key written before it was watched was never seen", None),
    "B11": ("keys came in another order", None),
    "B12": ("a key with junk or nothing in it ended the daemon", None),
    "B13": ("a foreign device number named somebody else's disk", None),
    "B14": ("a domain destroyed at boot kept its image open", None),
    "B15": ("one bad device kept others from being looked at", None),
    "B16": ("after some cycles nothing could be detached", None),
    "S01": ("a reader saw half of an update", None),
    "S02": ("graphs were empty: another layout than the reader's", None),
    "S03": ("JSON was cut short", None),
    "S05": ("errors counted twice, or a crash while counting", None),
    "S06": ("units were mistaken", None),
    "N01": ("an unknown option cost the connection", None),
    "N02": ("a request right behind the handshake was lost", None),
    "N03": ("a cut handshake left its descriptor open", None),
    "N06": ("a handshake in single bytes failed", None),
    "N08": ("thousands of requests at once took all memory", None),
    "N09": ("a failed write cost the connection", None),
    "N10": ("use after free when the image was closed", None),
    "N11": ("a slow request made the kernel's client give up", None),
    "N12": ("a client that did not read for a while got an error", None),
    "N13": ("the second descriptor passed under a name was dropped", NO_CLIENT),
    "N14": ("blocks that are not of 512 bytes", None),
    "N15": ("a server's length was believed", NO_CLIENT),
    "N16": ("old and new handshakes were mixed up", NO_CLIENT),
    "N17": ("a log of changes was lost, or wrong after a crash", NO_CBT),
    "N18": ("a pause dropped the log, or its blocks had another size", NO_CBT),
    "N19": ("the same question about blocks got another answer", None),
}  # fmt: skip


def sources():
    for name in sorted(os.listdir(TESTS)):
        if name.startswith(("test_", "it_", "it-", "check-")) and name != (
            os.path.basename(__file__)
        ):
            with open(os.path.join(TESTS, name)) as f:
                yield f.read()


def comments(text):
    return re.findall(r'/\*.*?\*/|""".*?"""|^ *#.*?$', text, re.S | re.M)


def main():
    named = set()
    for text in sources():
        for comment in comments(text):
            named |= set(re.findall(r"\b[TBSN]\d\d\b", comment))
    bad = 0
    for row, (title, reason) in ROWS.items():
        if row not in named and not reason:
            print("%s: %s: no test names it" % (row, title))
            bad += 1
    print("%d passed, %d failed" % (len(ROWS) - bad, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
