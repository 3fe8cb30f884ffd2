#!/bin/sh
# detect.sh [DIRECTORY]: prints how the parts of a project are built, tested and run, and which file says so.
# It reads files only. Exit 0: something was found; 1: nothing; 2: there is no such directory.
set -u

dir=${1:-.}
case $dir in -*) dir=./$dir ;; esac
cd -- "$dir" 2>/dev/null || {
	echo "detect.sh: error: there is no directory $dir" >&2
	exit 2
}
found=0

say() { # KIND DIRECTORY FILE
	found=1
	printf '%s  %s  (%s)\n' "$1" "$2" "$3"
}
line() { [ -z "$2" ] || printf '  %-6s %s\n' "$1" "$2"; }

# The text of a file without comments of the shell kind.
text() { sed 's/[[:space:]]#.*$//; s/^#.*$//' "$1" 2>/dev/null; }

# Whether a directory below a module belongs to it, and not to a module of its own.
inside() { # MODULE DIRECTORY
	at=$2
	while [ "$at" != "$1" ]; do
		[ ! -f "$at/go.mod" ] || return 1
		at=${at%/*}
	done
}

go_part() {
	say go "$1" "$1/go.mod"
	line build "go build ./..."
	line test "go test ./..."
	grep -rl --include='*.go' '^package main' "$1" 2>/dev/null | grep -v _test.go | sed 's|/[^/]*$||' | sort -u | head -n 10 |
		while IFS= read -r main; do
			inside "$1" "$main" || continue
			rel=${main#"$1"}
			line run "go run .${rel}"
		done
}

script() { # FILE NAME: whether package.json has a script
	# Without the values, which may have quotes and braces.
	sed 's/\\.//g; s/:[[:space:]]*"[^"]*"/: ""/g' "$1" | sed -n '/"scripts"[[:space:]]*:/,/}/p' | grep -q "\"$2\"[[:space:]]*:"
}

node_part() {
	say node "$1" "$1/package.json"
	tool=npm
	for d in "$1" .; do
		if [ -f "$d/pnpm-lock.yaml" ]; then tool=pnpm; break; fi
		if [ -f "$d/yarn.lock" ]; then tool=yarn; break; fi
		if [ -f "$d/bun.lockb" ] || [ -f "$d/bun.lock" ]; then tool=bun; break; fi
		if [ -f "$d/package-lock.json" ]; then break; fi
	done
	[ -d "$1/node_modules" ] || [ -d node_modules ] || line note "node_modules is missing: $tool install"
	script "$1/package.json" build && line build "$tool run build"
	script "$1/package.json" test && line test "$tool test"
	for s in dev start serve preview; do
		script "$1/package.json" "$s" && line run "$tool run $s"
	done
	main=$(sed -n 's/^[[:space:]]*"main"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p' "$1/package.json" | head -n 1)
	line run "${main:+node $main}"
}

python_part() { # DIRECTORY FILE
	say python "$1" "$2"
	py=python3
	if [ -x "$1/.venv/bin/python" ]; then
		py=.venv/bin/python
	elif [ -f "$1/uv.lock" ]; then
		py="uv run python"
	elif [ -f "$1/poetry.lock" ]; then
		py="poetry run python"
	fi
	if [ -d "$1/tests" ] || [ -d "$1/test" ] || grep -qs pytest "$1/pyproject.toml" "$1/setup.cfg" "$1/requirements.txt"; then
		if grep -qs pytest "$1/pyproject.toml" "$1/setup.cfg" "$1/requirements.txt" || [ -f "$1/conftest.py" ] || [ -f "$1/pytest.ini" ]; then
			line test "$py -m pytest"
		else
			line test "$py -m unittest discover"
		fi
	fi
	[ -f "$1/manage.py" ] && line run "$py manage.py runserver 127.0.0.1:0 --noreload"
	for f in "$1"/*.py; do
		[ -f "$f" ] || continue
		name=${f##*/}
		if grep -q 'FastAPI(' "$f"; then
			line run "$py -m uvicorn ${name%.py}:app --port 0"
		elif grep -q 'Flask(' "$f"; then
			line run "$py -m flask --app ${name%.py} run --port 0"
		elif grep -q '__name__ *== *.__main__' "$f" && [ "$name" != manage.py ] && [ "$name" != setup.py ]; then
			line run "$py $name"
		fi
	done
	for f in "$1"/*/__main__.py "$1"/src/*/__main__.py; do
		[ -f "$f" ] || continue
		package=${f%/__main__.py}
		line run "$py -m ${package##*/}"
	done
}

rust_part() {
	say rust "$1" "$1/Cargo.toml"
	line build "cargo build"
	line test "cargo test"
	if [ -f "$1/src/main.rs" ] || grep -qs '^\[\[bin\]\]' "$1/Cargo.toml"; then
		line run "cargo run --quiet --"
	fi
	for f in "$1"/src/bin/*.rs; do
		[ -f "$f" ] || continue
		name=${f##*/}
		line run "cargo run --quiet --bin ${name%.rs} --"
	done
}

make_part() {
	say make "$1" "$2"
	for t in build all test check run serve start dev; do
		text "$2" | grep -q "^$t[[:space:]]*:\([^=]\|$\)" || continue
		case $t in
		build | all) line build "make $t" ;;
		test | check) line test "make $t" ;;
		*) line run "make $t" ;;
		esac
	done
}

# The directory itself and two levels below it.
while IFS= read -r d; do
	[ "$d" = . ] || case $d in ./.*) continue ;; esac
	[ -f "$d/go.mod" ] && go_part "$d"
	[ -f "$d/package.json" ] && node_part "$d"
	for f in "$d/pyproject.toml" "$d/setup.py" "$d/requirements.txt" "$d/manage.py"; do
		if [ -f "$f" ]; then
			python_part "$d" "$f"
			break
		fi
	done
	[ -f "$d/Cargo.toml" ] && rust_part "$d"
	for f in "$d/GNUmakefile" "$d/makefile" "$d/Makefile"; do
		if [ -f "$f" ]; then
			make_part "$d" "$f"
			break
		fi
	done
done <<EOF
$(find . -maxdepth 2 -type d ! -path '*/.*' ! -path '*/node_modules*' ! -path '*/vendor*' ! -path '*/target*' | sort | head -n 200)
EOF
for f in compose.yaml compose.yml docker-compose.yml docker-compose.yaml Procfile justfile Justfile Taskfile.yml; do
	[ -f "$f" ] && found=1 && echo "also  $f"
done
for f in README.md README.rst README CONTRIBUTING.md; do
	[ -f "$f" ] && grep -n -i -E '^#+ .*(run|start|usage|quick|develop|test)' "$f" | head -n 5 | sed "s|^|read  $f:|"
done
if [ "$found" = 0 ]; then
	echo "detect.sh: nothing here says how it runs: no go.mod, package.json, pyproject.toml, setup.py, requirements.txt, Cargo.toml or Makefile" >&2
	exit 1
fi
