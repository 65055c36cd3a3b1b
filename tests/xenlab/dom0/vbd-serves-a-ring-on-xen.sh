# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 150
# Everything that test_vbd_requests, _life and _polling ask of a ring, with a
# frontend on real grants and event channels: data, order, faults, hostile
# rings, pause and resume; and that a tapdisk that polls arms for an event at
# most once in 20 requests, of 10^4 one at a time.
export TMPDIR=$PWD STAND_ON=xen
for test in /usr/tests/test_vbd_*; do
	"$test" >out 2>log
	status=$?
	cat out
	[ $status = 0 ] && continue
	tail -n 60 log
	exit $status
done
