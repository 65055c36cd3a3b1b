# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# limit: 60
# What evtchn/guest.h promises, of real grants and event channels.
export TMPDIR=$PWD
/usr/tests/test_guest || exit
! /usr/tests/test_guest | grep 'no Xen here'
