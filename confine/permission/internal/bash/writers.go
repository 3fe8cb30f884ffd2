package bash

import (
	"slices"
	"strings"
)

// A writer describes a command that writes the files that it names.
type writer struct {
	names string
	// value contains the letters of options whose value is the next word; for t, o, O and P this is a file. The word after
	// an option that is not listed counts as a file. That is harmless if it is a value; a file that is taken for a value
	// would be removed, written or copied without a look at it.
	value string

	runs   string // options that run another program; long ones may be abbreviated
	writes string // options whose value, the next word, is a file that it writes
	reads  string // options whose value is a file that it reads
	words  role   // the meaning of the words that are not options
	both   bool   // what it writes was read before: it moves or converts files

	check func(c *SimpleCommand) // additional checks
}

type role uint8

const (
	written     role = iota // files that it writes
	lastWritten             // files that it reads, except for the last, which it writes
	otherWords              // not files, or files that are only read
	noFiles                 // not files; its options name no files except those listed
)

var writers = table[writer]{names: func(w *writer) string { return w.names }, rows: []writer{
	{names: "cp ln", value: "tS", words: lastWritten},
	{names: "install", value: "tSgmo", words: lastWritten},
	{names: "scp", value: "So", words: lastWritten, runs: "--rsh --rsync-path -e -S -F -o"},
	{names: "rsync", value: "e", words: lastWritten, check: rsyncShell,
		runs: "--rsh --rsync-path -e -S -F -o -M --remote-option --daemon --config"},
	{names: "mv", value: "tS", both: true},
	{names: "rm rmdir unlink tee chmod chown chgrp"},
	{names: "mkdir mkfifo mknod", value: "m"},
	{names: "touch", value: "drt"},
	{names: "truncate", value: "rs"},
	{names: "shred", value: "ns"},
	{names: "setfacl", value: "mxMX"},
	{names: "chattr", value: "vp"},
	{names: "setfattr", value: "nvx"},
	{names: "mktemp", value: "t"},
	{names: "csplit patch gzip gunzip bzip2 xz zstd dos2unix", both: true},
	{names: "unzip", value: "xP", writes: "-d", both: true},
	{names: "zip", runs: "--unzip-command --test -TT -T", both: true},
	{names: "split", runs: "--filter", both: true},
	{names: "tar bsdtar gtar", words: noFiles, check: tarOptions,
		runs: "--absolute-names --to-command --use-compress-program --checkpoint-action --rsh-command --info-script " +
			"--new-volume-script --rmt-command --checkpoint -I -F"},
	{names: "curl", value: "oO", words: otherWords, check: sentFile,
		runs:  "--config --use-askpass --execute --netrc-file -K --engine --unix-socket --abstract-unix-socket",
		reads: "-T --upload-file --post-file --body-file -b --cookie -E --cert --key",
		writes: "--output --output-document --output-dir --dump-header -D --cookie-jar -c --trace --trace-ascii --stderr " +
			"--hsts --alt-svc --etag-save --libcurl"},
	{names: "wget", value: "oO", words: otherWords, check: sentFile,
		runs:   "--config --use-askpass --execute --netrc-file -K -e",
		reads:  "-i --input-file --post-file --body-file --load-cookies --certificate --private-key",
		writes: "--output-document --directory-prefix -P -a --append-output --output-file --save-cookies --warc-file"},
	{names: "cc gcc c++ g++ clang clang++ tcc ld rustc", value: "o", words: otherWords},
	{names: "sort", words: noFiles, check: sortOutput},
	{names: "uniq xxd", words: noFiles, check: secondFile},
	{names: "dd", words: noFiles, check: ddFiles},
}}

// writes records the files that a command writes, and the words that no wildcard of a rule may
// cover.
func writes(c *SimpleCommand, name string) {
	w := writers.row(name)
	if w == nil {
		return
	}
	if w.words != noFiles {
		operands := c.operands(w.value)
		into := slices.ContainsFunc(c.Words, func(w Word) bool { // a directory comes before the files
			v, _ := w.Value()
			return strings.HasPrefix(v, "-t") || strings.HasPrefix(v, "--t")
		})
		for i, o := range operands {
			if w.words != otherWords {
				c.Files = append(c.Files, File{Word: o, Write: w.words == written || i == len(operands)-1,
					Both: w.both || into})
			}
		}
	}
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if !ok {
			continue
		}
		if runsProgram(v, w.runs) {
			c.danger(i, v+" of "+name+" can run another program")
		}
		flag, value, joined := strings.Cut(v, "=")
		reads, writes := names(flag, w.reads), names(flag, w.writes)
		switch {
		case joined && reads:
			c.Files = append(c.Files, File{Word: &c.Words[i], Text: value})
		case !joined && (reads || writes) && i+1 < len(c.Words):
			c.Files = append(c.Files, File{Word: &c.Words[i+1], Write: writes})
		}
	}
	if w.check != nil {
		w.check(c)
	}
}

// names reports whether an option is in a list, or is an abbreviation of a long one in it.
func names(flag, list string) bool {
	return listed(list, flag) || len(flag) > 4 && strings.HasPrefix(flag, "--") && abbreviates(flag, list)
}

// runsProgram reports whether a word is an option in a list, an abbreviation of one, or an option
// letter followed by its value.
func runsProgram(word, list string) bool {
	flag, _, _ := strings.Cut(word, "=")
	for o := range strings.FieldsSeq(list) {
		long := strings.HasPrefix(word, "--")
		if word == o || long && len(flag) > 2 && strings.HasPrefix(o, flag) || !long && len(o) == 2 &&
			strings.HasPrefix(word, o) {
			return true
		}
	}
	return false
}

// operands returns the words that are not options, and records the files that options name. value
// contains the letters of options whose value is the next word.
func (c *SimpleCommand) operands(value string) (words []*Word) {
	ended := false
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		switch {
		case ok && v == "--" && !ended:
			ended = true
		case !ok || len(v) < 2 || v[0] != '-' || ended:
			words = append(words, &c.Words[i])
		case v[1] != '-' && strings.IndexByte(value, v[len(v)-1]) >= 0:
			i++
			if i < len(c.Words) && strings.IndexByte("toOP", v[len(v)-1]) >= 0 {
				c.Files = append(c.Files, File{Word: &c.Words[i], Write: true})
			}
		case strings.Contains(v, "="):
			_, file, _ := strings.Cut(v, "=")
			c.Files = append(c.Files, File{Word: &c.Words[i], Text: file, Write: true})
		case v[1] != '-' && len(v) > 2:
			c.Files = append(c.Files, File{Word: &c.Words[i], Text: v[2:], Write: true})
		}
	}
	return words
}

// rsyncShell finds -e in a cluster of options.
func rsyncShell(c *SimpleCommand) {
	for i := 1; i < len(c.Words); i++ {
		if v, _ := c.Words[i].Value(); isCluster(&c.Words[i]) && len(v) > 2 && strings.Contains(v, "e") {
			c.danger(i, v+" of rsync can run another program")
		}
	}
}

// tarOptions finds the files that tar writes, and -F and -I in a cluster of options. The first word may be a cluster
// without a dash, whose values are the next words in turn.
func tarOptions(c *SimpleCommand) {
	const valued = "fCgXTLNVKHbI"
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if !ok {
			continue
		}
		record := func(option string, value int, text string) {
			if value < len(c.Words) && listed("-C -f -g --directory --file --listed-incremental --index-file --volno-file "+
				"--one-top-level", option) {
				c.Files = append(c.Files, File{Word: &c.Words[value], Text: text, Write: true})
			}
		}
		if strings.HasPrefix(v, "--") {
			flag, value, joined := strings.Cut(v, "=")
			for _, long := range [...]string{"--directory", "--file", "--listed-incremental", "--index-file", "--volno-file",
				"--one-top-level"} {
				if flag != long && (len(flag) < 5 || !strings.HasPrefix(long, flag)) {
					continue
				}
				if joined {
					record(long, i, value)
				} else if long != "--one-top-level" {
					record(long, i+1, "")
				}
			}
			continue
		}
		dash := strings.HasPrefix(v, "-")
		if !dash && i > 1 {
			continue
		}
		letters := strings.TrimPrefix(v, "-")
		if strings.ContainsAny(letters, "FI") && len(c.Danger) == 0 {
			c.danger(i, v+" of tar can run another program")
		}
		if strings.Contains(letters, "P") && strings.ContainsAny(letters, "x") {
			c.danger(i, v+" of tar writes to absolute paths")
		}
		next := i + 1
		for k := 0; k < len(letters); k++ {
			if strings.IndexByte(valued, letters[k]) < 0 {
				continue
			}
			option := "-" + letters[k:k+1]
			if dash && k+1 < len(letters) {
				record(option, i, letters[k+1:])
				break
			}
			record(option, next, "")
			next++
		}
	}
}

// sentFile finds the files that curl sends, such as -d @file, and those to which its format of a report writes.
func sentFile(c *SimpleCommand) {
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if strings.Contains(v, "%output{") {
			c.danger(i, "this format writes a file")
		}
		if _, file, has := strings.Cut(v, "@"); ok && has && !strings.Contains(v, "://") {
			c.Files = append(c.Files, File{Word: &c.Words[i], Text: file})
		}
	}
}

// sortOutput finds the output file of sort -o.
func sortOutput(c *SimpleCommand) {
	for i := 1; i < len(c.Words); i++ {
		if !isCluster(&c.Words[i]) {
			continue
		}
		v, _ := c.Words[i].Value()
		if k := strings.IndexByte(v, 'o'); k == len(v)-1 && i+1 < len(c.Words) {
			c.Files = append(c.Files, File{Word: &c.Words[i+1], Write: true})
		} else if k > 0 {
			c.Files = append(c.Files, File{Word: &c.Words[i], Text: v[k+1:], Write: true})
		}
	}
}

// secondFile marks the file that uniq and xxd write.
func secondFile(c *SimpleCommand) {
	if n := len(c.Files); n > 1 {
		c.Files[n-1].Write = true
	}
}

func ddFiles(c *SimpleCommand) {
	for i := 1; i < len(c.Words); i++ {
		v, _ := c.Words[i].Value()
		if file, ok := strings.CutPrefix(v, "of="); ok {
			c.Files = append(c.Files, File{Word: &c.Words[i], Text: file, Write: true})
		} else if file, ok := strings.CutPrefix(v, "if="); ok {
			c.Files = append(c.Files, File{Word: &c.Words[i], Text: file})
		}
	}
}
