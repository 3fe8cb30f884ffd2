#!/bin/sh
# report.sh FILE [NAME]: writes NAME.md and NAME.svg about a CSV file, and prints the largest groups.
# The first line holds the names of the columns. Quoted fields may hold commas
# and doubled quotes, not line ends.
set -eu

file=${1:-}
name=${2:-report}
if [ -z "$file" ]; then
	echo "usage: report.sh FILE [NAME]" >&2
	exit 2
fi
if [ ! -r "$file" ]; then
	echo "$file: cannot be read" >&2
	exit 1
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

LC_ALL=C FILE=$file NAME=$name TMP=$tmp awk '
function fields(line, out,   n, i, c, quoted, cur) {
	n = 0; cur = ""; quoted = 0
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		if (quoted) {
			if (c != "\"") cur = cur c
			else if (substr(line, i + 1, 1) == "\"") { cur = cur "\""; i++ }
			else quoted = 0
		} else if (c == "\"") quoted = 1
		else if (c == ",") { out[++n] = cur; cur = "" }
		else cur = cur c
	}
	if (quoted) return -1
	out[++n] = cur
	return n
}
function number(s) { return s ~ /^[ \t]*[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?[ \t]*$/ }
# plain writes a number; with two, always with two decimals, so that a column aligns.
function plain(v, two) { return !two && v == int(v) && v < 1e15 && v > -1e15 ? sprintf("%d", v) : sprintf("%.2f", v) }
function width(s) { gsub(/[\200-\277]/, "", s); return length(s) } # letters, not bytes
function left(s, w) { while (width(s) < w) s = s " "; return s }
function right(s, w) { while (width(s) < w) s = " " s; return s }
function dashes(n,   s) { while (n-- > 0) s = s "-"; return s }
function count(n, what) { return n " " what (n == 1 ? "" : "s") }
# table writes the cells T[0, 1] to T[rows, cols] to a file, aligned; row 0 is the heading.
function table(rows, cols, file,   r, c, w, line) {
	for (c = 1; c <= cols; c++) {
		w[c] = 3
		for (r = 0; r <= rows; r++) if (width(T[r, c]) > w[c]) w[c] = width(T[r, c])
	}
	for (r = 0; r <= rows; r++) {
		line = "|"
		for (c = 1; c <= cols; c++) line = line " " (c == 1 ? left(T[r, c], w[c]) : right(T[r, c], w[c])) " |"
		print line > file
		if (r > 0) continue
		line = "|"
		for (c = 1; c <= cols; c++) line = line " " (c == 1 ? dashes(w[c]) : dashes(w[c] - 1) ":") " |"
		print line > file
	}
}
function cell(s) { gsub(/\|/, "\\|", s); return s }
function xml(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s); return s }
function die(why) { print ENVIRON["FILE"] ":" NR ": " why > "/dev/stderr"; failed = 1; exit 1 }

{ sub(/\r$/, "") }
NR == 1 {
	sub(/^\357\273\277/, "")
	cols = fields($0, head)
	if (cols < 1) die("a quote is not closed")
	for (i = 1; i <= cols; i++) numeric[i] = 1
	next
}
$0 == "" { next }
{
	n = fields($0, f)
	if (n < 0) die("a quote is not closed")
	if (n != cols) die("this line has " count(n, "field") ", the first line has " cols)
	rows++
	for (i = 1; i <= cols; i++) {
		v[rows, i] = f[i]
		if (f[i] == "") empty[i]++
		else if (!number(f[i])) numeric[i] = 0
	}
}
END {
	if (failed) exit 1
	if (!rows) { print ENVIRON["FILE"] ": there are no rows" > "/dev/stderr"; exit 1 }
	group = value = 0
	for (i = 1; i <= cols; i++) {
		if (empty[i] == rows) numeric[i] = 0
		if (numeric[i] && !value) value = i
		if (!numeric[i] && !group && empty[i] < rows) group = i
	}
	md = ENVIRON["TMP"] "/md"; svg = ENVIRON["TMP"] "/svg"
	print "# Report on " ENVIRON["FILE"] "\n" > md
	print count(rows, "row") ", " count(cols, "column") ".\n" > md
	n = split("column values empty sum mean min max", f, " ")
	for (j = 1; j <= n; j++) T[0, j] = f[j]
	for (i = 1; i <= cols; i++) {
		T[i, 1] = cell(head[i]); T[i, 2] = rows - empty[i]; T[i, 3] = empty[i] + 0
		if (!numeric[i]) continue
		sum = 0; min = max = ""
		for (r = 1; r <= rows; r++) {
			if (v[r, i] == "") continue
			x = v[r, i] + 0; sum += x
			if (x != int(x)) two[i] = 1
			if (min == "" || x < min) min = x
			if (max == "" || x > max) max = x
		}
		T[i, 4] = plain(sum, two[i]); T[i, 5] = plain(sum / (rows - empty[i]), 1)
		T[i, 6] = plain(min, two[i]); T[i, 7] = plain(max, two[i])
	}
	table(cols, n, md)
	if (!value) { print "\nNo column holds numbers only, so there is no chart." > md; exit }
	for (r = 1; r <= rows; r++) {
		k = group ? v[r, group] : "row " r
		if (k == "") k = "(empty)"
		if (!(k in total)) order[++groups] = k
		total[k] += v[r, value]
	}
	for (i = 2; i <= groups; i++) { # largest first
		k = order[i]
		for (j = i - 1; j > 0 && total[order[j]] < total[k]; j--) order[j + 1] = order[j]
		order[j + 1] = k
	}
	by = group ? head[group] : "row"
	print "\n## " head[value] " by " by "\n\n![" head[value] " by " by "](" ENVIRON["NAME"] ".svg)\n" > md
	T[0, 1] = cell(by); T[0, 2] = cell(head[value])
	for (i = 1; i <= groups; i++) { T[i, 1] = cell(order[i]); T[i, 2] = plain(total[order[i]], two[value]) }
	table(groups, 2, md)

	shown = groups > 20 ? 20 : groups
	table(shown, 2, ENVIRON["TMP"] "/shown")
	top = 0
	for (i = 1; i <= shown; i++) { x = total[order[i]]; if (x < 0) x = -x; if (x > top) top = x }
	if (!top) top = 1
	print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"" 44 + 26 * shown "\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">" > svg
	print "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>" > svg
	print "<text x=\"10\" y=\"22\" font-weight=\"bold\">" xml(head[value] " by " by) "</text>" > svg
	for (i = 1; i <= shown; i++) {
		x = total[order[i]]; w = (x < 0 ? -x : x) / top * 360; y = 36 + 26 * (i - 1)
		label = order[i]
		if (length(label) > 24) { # bytes: cut no letter in two
			label = substr(label, 1, 22); sub(/[\300-\367][\200-\277]*$/, "", label); label = label "…"
		}
		printf "<text x=\"170\" y=\"%d\" text-anchor=\"end\">%s</text>", y + 15, xml(label) > svg
		printf "<rect x=\"178\" y=\"%d\" width=\"%.1f\" height=\"18\" fill=\"%s\"/>", y, w, x < 0 ? "#c0392b" : "#2c7fb8" > svg
		printf "<text x=\"%.1f\" y=\"%d\">%s</text>\n", 184 + w, y + 15, plain(x, two[value]) > svg
	}
	print "</svg>" > svg
	print "largest " by ": " order[1] " (" head[value] " " plain(total[order[1]], two[value]) ")"
	print count(rows, "row") ", " count(groups, "group")
}
' <"$file"

[ ! -e "$tmp/shown" ] || cat "$tmp/shown"
mv "$tmp/md" "$name.md"
echo "wrote $name.md"
if [ -e "$tmp/svg" ]; then
	mv "$tmp/svg" "$name.svg"
	echo "wrote $name.svg"
fi
