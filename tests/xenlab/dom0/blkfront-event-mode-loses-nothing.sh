# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 60
# A blkfront in user space over real grants and event channels, sleeping on
# both sides: all data is verified, and each ABI's slots are understood.
. /xenlab/lib.sh
new_image disk 16
new_disk "aio:$PWD/disk"
for abi in native x86_32 x86_64; do
	blkfront-bench -p "$PID" -m "$MINOR" --guest xen --abi $abi \
		--rw randrw --qd 8 --size 4m --runtime 1 --verify ||
		die "$abi"
done
blkfront-bench -p "$PID" -m "$MINOR" --guest xen --ring-order 4 --qd 256 \
	--rw randrw --size 4m --runtime 1 --verify || die "ring of 16 pages"
blkfront-bench -p "$PID" -m "$MINOR" --guest xen --flush-every 4 --qd 4 \
	--rw write --bs 44k --size 4m --runtime 1 --verify || die "flushes"
end_disk
