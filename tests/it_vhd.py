#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
VHDs of other programs read as those programs read them: the images of
tests/data/vhd (upstream's tools, qemu-img) by their digests, and images made
here by qemu-img, against qemu-img and libvhdi.

Debian's pyvhdi is for Debian's python3 only, hence the first line.
"""

import hashlib
import json
import lzma
import os
import random
import subprocess
import tempfile
import unittest

import pyvhdi

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BUILD", os.path.join(HERE, "..", "build"))
DATA = os.path.join(HERE, "data", "vhd")

# libvhdi cannot open the first, which has no footer at its end; it takes the
# next two, which were resized, for disks of their first size; the others are
# children, whose parents it does not find.  Their digests, on which upstream
# and an independent reader agree, decide.
LIBVHDI_ERRS = {"dyn-killed.vhd", "dyn-resized.vhd", "dyn-resized-fast.vhd",
                "diff-child.vhd", "diff-grandchild.vhd", "diff-empty.vhd",
                "diff-skip.vhd", "diff-of-raw.vhd"}


def ours(path, to):
    """The disk that @path holds, as we read it, in the file @to."""
    subprocess.run([os.path.join(BUILD, "tests", "test_vhd"), "dump",
                    "vhd:" + path, to], check=True)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def libvhdi(path):
    f = pyvhdi.file()
    f.open(path)
    h = hashlib.sha256()
    left = f.get_media_size()
    while left:
        data = f.read_buffer(min(left, 1 << 20))
        h.update(data)
        left -= len(data)
    f.close()
    return h.hexdigest()


def qemu_img(*args):
    return subprocess.run(["qemu-img", *args], check=True,
                          stdout=subprocess.PIPE, universal_newlines=True)


class Samples(unittest.TestCase):
    def test_samples_hold_what_their_makers_say(self):
        with open(os.path.join(DATA, "manifest.jsonl")) as f:
            images = [json.loads(line) for line in f]
        with tempfile.TemporaryDirectory() as work:
            for image in images:
                with lzma.open(os.path.join(DATA, image["file"])) as f, \
                        open(os.path.join(work, image["image"]), "wb") as to:
                    to.write(f.read())
            out = os.path.join(work, "out")
            vhds = [i for i in images if i["format"] == "vhd"]
            self.assertEqual(len(vhds), 18)
            for image in vhds:
                path = os.path.join(work, image["image"])
                with self.subTest(image["image"]):
                    ours(path, out)
                    self.assertEqual(os.path.getsize(out),
                                     image["disk_size"])
                    self.assertEqual(digest(out), image["disk_sha256"])
                    self.assertEqual(digest(path), image["file_sha256"])
                    if image["image"] not in LIBVHDI_ERRS:
                        self.assertEqual(libvhdi(path),
                                         image["disk_sha256"])


class Qemu(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.raw, self.vhd, self.out = (
            os.path.join(self.work.name, n) for n in ("raw", "vhd", "out"))

    def make_raw(self, size, seed):
        dice = random.Random(seed)
        with open(self.raw, "wb") as f:
            f.truncate(size)
            for _ in range(40):
                sector = dice.randrange(size // 512)
                f.seek(sector * 512)
                f.write(bytes([dice.randrange(1, 256)]) *
                        min(512 * dice.randrange(1, 600),
                            size - sector * 512))

    def test_images_of_qemu_img_are_read_as_it_reads_them(self):
        for seed, (size, fmt) in enumerate([
                (10 << 20, "subformat=dynamic,force_size=on"),
                (10 << 20, "subformat=fixed,force_size=on"),
                ((5 << 20) + 512, "subformat=dynamic,force_size=on"),
                (10 << 20, "subformat=dynamic"),
                (10 << 20, "subformat=fixed")]):
            with self.subTest(fmt, size=size):
                self.make_raw(size, seed)
                qemu_img("convert", "-f", "raw", "-O", "vpc", "-o", fmt,
                         self.raw, self.vhd)
                ours(self.vhd, self.out)
                qemu_img("compare", "-f", "vpc", "-F", "raw", self.vhd,
                         self.out)
                self.assertEqual(digest(self.out), libvhdi(self.vhd))
                with open(self.raw, "rb") as a, open(self.out, "rb") as b:
                    self.assertEqual(a.read(), b.read(size))


if __name__ == "__main__":
    done = unittest.main(exit=False).result
    bad = len(done.failures) + len(done.errors)
    print(f"{max(done.testsRun - bad, 0)} passed, {bad} failed")
    raise SystemExit(bad != 0)
