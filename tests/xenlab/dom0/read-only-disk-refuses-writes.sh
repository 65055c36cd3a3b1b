# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# A disk with mode r, or opened read-only, can be read and not written.
. /xenlab/lib.sh
dd if=/dev/urandom of=disk bs=1M count=4 2>/dev/null
cp disk before
start_tapback
for mode in r w; do
	new_disk "aio:$PWD/disk" -R
	plug_here "$XVDA" $mode
	dd if=/dev/xvda of=back bs=1M iflag=direct 2>/dev/null ||
		die "mode $mode: reading"
	cmp back before || die "mode $mode: read something else"
	[ "$(cat /sys/block/xvda/ro)" = 1 ] || die "mode $mode: xvda is not ro"
	! dd if=before of=/dev/xvda bs=4k count=1 seek=3 oflag=direct \
		2>/dev/null || die "mode $mode: written"
	unplug_here "$XVDA"
	end_disk
done
cmp disk before || die "the image was written"
stop_tapback
