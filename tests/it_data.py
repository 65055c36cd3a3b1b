#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
What a guest wrote is what it reads, and what stands in the image: every way
to write, block size, depth, ring and ABI.
"""

import itertools
import struct
import sys

from host import host
from tapdisk import run

MAGIC = 0x706D6174736B6C62  # the first word of a sector that --verify wrote

MODES = ["randread", "randwrite", "read", "write", "randrw", "discard"]
SIZES = ["512", "1k", "4k", "12800", "44k", "64k", "1m"]
DEPTHS = ["1", "3", "32"]
RINGS = [
    (order, abi)
    for order in ("0", "1", "2", "3", "4")
    for abi in ("native", "x86_32", "x86_64")
]


def every_size_depth_ring_and_abi_verifies():
    """Each mode with each size and depth, turning through the rings."""
    rings = itertools.cycle(RINGS)
    with host() as h:
        disk = h.create("aio:" + h.dirs.image("a.img", 16))
        for mode, size, depth in itertools.product(MODES, SIZES, DEPTHS):
            order, abi = next(rings)
            # small blocks on a small region, or filling it takes the time
            region = "256k" if size == "512" else "1m" if size == "1k" else "8m"
            options = [
                "--verify", "--rw", mode, "--bs", size, "--qd", depth,
                "--ring-order", order, "--abi", abi, "--size", region,
                "--runtime", "0.05", "--wait", "sleep",
            ]  # fmt: skip
            result = disk.bench(*options)
            assert result["io_errors"] == 0, (options, result)
            assert result["verify_errors"] == 0, (options, result)
            assert result["iops"] > 0, (options, result)
        disk.destroy()


def the_image_holds_the_bytes_at_their_place():
    with host() as h:
        path = h.dirs.image("a.img", 8)
        disk = h.create("aio:" + path)
        disk.bench("--verify", "--rw", "randwrite", "--bs", "4k", "--qd", "8",
                   "--size", "8m", "--runtime", "0.2")  # fmt: skip
        disk.destroy()
        with open(path, "rb") as f:
            for sector in range(8 << 11):
                magic, number, generation = struct.unpack("<3Q", f.read(512)[:24])
                assert (magic, number) == (MAGIC, sector), (sector, number)
                assert generation < 1 << 20, (sector, generation)


def polling_verifies_too():
    with host() as h:
        disk = h.create("aio:" + h.dirs.image("a.img", 8))
        for depth in DEPTHS:
            result = disk.bench(
                "--verify", "--rw", "randrw", "--bs", "4k", "--qd", depth,
                "--polling", "fixed:2000", "--flush-every", "16",
                "--size", "8m", "--runtime", "0.3",
            )  # fmt: skip
            assert result["io_errors"] == result["verify_errors"] == 0, result
        disk.destroy()


def small_sectors_on_shared_blocks_do_not_undo_each_other():
    """512-byte writes at depth 32 on a store with 4096-byte blocks."""
    with host() as h:
        disk = h.create("aio:" + h.dirs.image("a.img", 8))
        result = disk.bench("--verify", "--rw", "randwrite", "--bs", "512",
                            "--qd", "32", "--size", "64k",
                            "--runtime", "0.5")  # fmt: skip
        assert result["io_errors"] == result["verify_errors"] == 0, result
        disk.destroy()


if __name__ == "__main__":
    sys.exit(
        run(
            [
                every_size_depth_ring_and_abi_verifies,
                the_image_holds_the_bytes_at_their_place,
                polling_verifies_too,
                small_sectors_on_shared_blocks_do_not_undo_each_other,
            ]
        )
    )
