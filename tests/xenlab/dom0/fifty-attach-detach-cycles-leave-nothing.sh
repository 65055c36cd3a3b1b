# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 180
# Fifty times: plug in, read, unplug, with a new tapdisk for every fifth; and
# tapback has no more descriptors or memory than after the first ten.
. /xenlab/lib.sh
new_image disk 4
start_tapback

descriptors() {
	find "/proc/$TAPBACK/fd" -type l | wc -l
}

memory() {
	sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$TAPBACK/status"
}

i=0
while [ $i -lt 50 ]; do
	[ $((i % 5)) != 0 ] || new_disk "aio:$PWD/disk"
	plug_here "$XVDA"
	dd if=/dev/xvda of=/dev/null bs=64k count=4 iflag=direct 2>/dev/null ||
		die "cycle $i"
	unplug_here "$XVDA"
	i=$((i + 1))
	echo "$i $(now)"
	[ $((i % 5)) != 0 ] || end_disk
	[ $i != 10 ] || {
		fds=$(descriptors)
		kib=$(memory)
	}
done
echo "tapback: descriptors $fds, later $(descriptors);" \
	"KiB $kib, later $(memory)"
[ "$(descriptors)" -le "$fds" ] || die "descriptors are leaked"
[ -n "$SAN" ] || [ "$(memory)" -le $((kib + 128)) ] || die "memory is leaked"
stop_tapback
