#!/bin/sh
# changelog.sh [FROM] [FILE]: writes the commits since FROM (else since the
# last tag, else all) as a section of CHANGELOG.md, between two marks.
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

begin='<!-- changelog: begin; what stands up to the end mark is replaced -->'
end='<!-- changelog: end -->'
{
	printf '%s\n' "$begin"
	cat "$tmp/section"
	printf '%s\n' "$end"
} >"$tmp/block"

# Only what stands between the marks is replaced. Without marks, the block goes above the first section, so that a
# section written by hand stays as it is.
[ -e "$file" ] || printf '# Changelog\n\n' >"$tmp/empty"
old=$file
[ -e "$file" ] || old=$tmp/empty
awk -v begin="$begin" -v end="$end" -v block="$tmp/block" '
function put() { while ((getline l <block) > 0) print l; done = 1 }
FNR == NR { t = $0; sub(/\r$/, "", t); if (t == begin) begins++; if (t == end) { ends++; if (ends > begins) bad = 1 }; next }
FNR == 1 && (bad || begins != ends || begins > 1) { exit 3 }
{ t = $0; sub(/\r$/, "", t) }
t == begin { inside = 1; put(); next }
inside { if (t == end) inside = 0; next }
!begins && !done && /^## / { put(); print "" }
{ print }
END { if (!done) put() }
' "$old" "$old" >"$tmp/new" || {
	echo "$file: its marks do not fit together: remove them, or bring back the one that is missing" >&2
	exit 1
}
cat "$tmp/new" >"$file"
n=$(wc -l <"$tmp/log" | tr -d ' ')
commits=commits
[ "$n" != 1 ] || commits=commit
echo "wrote $file: $n $commits${from:+ since $from}"
cat "$tmp/section"
