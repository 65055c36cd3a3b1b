#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tapback's command line, and what it says where there is no xenstore.
set -u
cd "$(dirname "$0")/.." || exit
tapback=${BUILD:-build}/bin/tapback
export XENSTORED_PATH=${TMPDIR:-/tmp}/no-xenstored-here
passed=0
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect STATUS PATTERN STREAM ARGUMENTS...
expect() {
	"$tapback" "${@:4}" >"$work/out" 2>"$work/err" </dev/null
	local status=$?
	if [ $status = "$1" ] && grep -Eq "$2" "$work/$3"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: tapback ${*:4}: status $status, not $1, or no" \
			"\"$2\" in $3:"
		cat "$work/out" "$work/err"
	fi
}

expect 0 '^usage: tapback' out -h
expect 0 '^usage: tapback' out --help
expect 0 '^tapback [0-9]' out --version
expect 2 '^usage: tapback' err -z
expect 2 '^usage: tapback' err -p
expect 2 'unexpected argument' err -d more
expect 2 'not a name' err -n a/b
expect 2 'not a name' err -n ''
expect 2 'not the number of a domain' err -x -1
expect 2 'not the number of a domain' err -x 40000
expect 2 'not the number of a domain' err -x 1x
if [ ! -e /dev/xen/xenbus ] && [ ! -e /proc/xen/xenbus ]; then
	expect 1 'xenstore: ' err -d
	expect 1 'xenstore: ' err -d -v -b -n vbd3 -x 5
	# the daemon's end is told by whoever started it
	expect 1 'xenstore: ' err
	expect 1 'xenstore: ' err -p "$work/pid"
	if [ -e "$work/pid" ]; then
		failed=$((failed + 1))
		echo "FAILED: left its pid file behind"
	else
		passed=$((passed + 1))
	fi
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
