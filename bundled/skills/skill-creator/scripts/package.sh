#!/bin/sh
# package.sh DIRECTORY [FILE]: checks a skill and writes it as NAME.skill, a
# zip file with the skill's directory in it.
# Needs knack, zip or python3.
set -eu

dir=${1-}
if [ -z "$dir" ]; then
	echo "package.sh: error: which skill?" >&2
	echo "package.sh: hint: sh package.sh .claude/skills/pdf" >&2
	exit 2
fi
case $dir in -*) dir=./$dir ;; esac
here=$(cd -- "$(dirname -- "$0")" && pwd)
dir=$(cd -- "$dir" && pwd)
name=$(basename -- "$dir")
out=${2:-$name.skill}
case $out in /*) ;; *) out=$(pwd)/$out ;; esac

if [ -e "$out" ]; then
	echo "package.sh: error: $out is already there" >&2
	echo "package.sh: hint: remove it, or name another file" >&2
	exit 1
fi
if command -v knack >/dev/null 2>&1; then
	exec knack skill pack "$dir" --output "$out"
fi
sh "$here/validate.sh" "$dir"

links=$(find "$dir" -type l)
if [ -n "$links" ]; then
	echo "package.sh: error: links cannot be packed: $links" >&2
	echo "package.sh: hint: put copies of the files in their place" >&2
	exit 1
fi
cd -- "$dir/.."
if command -v zip >/dev/null 2>&1; then
	zip -q -r -X "$out" "$name" -x '*/.*' '*/node_modules/*' '*/__pycache__/*'
elif command -v python3 >/dev/null 2>&1; then
	python3 - "$name" "$out" <<'EOF'
import os, sys, zipfile
name, out = sys.argv[1:]
with zipfile.ZipFile(out, "x", zipfile.ZIP_DEFLATED) as z:
    for top, dirs, files in os.walk(name):
        dirs[:] = sorted(d for d in dirs if d[0] != "." and d not in ("node_modules", "__pycache__"))
        for f in sorted(files):
            if f[0] != ".":
                z.write(os.path.join(top, f))
EOF
else
	echo "package.sh: error: neither knack nor zip nor python3 is here" >&2
	echo "package.sh: hint: install zip" >&2
	exit 1
fi
echo "wrote $out"
