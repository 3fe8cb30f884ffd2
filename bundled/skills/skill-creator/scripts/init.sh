#!/bin/sh
# init.sh NAME [DIRECTORY]: makes DIRECTORY/NAME with a SKILL.md to fill in, and an example each of a script, a
# reference and an asset, as `knack skill new` does.
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
mkdir -- "$dir" "$dir/scripts" "$dir/references" "$dir/assets"

title=$(printf '%s' "$name" | tr - ' ')
first=$(printf '%s' "$title" | cut -c 1 | tr a-z A-Z)
title=$first$(printf '%s' "$title" | cut -c 2-)

cat >"$dir/SKILL.md" <<EOF
---
name: $name
description: Says in one sentence what this skill does. Use when somebody asks for it, in the words that people use.
---
# $title

## Overview

What comes out of this skill, and for whom.

## Prerequisites

Programs, files or access that the steps need, and how to see whether they are there. Remove this part if there are none.

## Instructions

1. The first step. Say what to run or read, and why where it is not plain.
2. The next step.
3. How to check the result.

## Output Format

What the answer or the files look like.

## Error Handling

What goes wrong, how it shows, and what to do then.

## Examples

A request as a person would write it, and what is done for it.

## Resources

- [scripts/example.sh](scripts/example.sh): prints its arguments; replace it by a step that must come out the same every time, or remove it.
- [references/example.md](references/example.md): what is needed in some cases only; say here in which.
- [assets/example.txt](assets/example.txt): a file that is copied into the result.
EOF
cat >"$dir/scripts/example.sh" <<'EOF'
#!/bin/sh
# example.sh WORD…: prints its arguments, one a line.
set -eu
for word; do
	printf '%s\n' "$word"
done
EOF
cat >"$dir/references/example.md" <<'EOF'
# Example

What is needed in some cases only stands in a file like this, so that the others do not pay for it.
EOF
cat >"$dir/assets/example.txt" <<'EOF'
A template, picture or font that is copied into the result.
EOF
chmod -- +x "$dir/scripts/example.sh"
echo "made $dir with SKILL.md, scripts/example.sh, references/example.md and assets/example.txt"
echo "next: fill in SKILL.md, and remove the examples that the skill does not need"
