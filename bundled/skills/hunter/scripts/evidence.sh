#!/bin/sh
# evidence.sh 'PATH:LINE:words' ... checks that words stand in a line of a file. It exits with 1 if any does not.
[ $# -gt 0 ] || { echo "usage: evidence.sh 'PATH:LINE:words that stand there' ..." >&2; exit 2; }
wrong=0
nl='
'
for claim do
	path=${claim%%:*}
	rest=${claim#*:}
	line=${rest%%:*}
	words=${rest#*:}
	case $line in
	'' | 0* | *[!0-9]*) echo "malformed  $claim (want PATH:LINE:words)"; wrong=1; continue ;;
	esac
	if [ "$rest" = "$line" ] || [ -z "$words" ]; then
		echo "malformed  $claim (the words are missing)"; wrong=1; continue
	fi
	case $words in
	*"$nl"*) echo "malformed  $path:$line (the words must be of one line)"; wrong=1; continue ;;
	esac
	file=$path
	case $file in -*) file=./$file ;; esac
	if [ ! -f "$file" ]; then
		echo "no file    $path"; wrong=1; continue
	fi
	text=$(sed -n "${line}p" "$file")
	case $text in
	*"$words"*) echo "ok         $path:$line" ;;
	*)
		wrong=1
		at=$(grep -nF -- "$words" "$file" | head -n 3 | cut -d: -f1 | tr '\n' ' ')
		echo "wrong      $path:$line has: $text"
		[ -n "$at" ] && echo "           the words stand in line $at"
		;;
	esac
done
exit $wrong
