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

# until_true SECONDS COMMAND...: false if it never was.  Processes are what is
# slow here, so it looks but ten times a second.
until_true() {
	_n=$(($1 * 10 * ${SLOW:-1}))
	shift
	until "$@" >/dev/null 2>&1; do
		_n=$((_n - 1))
		[ $_n -gt 0 ] || return 1
		usleep 100000
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
	_out=$(tap-ctl list -m "$MINOR")
	PID=${_out#*pid=}
	PID=${PID%% *}
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

# plug_in DOMID DEVID [MODE [PID MINOR]]: as xenopsd does
plug_in() {
	plug add "$1" "$2" "${3:-w}" \
		"/run/blktap-control/nbd${4:-$PID}.${5:-$MINOR}" ||
		die "plug add $1 $2"
}

state_is() {
	[ "$(xenstore-read "$1/state" 2>/dev/null)" = "$2" ]
}

# state_of DIR
state_of() {
	xenstore-read "$1/state" 2>/dev/null
}

# becomes SECONDS NODE VALUE: true once it does; "" is gone
becomes() {
	plug wait "$2" "$3" $(($1 * ${SLOW:-1})) 2>/dev/null
}

# plugged DOMID DEVID: both ends connected
plugged() {
	plug connected "$1" "$2" $((20 * ${SLOW:-1})) || {
		xenstore-ls -f "$(back_of "$1" "$2")"
		die "$1 $2 is not connected"
	}
}

# unplug DOMID DEVID: ask both ends to close, then forget them
unplug() {
	plug take "$1" "$2" $((20 * ${SLOW:-1})) || {
		xenstore-ls -f "$(back_of "$1" "$2")"
		die "unplug $1 $2"
	}
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
		plug forget 0 "$_dir"
	done
	xenstore-rm /local/domain/0/backend/vbd3 2>/dev/null
	rm -rf /run/blktap-control /dev/shm/* /run/tapback*
	rm -f /out/seen/*
	mkdir -p /out/failed
	mv /out/cores/* /out/san/* /out/failed/ 2>/dev/null
	return 0
}

# --- tapback

start_tapback() {
	tapback -p /run/tapback.pid || die "tapback: status $?"
	TAPBACK=$(cat /run/tapback.pid)
}

# stop_tapback [SIGNAL]
stop_tapback() {
	kill "-${1:-TERM}" "$TAPBACK"
	until_true 10 is_gone "$TAPBACK" || die "tapback does not end"
	rm -f /run/tapback.pid
}

is_gone() {
	[ ! -d "/proc/$1" ]
}

# --- domain 0's own blkfront

# plug_here DEVID [MODE [PID MINOR]]
plug_here() {
	plug_in 0 "$@"
	plugged 0 "$1"
	device_of "$1"
	until_true 20 is_block $DEVICE || die "no $DEVICE"
}

unplug_here() {
	unplug 0 "$1"
	device_of "$1"
	until_true 20 is_no_block $DEVICE || die "$DEVICE is still there"
}

# no process where this is asked
device_of() {
	case $1 in
	"$XVDA") DEVICE=/dev/xvda ;;
	"$XVDB") DEVICE=/dev/xvdb ;;
	esac
}

# 512-byte blocks that FILE takes
blocks_of() {
	stat -c %b "$1"
}

# --- guests

# new_guest NAME pv|pvh CASE [WORD...]: paused; sets DOMID.  It runs CASE.guest
# with the WORDs, NAME=value, in its environment.
new_guest() {
	_name=$1 _type=$2
	_words="xenlab_CASE=$3"
	shift 3
	for _word in "$@"; do _words="$_words xenlab_$_word"; done
	cat >"/tmp/case/$_name.cfg" <<-C
	name = "$_name"
	type = "$_type"
	memory = 160
	vcpus = 1
	kernel = "/xenlab/vmlinux"
	ramdisk = "/xenlab/guest.cpio"
	extra = "console=hvc0 quiet loglevel=4 mitigations=off panic=1 random.trust_cpu=1 $_words"
	on_poweroff = "destroy"
	on_crash = "destroy"
	on_reboot = "destroy"
	C
	rm -f "/var/log/xen/console/guest-$_name.log"
	xl create -q -p "/tmp/case/$_name.cfg" || {
		xl dmesg | tail -n 20
		die "xl create $_name"
	}
	DOMID=$(xl domid "$_name")
}

said() {
	grep -q "$2" "/var/log/xen/console/guest-$1.log" 2>/dev/null
}

# guest_says NAME PATTERN [SECONDS]
guest_says() {
	until_true "${3:-60}" said "$1" "$2" || {
		tail -n 40 "/var/log/xen/console/guest-$1.log"
		xl list
		die "guest $1 did not say \"$2\""
	}
}

no_domain() {
	! xl domid "$1" >/dev/null 2>&1
}

# The guest ended well, and what it had plugged is forgotten.
guest_ended() {
	guest_says "$1" '^GUEST-EXIT: ' "${2:-60}"
	said "$1" '^GUEST-EXIT: 0' || {
		tail -n 40 "/var/log/xen/console/guest-$1.log"
		die "guest $1 failed"
	}
	until_true 20 no_domain "$1" || die "guest $1 does not go"
}

# guest_disk DOMID DEVID PID MINOR
guest_disk() {
	plug_in "$1" "$2" w "$3" "$4"
}

# guest_disk_gone DOMID DEVID: tapback has removed it after its domain's death
guest_disk_gone() {
	becomes 30 "$(back_of "$1" "$2")" "" || {
		xenstore-ls -f "$(back_of "$1" "$2")"
		die "device $2 of domain $1 stays"
	}
}

guest_log() {
	grep -v '^LOAD: \|^WROTE: ' "/var/log/xen/console/guest-$1.log"
}

# how often load.guest has written and read
guest_rounds() {
	sed -n 's/^LOAD: \([0-9]*\).*/\1/p' \
		"/var/log/xen/console/guest-$1.log" | tail -n 1
}

# guest_does_more NAME ROUNDS
guest_does_more() {
	[ "$(guest_rounds "$1")" -gt $(($2 + 1)) ]
}

is_no_domain() {
	! xl list "$1" >/dev/null 2>&1
}
