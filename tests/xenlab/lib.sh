# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# For cases in dom0: ". /xenlab/lib.sh".

now() {
	cut -d ' ' -f 1 /proc/uptime
}

# since START: seconds, with a digit after the point
since() {
	echo "$1 $(now)" | awk '{ printf "%.1f\n", $2 - $1 }'
}

die() {
	echo "FAILED: $*"
	exit 1
}

skip() {
	echo "$*"
	exit 77
}

# until_true SECONDS COMMAND...: 20 times a second; false if it never was
until_true() {
	_n=$(($1 * 20 * ${SLOW:-1}))
	shift
	until "$@" >/dev/null 2>&1; do
		_n=$((_n - 1))
		[ $_n -gt 0 ] || return 1
		usleep 50000
	done
}

# --- tapdisk

# new_image FILE MIB
new_image() {
	truncate -s "${2}M" "$1"
}

# new_disk SPEC [OPTION...]: sets PID and MINOR
new_disk() {
	_spec=$1
	shift
	_out=$(tap-ctl create -a "$_spec" "$@") || die "tap-ctl create $_spec"
	MINOR=${_out##*-}
	PID=$(tap-ctl list -m "$MINOR" | sed -n 's/.*pid=\([0-9]*\).*/\1/p')
	[ -n "$PID" ] || die "no tapdisk of minor $MINOR"
}

# end_disk [PID MINOR]
end_disk() {
	tap-ctl destroy -p "${1:-$PID}" -m "${2:-$MINOR}" || die "tap-ctl destroy"
}

# A tapdisk was killed: its marker, its sockets.
forget_disk() {
	tap-ctl free -m "${2:-$MINOR}"
	rm -f "/run/blktap-control/ctl${1:-$PID}" /run/blktap-control/nbd*"${1:-$PID}".*
}

# number KEY: of the JSON on stdin, the first
number() {
	tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\"*\([^\" ]*\)\"*.*/\1/p" |
		head -n 1
}

# polling KEY [PID MINOR]
polling() {
	tap-ctl polling -p "${2:-$PID}" -m "${3:-$MINOR}" --json | number "$1"
}

# --- xenstore

TAP=/local/domain/0/backend/vbd3
XVDA=51712
XVDB=51728

front_of() {
	echo "/local/domain/$1/device/vbd/$2"
}

back_of() {
	echo "$TAP/$1/$2"
}

# plug DOMID DEVID [MODE [PID MINOR]]: as xenopsd does.  Both ends in one
# transaction, because a frontend looks for its backend at once.
plug() {
	_front=$(front_of "$1" "$2") _back=$(back_of "$1" "$2")
	xenstore-write "$_front/backend" "$_back" "$_front/backend-id" 0 \
		"$_front/virtual-device" "$2" "$_front/device-type" disk \
		"$_front/state" 1 \
		"$_back/frontend" "$_front" "$_back/frontend-id" "$1" \
		"$_back/online" 1 "$_back/removable" 0 "$_back/bootable" 1 \
		"$_back/mode" "${3:-w}" "$_back/state" 1 || die "plug $1 $2"
	if [ "$1" != 0 ]; then
		xenstore-chmod -r "$_front" "n$1" r0
		xenstore-chmod -r "$_back" n0 "r$1"
	fi
	xenstore-write "$_back/physical-device-path" \
		"/run/blktap-control/nbd${4:-$PID}.${5:-$MINOR}" \
		"$_back/hotplug-status" connected
}

state_is() {
	[ "$(xenstore-read "$1/state" 2>/dev/null)" = "$2" ]
}

# plugged DOMID DEVID: both ends connected
plugged() {
	until_true 20 state_is "$(back_of "$1" "$2")" 4 || {
		xenstore-ls -f "$(back_of "$1" "$2")"
		die "backend of $1 $2 is in state" \
			"$(xenstore-read "$(back_of "$1" "$2")/state")"
	}
	until_true 20 state_is "$(front_of "$1" "$2")" 4 ||
		die "frontend of $1 $2 is not connected"
}

# unplug DOMID DEVID: ask both ends to close, then forget them
unplug() {
	_back=$(back_of "$1" "$2")
	xenstore-write "$_back/online" 0 "$_back/state" 5
	until_true 20 state_is "$_back" 6 || {
		xenstore-ls -f "$_back"
		die "unplug $1 $2: state $(xenstore-read "$_back/state")"
	}
	forget_plug "$1" "$2"
}

forget_plug() {
	xenstore-rm "$(front_of "$1" "$2")" 2>/dev/null
	xenstore-rm "$(back_of "$1" "$2")" 2>/dev/null
	# the directories above, once they are empty
	for _dir in "$TAP/$1" "/local/domain/$1/device/vbd"; do
		[ -n "$(xenstore-list "$_dir" 2>/dev/null)" ] ||
			xenstore-rm "$_dir" 2>/dev/null
	done
	return 0
}

is_block() {
	[ -b "$1" ]
}

is_no_block() {
	[ ! -b "$1" ]
}

# --- what is in use

# Grants that somebody has mapped, as Xen counts them.
grants() {
	xl dmesg -c >/dev/null
	xl debug-keys g
	xl dmesg -c | awk '
		/grant-table for remote d/ { domid = $6 }
		/^\(XEN\) \[0x/ { n[domid]++ }
		END { for (domid in n)
			print n[domid] " grants of " domid " in use" }'
}

# Kill and remove what a case that failed has left.
sweep() {
	for _pid in $(ps -o pid,comm |
		sed -n 's/^ *\([0-9]*\) \(tap\|td-\|blkfront\|sqlite\).*/\1/p'); do
		kill -KILL "$_pid"
	done
	for _domid in $(xl list | awk 'NR > 1 && $2 != 0 { print $2 }'); do
		xl destroy "$_domid"
	done
	umount -f /mnt 2>/dev/null
	for _dir in $(xenstore-list /local/domain/0/device/vbd 2>/dev/null); do
		forget_plug 0 "$_dir"
	done
	xenstore-rm /local/domain/0/backend/vbd3 2>/dev/null
	rm -rf /run/blktap-control /dev/shm/* /run/tapback*
	rm -f /out/seen/*
	mkdir -p /out/failed
	mv /out/cores/* /out/san/* /out/failed/ 2>/dev/null
	return 0
}
