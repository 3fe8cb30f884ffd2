package knack

import (
	"strings"
	"testing"
)

// TestCodeWords: a value never becomes a word that a shell, an interpreter or another program reads as code; one case
// per program.
func TestCodeWords(t *testing.T) {
	each := func(names string, forms ...string) (all []string) {
		for name := range strings.FieldsSeq(names) {
			for _, form := range forms {
				all = append(all, strings.ReplaceAll(form, "NAME", name))
			}
		}
		return all
	}
	values := newValues("v", map[string]string{"CLAUDE_SKILL_DIR": "/s"})
	try := func(cmds []string, refused bool) {
		t.Helper()
		for _, cmd := range cmds {
			_, _, _, err := scanner{}.prepare(cmd, &values, false)
			if (err != nil) != refused {
				t.Errorf("%s: refused: %v", cmd, err)
			}
		}
	}
	const (
		wrappers = "sudo doas env timeout nice ionice stdbuf time chroot taskset flock setpriv unshare chrt runuser " +
			"strace command builtin exec nohup setsid npx uvx bunx pnpx busybox coproc doppler direnv xargs"
		shells  = "sh bash zsh dash ksh ash fish csh tcsh mksh"
		scripts = "node nodejs ts-node tsx perl ruby lua luajit php Rscript R julia osascript tclsh groovy scala elixir " +
			"ghci swift irb"
		pythons   = "python python3 python3.12 pypy pypy3"
		editors   = "bc dc m4 ed ex vi vim nvim emacs gdb"
		databases = "sqlite3 sqlite mysql psql duckdb mongosh redis-cli"
		filters   = "awk gawk mawk nawk sed gsed jq yq gojq"
		reading   = "read mapfile readarray"
	)
	try(each(strings.Replace(wrappers, "coproc", "", 1), "NAME $0", "NAME -- $0"), true)
	try(each("sudo doas timeout nice", "NAME ls $0", "/usr/bin/NAME ls $0", "NAME 5 ls $0"), false)
	try([]string{"sudo -u root $0", "timeout -s KILL 5 $0", "env -u X $0", "env -S $0", "env A=1 B=2 $0",
		"nice -n 10 bash -c $0", "npx -c $0",
		"sudo -u root env A=1 timeout 5 sh -c $0", "sudo '' $0", "coproc $0", "time -p -- $0"}, true)
	try([]string{"sudo -u $0 ls", "nice -n $0 ls", "sudo -u root ls $0"}, false)

	try(each(shells+" "+scripts+" "+pythons+" "+editors, "NAME $0", "NAME -- $0", "/bin/NAME $0", "NAME.exe $0",
		"NAME -x $0"), true)
	try(each(shells+" "+scripts+" "+pythons, "NAME f $0", "NAME -- f $0"), false)
	try(each(shells, "NAME -c $0", "NAME -c 'x' $0 | NAME", "NAME -lc $0", "NAME -euxc $0", "NAME -o pipefail -c $0",
		"NAME x -c y; NAME -c \"a $0\""), true)
	try(each(shells, "NAME -lc x $0", "NAME -c x y $0", "NAME a=b $0", "NAME 5 $0"), false)
	try([]string{"perl -ne x $0", "perl -lanE x $0", "ruby -ne x f $0"}, false)
	try([]string{"'bash' -c $0", `"bash" -c $0`, "ba'sh' -c $0", `b"as"h -c $0`, `\\bash -c $0`, "bash '-c' $0",
		`bash "-"c $0`, "echo $0 | 'bash'"}, true)
	try(each(scripts, "NAME -e $0", `NAME -e"$0"`), true)
	try(each("perl ruby", "NAME -ne $0", "NAME -lane $0", "NAME -nE $0", "NAME -M$0 f"), true)
	try(each("node nodejs bun deno tsx", "NAME --eval $0", "NAME -p $0", "NAME -r $0 f", "NAME eval $0", "NAME --eval=$0"),
		true)
	try(each("bun deno", "NAME run $0"), true)
	try(each(pythons, "NAME -c $0", "NAME -m $0", "NAME -W ignore $0", "NAME -Ic $0"), true)
	try(each("pwsh powershell cmd", "NAME -c $0", "NAME -Command $0", "NAME /c $0", "NAME $0"), true)
	try(each(databases, "NAME f $0", "NAME -c $0", "NAME $0"), true)
	try(each(databases, "NAME.exe f $0", `NAME.exe f "$0"`), true)
	try(each(filters, `NAME "$0" f`, `NAME -- "$0"`, "NAME -f $0 f"), true)
	try(each(filters, "NAME x $0", "NAME -f x $0"), false)
	try([]string{"awk -F , $0 f", "awk -e $0", "awk -e x -f $0", "sed -n -e $0 f", "jq --indent 2 $0"}, true)

	try(each("eval source . trap let alias unset getopts ssh su watch parallel at batch script expect crontab hash "+
		"enable bind complete compgen "+reading,
		"NAME $0", "NAME x $0"), true)

	// Code that is piped in, or comes from a here-string or file.
	try(each(shells+" "+scripts+" "+pythons+" "+editors+" "+databases, "echo $0 | NAME", "echo $0 |& NAME",
		"echo $0 | sudo NAME", "echo $0 | NAME -",
		"echo $0 | { NAME; }", "NAME <<< $0", "NAME < $0", "NAME <<E\n$0\nE"), true)
	try([]string{"echo $0 | bash -s", "echo $0 | xargs ls", "echo $0 | sudo xargs ls", "echo $0 | time -- bash",
		"echo $0 | sudo -- bash", "echo $0 | eval x", "cat <<E | sh\n$0\nE", "echo $0 | bash -x", "echo $0 | python3 -u -",
		"echo $0 | perl -w"}, true)
	try([]string{"echo $0 | bash f", "echo $0 | perl -e x", "echo $0 | cat", "echo $0 | cat bash",
		"echo $0 | grep -e perl", "echo $0 | sort | uniq", "echo $0 | { cat; }", "echo $0 || bash", "cat <<< $0",
		"cat <<E\n$0\nE"}, false)
	try(each(reading, "echo $0 | NAME x"), false)
	try([]string{"cat <<'E'\n$0\nE", "cat <<\"E\"\n$0\nE", "cat <<\\E\n$0\nE"}, true)

	try(each("-exec -execdir -ok -okdir", "find . NAME $0 {} +", `find . NAME sh -c "$0" \;`,
		"/usr/bin/find . NAME $0 {} +", "find.exe . NAME $0 {} +"), true)
	try([]string{`find . -exec ls $0 \;`, "find $0 -name x", "ls -exec $0"}, false)
	try([]string{"git -c $0 status", "git.exe -c $0 status", "git --config-env $0 status", "printf -v $0 x", "test -v $0",
		"[ -v $0 ]"}, true)
	try([]string{"ls -c $0", "ls -v $0", "git status $0"}, false)

	// Arithmetic, subscripts, and variables that a shell reads as code.
	try([]string{"a=([$0]=1)", "a[$0]=1", "echo ${a[$0]}", "for ((i=$0; i<3; i++)); do :; done", "[[ -v $0 ]]",
		"[[ -R $0 ]]", "echo ${x:$0}", "ls @($0)"}, true)
	for _, op := range []string{"-eq", "-ne", "-le", "-ge", "-lt", "-gt"} {
		try([]string{"[[ $0 " + op + " 1 ]]"}, true)
		try([]string{"[ $0 " + op + " 1 ]"}, false)
	}
	try([]string{"[[ $0 == v ]]", "[[ -f $0 ]]"}, false)
	try(each("PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS0 PS1 PS2 PS4 PROMPT_COMMAND EDITOR VISUAL PAGER SHELL "+
		"BROWSER PYTHONPATH PYTHONSTARTUP "+
		"PYTHONHOME NODE_OPTIONS NODE_PATH PERL5LIB PERL5OPT RUBYLIB RUBYOPT LD_PRELOAD DYLD_INSERT_LIBRARIES "+
		"GIT_SSH_COMMAND BASH_FUNC_x", "NAME=$0", "NAME=$0 ls"), true)
	try([]string{"X=$0 ls", "LDX=$0", "GIT=$0"}, false)

	// Our directories may name the program that runs, but are not code.
	try([]string{"{baseDir}/run $0", "sudo {baseDir}/run", "bash {baseDir}/run $0"}, false)
	try([]string{"bash -c {baseDir}", "echo $(( {baseDir} ))", "eval {baseDir}"}, true)
}

// TestDirectoryWords: a directory of ours is one quoted word, whatever its name.
func TestDirectoryWords(t *testing.T) {
	values := newValues("", map[string]string{"CLAUDE_SKILL_DIR": "/a b/$x\"`\\'"})
	for cmd, want := range map[string]string{
		"ls {baseDir}":          `ls "/a b/\$x\"\` + "`" + `\\'"`,
		`ls "{baseDir}/x"`:      `ls "/a b/\$x\"\` + "`" + `\\'/x"`,
		"cat <<E\n{baseDir}\nE": "cat <<E\n" + `/a b/\$x"\` + "`" + `\\'` + "\nE",
	} {
		out, _, _, err := scanner{}.prepare(cmd, &values, false)
		if err != nil || out.line != want || out.env != nil {
			t.Errorf("%s: %v, %s, want %s", cmd, err, out.line, want)
		}
	}
}
