# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 120
# SQLite on ext4 on a loopback disk commits in event and fixed mode; the mode is
# changed while it runs, by tap-ctl and by xenstore, and both are seen to take
# effect.
. /xenlab/lib.sh
new_image disk 64
new_disk "aio:$PWD/disk"
start_tapback
plug_here "$XVDA"
mkfs.ext4 -q -F /dev/xvda || die "mkfs"
mount -t ext4 /dev/xvda /mnt || die "mount"

mode_is() {
	[ "$(polling mode)" = "$1" ]
}

threshold_is() {
	[ "$(polling idle_threshold)" = "$1" ]
}

bench() {
	echo "$*: $(polling mode), $(polling effective_us) us"
	sqlite-bench --file /mnt/db --transactions 40 || die "$*"
}

mode_is event || die "begins in mode $(polling mode)"
bench "no key"
back=$(back_of 0 "$XVDA")
xenstore-write "$back/polling-duration" 6000
until_true 5 mode_is adaptive || until_true 1 mode_is fixed ||
	die "polling-duration is not seen"
[ "$(polling effective_us)" = 8000 ] || die "6000 is not 8000"
bench "polling-duration 6000"
[ "$(polling spin_ns)" -gt 0 ] || die "it does not spin"
xenstore-write "$back/polling-idle-threshold" 33
until_true 5 threshold_is 33 ||
	die "polling-idle-threshold is not seen"
xenstore-write "$back/polling-duration" 0
until_true 5 mode_is event || die "polling-duration 0 is not seen"

tap-ctl polling -p "$PID" -m "$MINOR" --mode fixed --duration 8000 >/dev/null ||
	die "tap-ctl polling"
mode_is fixed || die "tap-ctl polling is not seen"
xenstore-write "$back/polling-duration" 4000
usleep 500000
mode_is fixed && [ "$(polling effective_us)" = 8000 ] ||
	die "xenstore goes before tap-ctl"
hits=$(polling hits)
bench "tap-ctl polling --mode fixed"
[ "$(polling hits)" -gt "$hits" ] || die "it does not spin"

# while it runs
sqlite-bench --file /mnt/live --transactions 150 >live &
bench=$!
for mode in event fixed event fixed event default; do
	usleep 200000
	tap-ctl polling -p "$PID" -m "$MINOR" --mode $mode >/dev/null ||
		die "--mode $mode"
done
wait $bench || die "changed live"
cat live
umount /mnt
e2fsck -f -n /dev/xvda >fsck 2>&1 || { cat fsck; die "fsck"; }
unplug_here "$XVDA"
end_disk
stop_tapback
