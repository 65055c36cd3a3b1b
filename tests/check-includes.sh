#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The dependency rule and its walls (docs/design.md, "Folders"): who may
# include whom, who may name a path, which calls old systems do not have.  A
# list of lines "file:line: what" and exit status 1 if something is wrong.
#
# usage: tests/check-includes.sh [DIR]
#
# Without DIR the tree this script lies in; and before it, the script itself:
# each violation is planted in a copy of a small clean tree and must be found.
set -uf # patterns are for case, not for files
here=$(cd "$(dirname "$0")" && pwd)

# Split, so that this file does not break the rule it checks.
foreign='(^|[^A-Za-z0-9_.~/-])/wor''k(/|[^A-Za-z0-9_-]|$)|\.\./share''d|/tmp/''h/'

c_files() {
	find . \( -name .git -o -name 'build*' -o -name data \) -prune -o \
		-name '*.[ch]' -type f -print | sed 's,^\./,,' | sort
}

# Every line of a C file without comments and without what strings say, but
# includes whole, as "file:line:text".
code_of() {
	awk '
	FNR == 1 { comment = 0 }
	{
		out = ""
		line = $0
		if (!comment && line ~ /^[ \t]*#[ \t]*include/) {
			sub(/\/\*.*/, "", line)
			sub(/\/\/.*/, "", line)
			print FILENAME ":" FNR ":" line
			next
		}
		n = length(line)
		quote = ""
		for (i = 1; i <= n; i++) {
			c = substr(line, i, 1)
			two = substr(line, i, 2)
			if (comment) {
				if (two == "*/") { comment = 0; i++ }
			} else if (quote != "") {
				if (c == "\\") i++
				else if (c == quote) { quote = ""; out = out c }
			} else if (two == "/*") { comment = 1; i++ }
			else if (two == "//") break
			else {
				if (c == "\"" || c == "\047") quote = c
				out = out c
			}
		}
		print FILENAME ":" FNR ":" out
	}' "$@"
}

# Whether FILE, of folder FROM, may include "TO/...".
check_layers() {
	sed -n 's/^\([^:]*:[0-9]*\):[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1 \2/p' |
	while read -r at what; do
		file=${at%:*}
		from=${file%%/*}
		to=${what%%/*}
		case $from:$to in
		poll:poll | evtchn:evtchn | evtchn:poll) ;;
		drivers:drivers | drivers:poll) ;;
		ring:ring | ring:drivers | ring:evtchn | ring:poll) ;;
		tools:ring | tools:drivers | tools:evtchn | tools:poll) ;;
		tests:*) ;;
		tools:tools)
			# a program knows itself and the control wire
			program=${file#tools/}
			program=${program%%/*}
			case $what in
			tools/ctl/* | "tools/$program"/*) ;;
			*) echo "$at: tools/$program includes \"$what\"" ;;
			esac
			;;
		*) echo "$at: $from/ includes \"$what\"" ;;
		esac
		[ -f "$what" ] ||
			echo "$at: \"$what\" is not a path from the root"
	done
}

# Whether FILE may include <HEADER>.
check_libraries() {
	sed -n 's/^\([^:]*:[0-9]*\):[ \t]*#[ \t]*include[ \t]*<\([^>]*\)>.*/\1 \2/p' |
	while read -r at header; do
		file=${at%:*}
		case $header in
		xen/*) allowed='ring/* tools/tapback/* tests/*' ;;
		xen*.h | xs.h)
			allowed='evtchn/guest_xen.c tools/tapback/* tests/domain_xen.c tests/xenlab/*' ;;
		libaio.h) allowed='drivers/aio.[ch]' ;;
		json-c/* | json.h) allowed='tools/* tests/*' ;;
		check.h | sqlite3.h) allowed='tests/*' ;;
		threads.h | sys/random.h | sys/single_threaded.h)
			allowed= ;; # newer than glibc 2.17
		*) continue ;;
		esac
		for pattern in $allowed; do
			# shellcheck disable=SC2254 # a pattern it is
			case $file in $pattern) continue 2 ;; esac
		done
		echo "$at: <$header> does not belong here"
	done
}

# A call of one of NAMES: not a method (->open, .open), not a declaration of a
# pointer ((*open)(...)), not part of a longer name.
calls() {
	grep -E "(^[^:]*:[0-9]*:|[^A-Za-z0-9_.>])($1)[ \t]*\(" || true
}

# Names a path or makes a socket: poll/host.c's, and of programs that keep
# their rights.
check_paths() {
	grep -vE '^(poll/host\.c|tools/ctl/client\.c|tests/[^:]*):' |
	grep -E '^(poll|evtchn|drivers|ring|tools/ctl|tools/tapdisk)/' |
	calls 'open|openat|openat2|creat|fopen|opendir|shm_open|socket|connect|bind|unlink|unlinkat|mkdir|mkdirat|rename|renameat|rmdir' |
	sed 's/$/  [only poll\/host.c names a path or makes a socket]/'
}

check_new_calls() {
	calls 'memfd_create|statx|epoll_pwait2|getrandom|getentropy|copy_file_range|preadv2|pwritev2|gettid|renameat2|close_range|mlock2|explicit_bzero|reallocarray|pthread_cond_clockwait|sem_clockwait|strlcpy|strlcat|thrd_create|call_once' |
	sed 's/$/  [not in glibc 2.17: by syscall number, with a fallback]/'
}

check_conditionals() {
	grep -E '^[^:]*\.c:[0-9]*:[ \t]*#[ \t]*(if|ifdef|ifndef)' |
	sed 's/$/  [no #ifdef in .c files]/'
}

check_text() {
	local files file
	c_files | while read -r file; do
		head -n 1 "$file" | grep -qF \
			'/* SPDX-License-Identifier: BSD-3-Clause */' ||
			echo "$file:1: no SPDX line"
	done
	if [ -d .git ]; then
		files=$(git ls-files -co --exclude-standard)
	else
		files=$(find . -type f | sed 's,^\./,,')
	fi
	tr '\n' '\0' <<<"$files" | xargs -0 grep -InE -- "$foreign" /dev/null |
		sed 's/$/  [a path of one machine]/'
}

# The whole check of the tree in DIR: prints what is wrong.
check_tree() (
	cd "$1" || exit
	files=$(c_files)
	if [ -n "$files" ]; then
		# shellcheck disable=SC2086 # a list; no file has a space
		code=$(code_of $files)
		check_layers <<<"$code"
		check_libraries <<<"$code"
		check_paths <<<"$code"
		check_new_calls <<<"$code"
		check_conditionals <<<"$code"
	fi
	check_text
)

# --- the check of the check

passed=0
failed=0
work=

clean_tree() {
	rm -rf "$work/t"
	mkdir -p "$work"/t/{poll,evtchn,drivers,ring,tests/data} \
		"$work"/t/tools/{ctl,tapdisk,tap-ctl,tapback}
	(
		cd "$work/t" || exit
		for file in poll/host.c poll/host.h poll/log.h poll/wait.c \
			evtchn/guest.h evtchn/guest_xen.c drivers/driver.h \
			drivers/aio.c drivers/raw.c ring/vbd.h ring/abi.h \
			ring/ring.c tools/ctl/wire.h tools/ctl/client.c \
			tools/ctl/server.c tools/tapdisk/main.c \
			tools/tapdisk/args.h tools/tap-ctl/main.c \
			tools/tapback/main.c tests/frontend.h tests/test_a.c; do
			echo '/* SPDX-License-Identifier: BSD-3-Clause */' \
				>"$file"
		done
		# What is allowed, and what looks like a call and is none.
		echo 'fd = open(path, flags);' >>poll/host.c
		echo '#include <xengnttab.h>' >>evtchn/guest_xen.c
		echo '#include <libaio.h>' >>drivers/aio.c
		printf '%s\n' '#include <xen/io/blkif.h>' '#include "poll/log.h"' \
			'#include "drivers/driver.h"' '#include "evtchn/guest.h"' \
			'ops->open(x); ops.bind(x);' 'int (*open)(const char *);' \
			'.open = raw_open,' '/* open(2) it, then connect(2) */' \
			'log_err("open(%s)", s); // bind(3)' 'err = vbd_open(v);' \
			'host_unlink(path); wait_epoll_pwait2(1);' \
			'/*' ' * mkdir (it)' ' * #ifdef this' ' */' \
			"c = '\"'; d = '\\''; e = \"\\\"open(\";" >>ring/ring.c
		echo '#include "tools/ctl/wire.h"' >>tools/tap-ctl/main.c
		echo 'connect(fd, a, b); unlink(p);' >>tools/tap-ctl/main.c
		echo 'socket(a, b, c);' >>tools/ctl/client.c
		echo '#include "tools/tapdisk/args.h"' >>tools/tapdisk/main.c
		echo '#include <xenstore.h>' >>tools/tapback/main.c
		echo '#include <json-c/json.h>' >>tools/ctl/server.c
		printf '%s\n' '#include "tests/frontend.h"' '#include <check.h>' \
			'#include "ring/vbd.h"' 'open(a); socket(b);' \
			>>tests/test_a.c
		printf '#ifdef X\n#endif\n' >>poll/log.h
		echo 'see drivers/worker.c' >README.md
	)
}

# planted FILE LINE: one more line, at which the check must point
planted() {
	mkdir -p "$(dirname "$work/t/$1")"
	printf '%s\n' "$2" >>"$work/t/$1"
	echo "$1:$(wc -l <"$work/t/$1"): $2" >>"$work/wanted"
}

check_itself() {
	local out name file line text
	clean_tree
	out=$(check_tree "$work/t")
	if [ -z "$out" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED: a clean tree:\n%s\n' "$out"
	fi
	planted poll/wait.c '#include "drivers/driver.h"'
	planted poll/wait.c '#include "ring/vbd.h"'
	planted evtchn/guest.h '#include "drivers/driver.h"'
	planted drivers/raw.c '#include "evtchn/guest.h"'
	planted drivers/raw.c '#include "ring/vbd.h"'
	planted ring/ring.c '#include "tools/ctl/wire.h"'
	planted ring/ring.c '#include "tests/frontend.h"'
	planted tools/tapdisk/main.c '#include "tests/frontend.h"'
	planted tools/tap-ctl/main.c '#include "tools/tapdisk/args.h"'
	planted tools/ctl/server.c '#include "tools/tapdisk/args.h"'
	planted tests/test_a.c '#include "tests/missing.h"'
	planted evtchn/guest.h '#include <xenevtchn.h>'
	planted tools/tapdisk/main.c '#include <xenctrl.h>'
	planted tests/test_a.c '# include <xengnttab.h>'
	planted evtchn/guest_xen.c '#include <xen/io/ring.h>'
	planted drivers/raw.c '#include <xen/xen.h>'
	planted drivers/raw.c '#include <libaio.h>'
	planted ring/ring.c '#include <json-c/json.h>'
	planted tools/tapdisk/main.c '#include <sqlite3.h>'
	planted poll/wait.c '#include <sys/random.h>'
	planted drivers/raw.c '#include <json.h>'
	for name in open openat socket connect bind unlink mkdir rename; do
		planted drivers/raw.c "	if ($name(a, b) < 0)"
		planted tools/tapdisk/main.c "$name (a);"
	done
	planted tools/ctl/server.c 'fd=socket(a, b, c);'
	planted ring/ring.c '/* a */ unlink(b); /* c */'
	for name in memfd_create statx epoll_pwait2 getrandom copy_file_range \
		preadv2 pwritev2; do
		planted poll/host.c "	return $name(a);"
		planted tests/test_a.c "	$name(a);"
	done
	planted poll/wait.c '#ifdef __x86_64__'
	planted poll/wait.c '# if 0'
	planted docs/a.md 'as in /wor''k/main'
	planted tests/data/a.txt 'see ../share''d/design.md'
	echo 'int x;' >"$work/t/ring/bare.c"
	echo 'ring/bare.c:1: int x;' >>"$work/wanted"

	# All at once, because it is one pass over the tree.
	check_tree "$work/t" >"$work/found"
	while IFS=: read -r file line text; do
		if grep -q "^$file:$line:" "$work/found"; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			echo "FAILED: not found: $file:$line:$text"
		fi
	done <"$work/wanted"
	if [ "$(wc -l <"$work/found")" != "$(wc -l <"$work/wanted")" ]; then
		failed=$((failed + 1))
		echo "FAILED: found more, or something twice:"
		cut -d : -f 1,2 "$work/wanted" | grep -vFf - "$work/found"
		cut -d : -f 1,2 "$work/found" | sort | uniq -d
	fi
}

if [ $# -gt 0 ]; then
	wrong=$(check_tree "$1")
	[ -z "$wrong" ] || printf '%s\n' "$wrong"
	[ -z "$wrong" ]
	exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check_itself
wrong=$(check_tree "$here/..")
if [ -z "$wrong" ]; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	printf '%s\n' "$wrong"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
