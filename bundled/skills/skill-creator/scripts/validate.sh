#!/bin/sh
# validate.sh DIRECTORY: holds a skill against the open specification.
# Exit 0: it keeps it; 1: it does not; 2: it cannot be read.
# Uses `knack skill check` where knack is installed, else awk and find.
set -eu

dir=${1-}
if [ -z "$dir" ]; then
	echo "validate.sh: error: which skill?" >&2
	echo "validate.sh: hint: sh validate.sh .claude/skills/pdf" >&2
	exit 2
fi
dir=${dir%/}
case $dir in -*) dir=./$dir ;; esac
if command -v knack >/dev/null 2>&1; then
	exec knack skill check "$dir"
fi

file=
for f in "$dir/SKILL.md" "$dir"/[Ss][Kk][Ii][Ll][Ll].[Mm][Dd]; do
	[ -f "$f" ] && file=$f && break
done
if [ -z "$file" ]; then
	echo "$dir: error: there is no SKILL.md" >&2
	exit 2
fi

base=$(cd -- "$dir" && basename -- "$(pwd)")
# Lengths are counted in characters of UTF-8, by every awk: bytes without those that continue one.
LC_ALL=C BASE=$base FILE=$file awk '
function say(kind, line, text) { printf "%s:%d: %s: %s\n", ENVIRON["FILE"], line, kind, text; if (kind == "error") errors++ }
function characters(s) { gsub(/[\200-\277]/, "", s); return length(s) }
function value(s) {
	sub(/^[A-Za-z_-]+:[ \t]*/, "", s)
	sub(/[ \t\r]+$/, "", s)
	if (s ~ /^".*"$/ || s ~ /^\047.*\047$/) s = substr(s, 2, length(s) - 2)
	return s
}
{ sub(/\r$/, "") }
NR == 1 { sub(/^\357\273\277/, "") }
NR == 1 && !/^---[ \t]*$/ { say("error", 1, "there is no frontmatter: the first line is not ---"); closed = 1; next }
!closed && NR > 1 && /^---[ \t]*$/ { closed = 1; end = NR; next }
!closed && /^name:/ { name = value($0); nameLine = NR }
!closed && /^description:/ { description = value($0); descriptionLine = NR; more = (description ~ /^[>|]/ || description == ""); if (more) description = ""; next }
!closed && more && /^[ \t]+[^ \t]/ { s = $0; gsub(/^[ \t]+|[ \t]+$/, "", s); description = description (description == "" ? "" : " ") s; next }
!closed { more = 0 }
!closed && /^compatibility:/ && characters(value($0)) > 500 { say("error", NR, "compatibility has more than 500 characters") }
closed { body++ }
END {
	if (!closed) say("error", 1, "the frontmatter is not closed by a line of ---")
	if (name == "") say("error", 1, "name is missing")
	else {
		if (name !~ /^[a-z0-9]+(-[a-z0-9]+)*$/) say("error", nameLine, "the name is not of a-z, 0-9 and single hyphens between them")
		if (length(name) > 64) say("error", nameLine, "the name has more than 64 characters")
		if (name != ENVIRON["BASE"]) say("error", nameLine, "the name is " name ", the directory " ENVIRON["BASE"])
	}
	if (description == "") say("error", 1, "description is missing")
	if (characters(description) > 1024) say("error", descriptionLine, "the description has more than 1,024 characters")
	if (description ~ /^[ -~]+$/ && tolower(description) !~ /when|before|after|trigger|use (for|this)/) say("warning", descriptionLine, "the description says what, but not when")
	if (body > 500) say("warning", end, "the text has more than 500 lines; move parts to references/")
	exit errors > 0
}' <"$file" || exit 1

if [ -d "$dir/scripts" ]; then
	find "$dir/scripts" -type f ! -perm -100 -exec sh -c '
		for f; do
			read -r first <"$f" || continue
			case $first in "#!"*) echo "$f: warning: begins with #! but cannot be run: chmod +x" ;; esac
		done' sh {} +
fi
echo "$dir: keeps the specification"
