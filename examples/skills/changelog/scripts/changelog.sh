#!/bin/sh
# changelog.sh [FROM] [FILE]: writes the commits since FROM (else since the
# last tag, else all) as the section "Unreleased" of CHANGELOG.md.
set -eu

from=${1:-}
file=${2:-CHANGELOG.md}
if [ -z "$from" ]; then
	from=$(git describe --tags --abbrev=0 2>/dev/null || true)
elif ! git rev-parse --quiet --verify --end-of-options "$from^{commit}" >/dev/null; then
	echo "$from: no such tag or commit" >&2
	exit 1
fi
range=HEAD
[ -z "$from" ] || range="$from..HEAD"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

git log --no-merges --format='%h%x09%s' "$range" -- >"$tmp/log"
if [ ! -s "$tmp/log" ]; then
	echo "nothing to write: no commits${from:+ since $from}"
	exit 0
fi
day=$(git log -1 --format=%cd --date=short)

awk -F '\t' -v from="$from" -v day="$day" '
{
	s = $2; kind = "Changed"
	if (match(s, /^(feat|fix|perf|docs|test|ci|chore|style|refactor|build|revert)(\([^)]*\))?!?: /)) {
		type = substr(s, 1, RLENGTH - 2); s = substr(s, RLENGTH + 1)
		if (type ~ /!$/) kind = "Breaking"
		else if (type ~ /^feat/) kind = "Added"
		else if (type ~ /^fix/) kind = "Fixed"
		else if (type ~ /^(docs|test|ci|chore|style|refactor|build)/) kind = "Internal"
	} else if (s ~ /^[Aa]dd/) kind = "Added"
	else if (s ~ /^[Ff]ix/) kind = "Fixed"
	else if (s ~ /^[Rr]emove/) kind = "Removed"
	if (s !~ /^[^ ]+: /) s = toupper(substr(s, 1, 1)) substr(s, 2) # "area: …" stays
	lines[kind] = lines[kind] "- " s " (" $1 ")\n"
	n++
}
END {
	print "## Unreleased (" day (from == "" ? "" : ", since " from) ")\n"
	split("Breaking Added Changed Fixed Removed Internal", kinds, " ")
	for (i = 1; i <= 6; i++) if (lines[kinds[i]] != "") printf "### %s\n\n%s\n", kinds[i], lines[kinds[i]]
}
' "$tmp/log" >"$tmp/section"

{
	echo "# Changelog"
	echo
	cat "$tmp/section"
	if [ -e "$file" ]; then
		# The rest, without its title and without the old section.
		awk '/^# /&&!seen{seen=1; next} /^## Unreleased/{skip=1; next} /^## /{skip=0} !skip' "$file" | sed '/./,$!d'
	fi
} >"$tmp/new"
cat "$tmp/new" >"$file"
n=$(wc -l <"$tmp/log" | tr -d ' ')
commits=commits
[ "$n" != 1 ] || commits=commit
echo "wrote $file: $n $commits${from:+ since $from}"
cat "$tmp/section"
