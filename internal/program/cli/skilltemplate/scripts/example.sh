#!/bin/sh
# example.sh WORD…: prints its arguments, one a line.
set -eu
for word; do
	printf '%s\n' "$word"
done
