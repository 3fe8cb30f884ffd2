#!/bin/sh
# survey.sh [DIRECTORY] lists how a project is built, run, tested and released, and which skills it has.
dir=${1:-.}
case $dir in -*) dir=./$dir ;; esac
cd "$dir" 2>/dev/null || { echo "survey.sh: $dir is not a directory" >&2; exit 2; }
found=0
# show prints a title and what comes from standard input, if there is anything.
show() {
	text=$(head -n "${2:-40}")
	[ -n "$text" ] || return 0
	printf '## %s\n%s\n' "$1" "$text"
}
has() { [ -f "$1" ] && found=1; }

has Makefile && sed -n 's/^\([A-Za-z0-9][A-Za-z0-9_.-]*\):\([^=].*\)\{0,1\}$/make \1/p' Makefile | sort -u | show "Makefile"
for f in justfile Justfile; do
	has $f && sed -n 's/^\([a-z][A-Za-z0-9_-]*\).*:.*$/just \1/p' $f | show "justfile"
done
has package.json && awk '!on && /"scripts"[ \t]*:/ { on = 1; sub(/.*"scripts"[ \t]*:/, "") }
	on { for (i = 1; i <= length($0); i++) {
		c = substr($0, i, 1)
		if (!string && c == "}") exit
		if (c == "\"") {
			string = !string
			if (string) word = ""
			else if (key == "") key = word
			else { print "npm run " key ": " word; key = "" }
			continue
		}
		if (c == "\\") c = substr($0, ++i, 1)
		word = word c
	} }' package.json | show "package.json"
has go.mod && { sed -n 's/^module /module /p' go.mod
	find . -name main.go -not -path '*/vendor/*' -not -path './.*' | sed 's|/main.go$||; s|^|go run |' | sort; } | show "Go"
has Cargo.toml && { grep -E '^(name|edition) *=|^\[\[bin\]\]' Cargo.toml; ls src/main.rs src/bin/*.rs 2>/dev/null; } | show "Rust"
has pyproject.toml && sed -n '/^\[project.scripts\]/,/^\[/p; /^\[tool.poetry.scripts\]/,/^\[/p' pyproject.toml | grep = | show "Python scripts"
for f in manage.py app.py main.py wsgi.py; do has $f && echo "python $f"; done | show "Python"
for f in Procfile Dockerfile compose.yaml compose.yml docker-compose.yml; do
	has $f && grep -nE '^[a-z]+:|CMD|ENTRYPOINT|EXPOSE|ports:|- "[0-9]+:' $f | sed "s|^|$f:|"
done | show "processes and containers"
for f in .github/workflows/*.yml .github/workflows/*.yaml .gitlab-ci.yml; do
	has "$f" && grep -nE '^ *(- )?run: |^ *- (make|npm|go|cargo|python|pytest|sh|\./)' "$f" | sed "s|^|$f:|"
done | show "CI"
ls scripts/*.sh bin/* script/* 2>/dev/null | show "scripts"
[ -n "$(ls scripts/*.sh bin/* script/* 2>/dev/null)" ] && found=1
for f in README.md README AGENTS.md CLAUDE.md CONTRIBUTING.md docs/development.md; do
	[ -f "$f" ] && grep -nE '^ {4}|^\$ |^(make|npm|yarn|pnpm|go|cargo|python|pip|uv|docker|just|\./)' "$f" | head -n 15 | sed "s|^|$f:|"
done | show "documentation" 60
ls -d .env.example .env.sample config/*.example* 2>/dev/null | show "what must be configured"
ls -d .claude/skills/*/ .agents/skills/*/ .knack/skills/*/ 2>/dev/null | show "skills"
for d in Makefile justfile Justfile package.json go.mod Cargo.toml pyproject.toml manage.py app.py main.py Procfile Dockerfile; do
	[ -f "$d" ] && found=1
done
[ $found = 1 ] || { echo "nothing was found that says how this project is built or run"; exit 1; }
exit 0
