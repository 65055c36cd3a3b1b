#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The runner is trusted by everything else, so it is tried itself: on a small
# tree of tests that pass, fail, skip and leave things behind.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests" "$work/b/tests"
cp "$here/run" "$work/tests/run"
unset SAN SCALE

passed=0
failed=0
limit=20

# planted NAME: a test of the small tree, its body on stdin
planted() {
	{
		echo '#!/bin/bash'
		cat
	} >"$work/tests/$1"
	chmod +x "$work/tests/$1"
}

# alive PID: a zombie that nobody reaps is not
alive() {
	local state
	state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
	[ -n "$state" ] && [ "${state:0:1}" != Z ]
}

# expect WHAT STATUS LAST PATTERN: exit status, last line, a line in between
expect() {
	out=$("$work/tests/run" -b "$work/b" -t "$limit" 2>&1 </dev/null)
	status=$?
	if [ "$status" = "$2" ] && [ "$(tail -n 1 <<<"$out")" = "$3" ] &&
		grep -q -- "$4" <<<"$out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED: %s: status %s\n%s\n' "$1" "$status" "$out"
	fi
	rm -f "$work"/tests/it-* "$work"/tests/test_* "$work"/b/tests/*
}

expect 'no tests is a failure' 1 '0 passed, 1 failed, 0 skipped' 'no test'

planted it-a.sh <<'END'
echo hello
END
expect 'a script counts for one' 0 '1 passed, 0 failed, 0 skipped' '^ok '

planted it-a.sh <<'END'
exit 3
END
expect 'a script that fails counts for one' 1 '0 passed, 1 failed, 0 skipped' \
	'^FAIL .*exit status 3'

planted it-a.sh <<'END'
echo '7 passed, 0 failed'
END
expect 'a script that counts is believed' 0 \
	'7 passed, 0 failed, 0 skipped' '^ok '

planted it-a.sh <<'END'
echo '3 passed, 2 failed'
exit 1
END
expect 'failures count' 1 '3 passed, 2 failed, 0 skipped' '^FAIL .*status 1'

planted it-a.sh <<'END'
echo '3 passed, 2 failed'
END
expect 'failures count even with status 0' 1 \
	'3 passed, 2 failed, 0 skipped' '^FAIL .*yet checks failed'

planted it-a.sh <<'END'
echo 'the moon is not full'
exit 77
END
expect 'a skip shows its reason' 0 '0 passed, 0 failed, 1 skipped' \
	'^skip .*the moon is not full$'

touch "$work/tests/test_unit.c"
planted test_unit <<'END'
echo '66%: Checks: 3, Failures: 1, Errors: 0'
echo '100%: Checks: 2, Failures: 0, Errors: 0'
exit 1
END
mv "$work/tests/test_unit" "$work/b/tests/"
expect 'all summaries of check count' 1 '4 passed, 1 failed, 0 skipped' \
	'^FAIL .*test_unit'

touch "$work/tests/test_unit.c"
planted test_unit <<'END'
echo '100%: Checks: 0, Failures: 0, Errors: 0'
END
mv "$work/tests/test_unit" "$work/b/tests/"
expect 'a program without checks fails' 1 '0 passed, 1 failed, 0 skipped' \
	'ran no check'

planted it-a.sh <<'END'
touch "$TMPDIR/x"
END
expect 'a file left fails' 1 '0 passed, 1 failed, 0 skipped' 'left .TMPDIR/x'

planted it-a.sh <<'END'
mkdir -p "$TAPDISK_RUN_DIR/tapdisk"
touch "$TAPDISK_RUN_DIR/tapdisk/tapdisk-0" "$TAPDISK_LOG_DIR/x.log"
END
expect 'a marker left fails, a log does not' 1 \
	'0 passed, 1 failed, 0 skipped' 'left .TAPDISK_RUN_DIR/tapdisk/tapdisk-0$'

planted it-a.sh <<'END'
path=${ASAN_OPTIONS#log_path=}
echo 'bad free' >"${path%%:*}.1"
END
expect 'a report of a sanitizer fails' 1 '0 passed, 1 failed, 0 skipped' \
	'| bad free'

planted it-a.sh <<END
setsid sleep 71 >/dev/null 2>&1 &
echo \$! >$work/pid
END
expect 'a process left fails' 1 '0 passed, 1 failed, 0 skipped' \
	'left process [0-9]*: sleep 71'
if alive "$(cat "$work/pid")"; then
	echo "FAILED: the process left was not killed"
	failed=$((failed + 1))
else
	passed=$((passed + 1))
fi

planted it-a.sh <<'END'
trap 'echo cleaned; exit 1' TERM
sleep 74 &
wait
END
limit=0.5
expect 'a test may clean up when its time is over' 1 \
	'0 passed, 1 failed, 0 skipped' '| cleaned'

# Interrupted: the running test ends, and so does what it had started.
for signal in INT TERM; do
	planted it-a.sh <<END
setsid sleep 72 >/dev/null 2>&1 &
echo \$! >$work/pid
echo \$TMPDIR >$work/dir
touch $work/ready
sleep 73
END
	rm -f "$work/ready"
	# bash lets a background job ignore SIGINT, so python starts it
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$work/tests/run" -b "$work/b" \
		>"$work/out" 2>&1 </dev/null &
	runner=$!
	for _ in $(seq 200); do
		[ -e "$work/ready" ] && break
		sleep 0.05
	done
	kill -s "$signal" "$runner"
	wait "$runner"
	status=$?
	if [ "$status" = 1 ] && ! alive "$(cat "$work/pid")" &&
		[ ! -e "$(cat "$work/dir")" ] &&
		grep -q '^interrupted' "$work/out"; then
		passed=$((passed + 1))
	else
		echo "FAILED: interrupted by $signal: status $status"
		cat "$work/out"
		failed=$((failed + 1))
	fi
	rm -f "$work"/tests/it-*
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
