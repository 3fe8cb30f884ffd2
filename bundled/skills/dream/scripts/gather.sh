#!/bin/sh
# gather.sh [DOLLARS [ID]] prints digests of the newest sessions of this directory, as far as the limit pays for
# reading them, or more of one session. It changes nothing.
limit=${1:-0.50}
case $limit in
'' | *[!0-9.]* | *.*.* | .) echo "gather.sh: $limit is not a number of dollars" >&2; exit 2 ;;
esac
command -v knack >/dev/null 2>&1 || { echo "gather.sh: knack is not on PATH" >&2; exit 3; }
budget=$(awk -v d="$limit" 'BEGIN { b = d * 100000; if (b < 2000) b = 2000; if (b > 400000) b = 400000; printf "%d", b }')
each=6000 # bytes of one session

# digest prints what people said in a session, and what was refused or failed, from its Markdown.
digest() {
	knack session export "$1" --format md -o - 2>/dev/null | awk '
		/^```/ { code = !code; next }
		/^## / { who = substr($0, 4); if (who == "You") print "- user:"; next }
		code { if (tolower($0) ~ /was not run|denied|refused|error|failed|fatal|panic|not found|no such/ && n++ < 40)
			print "  ! " substr($0, 1, 200); next }
		/^- (Session|Directory|Written by)/ { next }
		who == "You" && NF { print "  " substr($0, 1, 400); next }
		/^\*.*(refused|not run|failed|error).*\*$/ && n++ < 40 { print "  ! " substr($0, 1, 200) }'
}

if [ -n "$2" ]; then
	text=$(digest "$2")
	[ -n "$text" ] || { echo "gather.sh: there is no session $2 in this directory" >&2; exit 1; }
	printf '%s\n' "$text" | head -c "$((budget < 40000 ? budget : 40000))"
	exit 0
fi
ids=$(knack session list --json | sed -n 's/^ *"id": *"\([^"]*\)".*/\1/p')
total=$(printf '%s\n' "$ids" | grep -c .)
[ "$total" -gt 0 ] || { echo "There are no sessions in this directory."; exit 0; }
used=0
shown=0
for id in $ids; do
	[ "$used" -lt "$budget" ] || break
	text=$(digest "$id" | head -c "$each")
	[ -n "$text" ] || continue
	printf '## session %s\n%s\n' "$id" "$text"
	used=$((used + ${#text}))
	shown=$((shown + 1))
done
echo "[$shown of $total sessions, about $used bytes of $budget that \$$limit pays for]"
