# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 60
# What evtchn/guest.h promises, of real grants and event channels.
export TMPDIR=$PWD
for test in /usr/tests/test_guest_*; do
	"$test" || exit
	! "$test" | grep 'no Xen here' || exit
done
