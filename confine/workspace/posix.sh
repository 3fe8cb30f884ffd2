knack_stats() { # find's arguments
	if stat -c %f / >/dev/null 2>&1; then
		find "$@" -exec stat -c '%f %s %Y %n//' {} +
	else
		find "$@" -exec stat -f '%Xp %z %m %N//' {} +
	fi
}
knack_there() { # path
	[ -e "$1" ] || [ -L "$1" ] || {
		p=${1%/*}
		while [ -n "$p" ] && [ ! -e "$p" ] && [ ! -L "$p" ]; do p=${p%/*}; done
		[ -z "$p" ] || [ -d "$p" ] || exit 41
		[ -x "${p:-/}" ] || exit 44
		exit 47
	}
}
knack_stat() { # path -L|""
	knack_there "$1"
	[ -z "$2" ] || [ -e "$1" ] || exit 47
	if stat -c %f / >/dev/null 2>&1; then stat $2 -c '%f %s %Y %n//' -- "$1"; else stat $2 -f '%Xp %z %m %N//' -- "$1"; fi
}
knack_open() { # path
	knack_there "$1"
	[ ! -d "$1" ] || exit 42
	[ -f "$1" ] || exit 43
	cat -- "$1"
}
knack_readdir() { # path
	knack_there "$1"
	cd -- "$1" 2>/dev/null || { [ -d "$1" ] && exit 44; exit 41; }
	knack_stats . ! -name . -prune
}
knack_realpath() { # path
	rest=$1 done= n=0
	while [ -n "$rest" ]; do
		rest=${rest#/}
		c=${rest%%/*}
		case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
		case $c in
		'' | .) continue ;;
		..)
			done=${done%/*}
			continue
			;;
		esac
		if [ -L "$done/$c" ]; then
			n=$((n + 1))
			[ $n -le 40 ] || exit 46
			t=$(readlink -- "$done/$c" && echo x) || exit 44
			t=${t%?x}
			case $t in /*) done= ;; esac
			rest=$t/$rest
		else
			done=$done/$c
		fi
	done
	printf %s "${done:-/}"
}
knack_at() { # directory: go there, and be there
	cd -P -- "$1" 2>/dev/null || { [ -d "$1" ] && exit 44; exit 41; }
	[ "$(pwd -P && echo x)" = "$1
x" ] || exit 40
}
knack_write() { # directory name temporary-name size
	d=$1
	while [ ! -e "$d" ] && [ ! -L "$d" ]; do
		d=${d%/*}
		d=${d:-/}
	done
	[ -e "$d" ] || exit 40 # a link to nothing
	knack_at "$d"
	if [ "$d" != "$1" ]; then
		rest=${1#"$d"}
		mkdir -p "./${rest#/}" && knack_at "$1" || exit
	fi
	f=./$2 t=./$3 size=$4
	[ ! -L "$f" ] || exit 40
	[ ! -d "$f" ] || exit 42
	if [ -e "$f" ]; then
		[ -f "$f" ] || exit 43
		[ -w "$f" ] || exit 44
		set -- $(ls -ld "$f")
		if [ "$2" = 1 ] && cp -p "$f" "$t" 2>/dev/null; then :; else
			cat >"$f"
			exit
		fi
	fi
	trap 'rm -f "$t"' EXIT
	cat >"$t" || exit
	[ "$(($(wc -c <"$t")))" = "$size" ] || exit 45
	mv -f "$t" "$f"
}
knack_glob() { # directory
	knack_there "$1"
	knack_stats "$1"
}
knack_search() { # directory flags literal
	knack_there "$1"
	set -- "$1" "$2" "$3" ''
	grep -Z -l x /dev/null 2>/dev/null
	[ $? -gt 1 ] || set -- "$1" "$2" "$3" -Z
	grep "$2" $4 -s -e "$3" -- "$1"
	[ $? -le 1 ] || [ -r "$1" ]
}
knack_run() { # directory mark merge|apart none|some n env... line|args ...
	cd -- "$1" 2>/dev/null || { echo nodir; exit 1; }
	export KNACK_COMMAND="$KNACK_COMMAND$2"
	merge=$3 input=$4 n=$5
	shift 5
	while [ $n -gt 0 ]; do
		export "$1"
		shift
		n=$((n - 1))
	done
	if [ "$1" = line ]; then
		sh=/bin/bash
		[ -x $sh ] || sh=$(command -v bash || command -v sh)
		set -- "$sh" -c "$2"
	else
		shift
		command -v "$1" >/dev/null 2>&1 || { echo noprog; exit 1; }
	fi
	echo ok
	[ $input = some ] || exec </dev/null
	[ $merge = apart ] || exec 2>&1
	unset merge input n sh
	exec "$@"
}
knack_kill() { # mark
	i=0
	while [ $i -lt 20 ]; do
		# Without -z, busybox sees only the first variable of each process.
		pids=$({ grep -lszF -e "$1" /proc/[0-9]*/environ || grep -lsF -e "$1" /proc/[0-9]*/environ; } | sed 's|/proc/||; s|/environ||')
		[ -n "$pids" ] || break
		# First they are stopped: a shell whose child is killed before it would report that in the command's
		# output, or start its next command.
		kill -STOP $pids 2>/dev/null
		kill -KILL $pids 2>/dev/null
		i=$((i + 1))
	done
}
