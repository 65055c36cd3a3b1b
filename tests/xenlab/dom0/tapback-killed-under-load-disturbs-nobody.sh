# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 90
# tapback is killed and started again while a disk is written: no request
# fails, and the next tapback unplugs what the last one plugged.
. /xenlab/lib.sh
new_image disk 32
new_disk "aio:$PWD/disk"
start_tapback
plug_here "$XVDA"
dd if=/dev/urandom of=data bs=1M count=2 2>/dev/null
(
	i=0
	while [ ! -e stop ]; do
		dd if=data of=/dev/xvda bs=64k seek=$((i % 8 * 32)) \
			oflag=direct conv=notrunc 2>>errors || exit 1
		dd if=/dev/xvda bs=64k skip=$((i % 8 * 32)) count=32 \
			iflag=direct 2>/dev/null | cmp - data || exit 1
		i=$((i + 1))
	done
	echo "$i rounds of 2 MiB"
) &
load=$!
for signal in KILL TERM KILL KILL TERM; do
	usleep 300000
	stop_tapback $signal
	usleep 300000
	start_tapback
	plugged 0 "$XVDA"
done
touch stop
wait $load || { tail -n 3 errors; die "the load failed"; }
connects=$(polling requests)
echo "requests on this ring: $connects"
unplug_here "$XVDA"
end_disk
stop_tapback
