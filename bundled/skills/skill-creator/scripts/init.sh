#!/bin/sh
# init.sh NAME [DIRECTORY]: makes DIRECTORY/NAME with a SKILL.md to fill in.
# Needs nothing but a POSIX shell.
set -eu

fail() {
	echo "init.sh: error: $1" >&2
	echo "init.sh: hint: $2" >&2
	exit 1
}

[ $# -ge 1 ] && [ $# -le 2 ] || fail "a name is needed" "sh init.sh release-notes .claude/skills"
name=$1
parent=${2:-.}

case $name in
'' | -* | *- | *--* | *[!a-z0-9-]*) fail "the name '$name' is not of a-z, 0-9 and single hyphens between them" "sh init.sh my-skill" ;;
esac
[ ${#name} -le 64 ] || fail "the name has more than 64 characters" "choose a shorter one"

dir=$parent/$name
[ ! -e "$dir" ] && [ ! -h "$dir" ] || fail "$dir is already there" "choose another name, or change the skill that is there"
mkdir -p -- "$parent"
mkdir -- "$dir" "$dir/scripts" "$dir/references"

cat >"$dir/SKILL.md" <<EOF
---
name: $name
description: WHAT IT DOES. Use when WHICH REQUESTS.
---
# $name

## Overview

What comes out, in a sentence or two.

## Instructions

1. The first step.
2. The next step, and what to do if it fails.

## Output

What the answer or the files look like.

## Examples

A request, and what is done for it.
EOF
echo "made $dir/SKILL.md"
echo "next: fill in description and Instructions, and remove scripts/ and references/ if they stay empty"
