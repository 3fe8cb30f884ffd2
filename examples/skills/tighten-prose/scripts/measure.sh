#!/bin/sh
# measure.sh FILE: words, sentences, mean length and the longest sentences of
# a text. Code blocks, headings and tables do not count.
set -eu
if [ $# -ne 1 ] || [ ! -r "$1" ]; then
	echo "usage: measure.sh FILE" >&2
	exit 2
fi
awk '
/^```/ { code = !code; next }
code || /^#/ || /^\|/ { flush(); next }
/^[ \t]*$/ { flush(); next }
{ text = text " " $0 }
END { flush(); report() }
function flush(   n, i, w, s) {
	n = split(text, w, /[ \t]+/); s = ""; len = 0
	for (i = 1; i <= n; i++) {
		if (w[i] == "") continue
		s = s (s == "" ? "" : " ") w[i]; len++
		if (w[i] ~ /[.!?]["\047)]*$/) { keep(s, len); s = ""; len = 0 }
	}
	if (len) keep(s, len)
	text = ""
}
function keep(s, len) { words += len; size[++count] = len; said[count] = s }
function report(   i, j, best) {
	if (!count) { print "no sentences"; exit }
	printf "words %d, sentences %d, mean %.1f\n", words, count, words / count
	for (j = 1; j <= 5 && j <= count; j++) {
		best = 0
		for (i = 1; i <= count; i++) if (!used[i] && (!best || size[i] > size[best])) best = i
		used[best] = 1
		if (size[best] > 18) printf "%d words: %s\n", size[best], said[best]
	}
}
' <"$1"
