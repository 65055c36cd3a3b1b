# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 90
# A tapdisk dies between two requests: tapback lives, the load on another disk
# does not notice, the device has nothing to read, it can be unplugged, and
# plugged in again with a new tapdisk.
. /xenlab/lib.sh
new_image disk 16
new_image other 16
start_tapback
new_disk "aio:$PWD/other"
other_pid=$PID other_minor=$MINOR
plug_here "$XVDB"
new_disk "aio:$PWD/disk"
plug_here "$XVDA"
dd if=/dev/urandom of=data bs=64k count=4 2>/dev/null
dd if=data of=/dev/xvda bs=64k oflag=direct 2>/dev/null || die "writing"
(
	while [ ! -e stop ]; do
		dd if=data of=/dev/xvdb bs=64k oflag=direct conv=notrunc \
			2>/dev/null || exit 1
	done
) &
load=$!
usleep 300000
kill -KILL "$PID"
becomes 20 "$(back_of 0 "$XVDA")/state" 6 || {
	xenstore-ls -f "$(back_of 0 "$XVDA")"
	die "the device is not closed"
}
echo "backend is in state $(state_of "$(back_of 0 "$XVDA")")," \
	"frontend in $(state_of "$(front_of 0 "$XVDA")")"
# an error, or its end: Linux makes such a device an empty one
dd if=/dev/xvda of=nothing bs=4k count=1 iflag=direct 2>/dev/null
[ ! -s nothing ] || die "read from nobody"
xenstore-write "$(back_of 0 "$XVDA")/online" 0
plug forget 0 "$XVDA"
until_true 20 is_no_block /dev/xvda || die "/dev/xvda stays"
forget_disk
is_gone "$TAPBACK" && die "tapback died"

new_disk "aio:$PWD/disk"
plug_here "$XVDA"
dd if=/dev/xvda of=back bs=64k count=4 iflag=direct 2>/dev/null ||
	die "plugged again"
cmp data back || die "what was acknowledged is lost"
unplug_here "$XVDA"
end_disk
touch stop
wait $load || die "the other disk"
unplug_here "$XVDB"
end_disk "$other_pid" "$other_minor"
stop_tapback
