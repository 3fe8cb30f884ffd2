#!/bin/sh
# branches.sh [BASE] tells whether tasks can work in worktrees of this repository. With BASE, a commit or branch, it
# lists the branches of knack's tasks that have commits since BASE, and which would conflict with it.
top=$(git rev-parse --show-toplevel 2>/dev/null) || { echo "branches.sh: this is no git repository" >&2; exit 1; }
if [ -z "$1" ]; then
	git rev-parse -q --verify HEAD >/dev/null || { echo "branches.sh: there is no commit yet" >&2; exit 1; }
	changed=$(git status --porcelain | wc -l)
	if [ "$changed" -gt 0 ]; then
		echo "$((changed)) uncommitted changes, which tasks would not see:"
		git status --short | head -n 10
		exit 1
	fi
	echo "ready: $top at $(git log -1 --format='%h %s')"
	exit 0
fi
git rev-parse -q --verify "$1^{commit}" >/dev/null || { echo "branches.sh: there is no commit $1" >&2; exit 2; }
found=0
for b in $(git for-each-ref --format='%(refname:short)' refs/heads/knack); do
	n=$(git rev-list --count "$1..$b")
	[ "$n" -gt 0 ] || continue
	found=1
	git merge-tree --write-tree "$1" "$b" >/dev/null 2>&1
	case $? in
	0) state=clean ;;
	1) state=conflicts ;;
	*) state="not tried: git 2.38 or newer tells" ;;
	esac
	echo "$b  $((n)) commits  $state  $(git log -1 --format=%s "$b")"
done
[ $found = 1 ] || echo "no branch below knack/ has commits since $1"
