# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 90
# Domain 0's own blkfront on a disk of ours: what it writes is what it reads,
# and is in the image; ext4 is made, mounted, synced a lot and checked; fstrim
# gives blocks of the image back.
. /xenlab/lib.sh
new_image disk 64
new_disk "aio:$PWD/disk"
start_tapback
plug_here "$XVDA"
xenstore-ls "$(back_of 0 "$XVDA")"
[ "$(cat /sys/block/xvda/size)" = 131072 ] || die "size"
dd if=/dev/urandom of=data bs=1M count=8 2>/dev/null
dd if=data of=/dev/xvda bs=1M oflag=direct conv=fsync 2>/dev/null ||
	die "writing"
dd if=/dev/xvda of=back bs=1M count=8 iflag=direct 2>/dev/null || die "reading"
cmp data back || die "read something else"
head -c 8388608 disk | cmp - data || die "image holds something else"

mkfs.ext4 -q -F /dev/xvda || die "mkfs"
mount -t ext4 /dev/xvda /mnt || die "mount"
for writer in 1 2 3 4; do
	(
		i=0
		while [ $i -lt 50 ]; do
			dd if=data of="/mnt/storm.$writer" bs=4k count=2 \
				seek=$i conv=fsync,notrunc 2>/dev/null ||
				echo bad >>storm
			i=$((i + 1))
		done
	) &
done
wait
[ ! -e storm ] || die "a sync failed"
cp data /mnt/data
sync
full=$(blocks_of disk)
rm /mnt/data
sync
fstrim -v /mnt || die "fstrim"
empty=$(blocks_of disk)
echo "image: $full blocks, after fstrim $empty"
[ "$empty" -lt $((full - 12000)) ] || die "fstrim gave nothing back"
umount /mnt
e2fsck -f -n /dev/xvda >fsck 2>&1 || { cat fsck; die "fsck"; }
unplug_here "$XVDA"
end_disk
stop_tapback
