# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 120
# 10^5 requests, 32 at a time, while tapdisk polls: every one is answered and
# every block holds what it should.
. /xenlab/lib.sh
new_disk ram:16m
done=0
while [ "$done" -lt 100000 ]; do
	blkfront-bench -p "$PID" -m "$MINOR" --guest xen --polling fixed:8000 \
		--qd 32 --bs 512 --rw randrw --size 2m --runtime 5 --verify \
		--json >out || die "bench"
	cat out
	[ "$(number verify_errors <out)" = 0 ] || die "wrong data"
	[ "$(number io_errors <out)" = 0 ] || die "I/O errors"
	done=$(polling requests)
	echo "$done requests"
done
end_disk
