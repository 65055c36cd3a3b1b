#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Every C file looks as .clang-format says, the manual pages are clean, and
# the scripts parse.
set -u
cd "$(dirname "$0")/.." || exit

for tool in clang-format mandoc; do
	command -v $tool >/dev/null || {
		echo "$tool is not installed"
		exit 77
	}
done

passed=0
failed=0

try() {
	local out
	if out=$("${@:2}" 2>&1); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED: %s\n%s\n' "$1" "$out"
	fi
}

sources() {
	find . \( -name .git -o -name 'build*' -o -name data \) -prune -o \
		-type f "$@" -print | sed 's,^\./,,' | sort
}

for file in $(sources -name '*.[ch]'); do
	try "$file" clang-format --dry-run -Werror "$file"
done

# In their own folder, where lint finds the other pages they refer to.
for page in docs/*.8; do
	try "$page" env -C docs mandoc -Tlint "${page#docs/}"
done

for file in $(sources -perm -u+x); do
	case $(head -n 1 "$file") in
	*python3) try "$file" python3 -c \
		'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file" ;;
	*bash) try "$file" bash -n "$file" ;;
	*sh) try "$file" sh -n "$file" ;;
	esac
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
