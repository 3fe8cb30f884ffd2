package knack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/subpath"
)

// Bounds that the open specification recommends for a body.
const (
	adviceLines  = 500
	adviceTokens = 5000
)

// Check holds a skill strictly against the open Agent Skills specification and
// advises its author: what breaks the specification has Severity Error, what is
// likely a mistake Warn, the rest Info. path is the skill's directory or its
// SKILL.md. The Skill is nil if it cannot be read.
func Check(ctx context.Context, path string) (*Skill, []Problem) {
	file, problem := skillFile(path)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	data, err := readBounded(file)
	if err == nil && len(data) > maxFile {
		return nil, []Problem{{Code: "too-large", Severity: Error, Path: file, Message: fmt.Sprintf("the file is larger than %d MiB", maxFile>>20), Hint: "move text to files under references/"}}
	}
	if err != nil {
		return nil, []Problem{{Code: "unreadable", Severity: Error, Path: file, Message: err.Error(), Hint: "check its permissions"}}
	}
	// The directory's name is not known from "." or "..".
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, []Problem{{Code: "unreadable", Severity: Error, Path: file, Message: err.Error(), Hint: "name the directory in full"}}
	}
	s, body, problems := parseFile(abs, data, Origin{Kind: Explicit, Trust: Trusted})
	c := checker{reader: reader{path: file, problems: problems}, ctx: ctx, skill: s, dir: filepath.Dir(file)}
	for i := range c.problems {
		p := &c.problems[i]
		p.Path = file
		if breaksSpecification(*p) {
			p.Severity = Error
		}
	}
	if s != nil {
		c.line = 1 + bytes.Count(data, []byte("\n")) - bytes.Count(body, []byte("\n"))
		c.body = string(body)
		c.check(string(data))
	}
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return a.Line - b.Line })
	return s, c.problems
}

// CheckName says what the open specification has against a skill's name; ""
// nothing.
func CheckName(name string) string {
	if utf8.RuneCountInString(name) > maxName {
		return fmt.Sprintf("has more than %d characters", maxName)
	}
	return badName(name)
}

// skillFile finds the SKILL.md that a path means; the exact name wins.
func skillFile(path string) (string, *Problem) {
	info, err := os.Stat(path)
	if err != nil {
		return "", &Problem{Code: "unreadable", Severity: Error, Path: path, Message: errors.Unwrap(err).Error(), Hint: "name a skill's directory or its SKILL.md"}
	}
	if !info.IsDir() {
		return path, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", &Problem{Code: "unreadable", Severity: Error, Path: path, Message: err.Error(), Hint: "check its permissions"}
	}
	found := ""
	for _, e := range entries {
		if e.Name() == "SKILL.md" || found == "" && strings.EqualFold(e.Name(), "SKILL.md") {
			found = e.Name()
		}
	}
	if found == "" {
		return "", &Problem{Code: "unreadable", Severity: Error, Path: path, Message: "there is no SKILL.md in this directory", Hint: "knack skill new " + plain.Line(filepath.Base(path))}
	}
	return filepath.Join(path, found), nil
}

// breaksSpecification says of a Problem that loading met whether the open
// specification forbids it.
func breaksSpecification(p Problem) bool {
	switch p.Code {
	case "field-type": // of its own keys only
		key, _, _ := strings.Cut(p.Message, " ")
		switch strings.TrimSuffix(key, ":") {
		case "name", "description", "metadata", "allowed-tools":
			return true
		}
	case "name-missing", "name-invalid", "name-too-long", "name-dir-mismatch", "description-missing", "description-too-long",
		"compatibility-invalid", "compatibility-too-long", "frontmatter-missing", "frontmatter-unclosed", "yaml-repaired",
		"yaml-invalid", "duplicate-key", "encoding", "limit-reached", "too-large":
		return true
	}
	return false
}

type checker struct {
	reader
	ctx   context.Context
	skill *Skill
	dir   string
	body  string
	line  int // of the body's first line
}

func (c *checker) info(code string, line int, hint, format string, args ...any) {
	c.problem(code, Info, line, 0, hint, format, args...)
}

func (c *checker) check(file string) {
	c.keys()
	c.size()
	c.hidden(file)
	c.prose()
	c.tools()
	c.files()
}

// keys reports what other readers of skills do not know or refuse.
func (c *checker) keys() {
	for _, f := range c.skill.fields {
		switch canonical(f.key) {
		case "name", "description", "license", "compatibility":
		case "metadata":
			var values map[string]json.RawMessage
			if json.Unmarshal([]byte(f.value), &values) != nil {
				continue
			}
			for _, v := range values {
				if v[0] != '"' {
					c.info("field-type", 0, "quote the values: version: '1.0'", "metadata: the open specification has texts as values only")
					break
				}
			}
		case "allowed-tools":
			if f.value != "" && f.value[0] != '"' {
				c.info("field-type", 0, "write one text with blanks between the tools", "allowed-tools: the open specification has one text, not a list")
			}
		default:
			c.info("unknown-key", 0, "keep it if you need it; some programs refuse a file that has it", "%s is an extension of the open specification", plain.Line(f.key))
		}
	}
}

func (c *checker) size() {
	lines := strings.Count(strings.TrimSpace(c.body), "\n") + 1
	if n := tokens(len(c.body)); lines > adviceLines || n > adviceTokens {
		c.warn("body-too-long", c.line, 0, "move parts to files under references/ and link to them",
			"the text has %d lines and about %d tokens; at most %d and %d are advised", lines, n, adviceLines, adviceTokens)
	}
}

// hidden reports what a person does not see and a model reads.
func (c *checker) hidden(file string) {
	n := 0
	open := false // a comment is
	comment := ""
	fence := ""
	tell := func() {
		if instructs(comment) {
			c.warn("hidden-characters", n, 0, "say it in the text or remove it", "a comment that a person does not see tells the model what to do")
		}
		comment = ""
	}
	for line := range strings.Lines(file) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if r, at := hiddenRune(line); at > 0 {
			c.warn("hidden-characters", n, at, "remove it", "a character that is not seen: U+%04X", r)
		}
		if fence != "" {
			if closesFence(line, fence) {
				fence = ""
			}
			continue
		}
		if !open {
			if fence = opensFence(line); fence != "" {
				continue
			}
		}
		for line != "" {
			mark := "<!--"
			if open {
				mark = "-->"
			}
			text, rest, found := strings.Cut(line, mark)
			if open {
				comment += " " + text
			}
			if found {
				open = !open
			}
			if found && !open || len(comment) > 4096 { // a long one is judged in parts
				tell()
			}
			line = rest
		}
	}
	tell() // what is not closed is not seen to the end
}

// hiddenRune finds the first character of a line that is not seen, and its
// column; joiners between letters of scripts that need them, and in emoji, are
// seen.
func hiddenRune(line string) (rune, int) {
	column := 0
	before := rune(0)
	for i, r := range line {
		column++
		if r == '\t' || r == 0xfeff && i == 0 {
			continue
		}
		if plain.Hidden(r) && !((r == 0x200c || r == 0x200d) && before > 0x2ff) {
			return r, column
		}
		before = r
	}
	return 0, 0
}

// instructs says whether a comment reads like an order to a model.
func instructs(comment string) bool {
	words := strings.FieldsFunc(strings.ToLower(comment), func(r rune) bool { return !unicode.IsLetter(r) })
	if len(words) < 3 {
		return false
	}
	for _, w := range words {
		switch w {
		case "ignore", "must", "always", "never", "run", "execute", "send", "read", "fetch", "upload", "delete", "secretly", "override", "instructions", "reveal", "curl", "you", "tell", "disregard":
			return true
		}
	}
	return false
}

// prose reports a description that tells no occasion, and text in the second
// person.
func (c *checker) prose() {
	s := c.skill
	if s.Description != "" && s.WhenToUse == "" && !tellsWhen(s.Description) {
		c.warn("description-no-when", 0, 0, "add a sentence that begins with: Use when …", "the description says what the skill does, but not when to use it")
	}
	for i, text := range c.paragraphs() {
		if text != "" && secondPerson(text) {
			c.info("second-person", c.line+i, "say what to do: Run the tests, not: You should run the tests", "the text speaks to a person (you …)")
			return
		}
	}
}

// paragraphs returns the lines of the body; those in fences are empty.
func (c *checker) paragraphs() []string {
	lines := strings.Split(c.body, "\n")
	fence := ""
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		if fence != "" {
			if closesFence(line, fence) {
				fence = ""
			}
			lines[i] = ""
			continue
		}
		if fence = opensFence(line); fence != "" {
			lines[i] = ""
		}
	}
	return lines
}

func tellsWhen(description string) bool {
	d := strings.ToLower(description)
	for _, sign := range []string{"when", "use for", "use this", "used for", "use to ", "useful for", "trigger", "if the user", "if you", "before ", "after ", "asks", "during", "while ", "for tasks", "需要", "时", "当", "用于", "场景", "とき", "場合", "際に", "때", "cuando", "lorsque", "quand", "wenn", "quando", "когда"} {
		if strings.Contains(d, sign) {
			return true
		}
	}
	return false
}

func secondPerson(line string) bool {
	l := " " + strings.ToLower(line) + " "
	for _, sign := range []string{" you should ", " you must ", " you can ", " you need to ", " you will ", " you may ", " you'll ", " you have to "} {
		if strings.Contains(l, sign) {
			return true
		}
	}
	return false
}

// tools advises on what the skill grants itself.
func (c *checker) tools() {
	text := strings.ToLower(c.body)
	for _, rule := range c.skill.AllowedTools {
		tool, pattern, scoped := strings.Cut(strings.TrimSuffix(rule, ")"), "(")
		switch {
		case tool == "*" || strings.EqualFold(tool, "bash") && (!scoped || pattern == "*" || pattern == ":*"):
			c.warn("tool-pattern", 0, 0, "name what is needed: Bash(git status:*)", "allowed-tools: %s grants more than a skill needs; it is ignored in project and plugin skills", rule)
			continue
		case strings.EqualFold(tool, "bash"):
			word, _, _ := strings.Cut(strings.TrimSpace(strings.TrimSuffix(pattern, ":*")), " ")
			word = strings.ToLower(path.Base(word))
			if word != "" && !strings.ContainsAny(word, "*$?{") && !strings.Contains(text, word) {
				c.info("tool-pattern", 0, "remove it, or say in the text what it is for", "allowed-tools: the text never mentions %s", plain.Line(word))
			}
		default:
			name := strings.ToLower(tool)
			if i := strings.LastIndex(name, "__"); i >= 0 {
				name = name[i+2:]
			}
			if name = strings.Trim(name, "*"); name != "" && !strings.Contains(text, name) {
				c.info("tool-pattern", 0, "remove it, or say in the text what it is for", "allowed-tools: the text never mentions %s", plain.Line(tool))
			}
		}
	}
}

// files reports links that lead nowhere or out of the skill, absolute paths
// and scripts that cannot be run.
func (c *checker) files() {
	for i, line := range c.paragraphs() {
		for _, target := range links(line) {
			c.link(target, c.line+i)
		}
	}
	for i, line := range strings.Split(c.body, "\n") {
		if p := absolutePath(line); p != "" {
			c.warn("absolute-path", c.line+i, 0, "write it relative to the skill, or as ${CLAUDE_SKILL_DIR}/…", "%s is a path of one machine", plain.Line(p))
		}
	}
	err := filepath.WalkDir(c.dir, func(file string, d fs.DirEntry, err error) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			return nil // what cannot be read is told where it is linked
		}
		if d.IsDir() && file != c.dir && (d.Name()[0] == '.' || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		rel, _ := filepath.Rel(c.dir, file)
		rel = filepath.ToSlash(rel)
		if d.Type()&fs.ModeSymlink != 0 {
			if !inside(c.dir, file) {
				c.warn("symlink-outside", 0, 0, "copy the file into the skill", "%s is a link that leads out of the skill or nowhere", plain.Line(rel))
			}
			return nil
		}
		if d.Type().IsRegular() && strings.HasPrefix(rel, "scripts/") && runtime.GOOS != "windows" {
			if info, err := d.Info(); err == nil && info.Mode()&0o111 == 0 && hasShebang(file) {
				c.warn("not-executable", 0, 0, "chmod +x "+plain.Line(rel), "%s begins with #! but cannot be run", plain.Line(rel))
			}
		}
		return nil
	})
	if err != nil {
		c.problem("unreadable", Error, 0, 0, "check its permissions", "%v", err)
	}
}

// inside says whether a path leads, links followed, to something below dir.
func inside(dir, file string) bool {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	return subpath.Contains(root, target)
}

func hasShebang(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var two [2]byte
	n, _ := f.Read(two[:])
	return n == 2 && two == [2]byte{'#', '!'}
}

// link checks one target of a link.
func (c *checker) link(target string, line int) {
	target, _, _ = strings.Cut(target, "#")
	for _, dir := range []string{"${CLAUDE_SKILL_DIR}/", "${SKILL_DIR}/", "{baseDir}/", "./"} {
		target = strings.TrimPrefix(target, dir)
	}
	if target == "" || strings.ContainsAny(target, "<>${}*") || strings.HasPrefix(target, "/") {
		return
	}
	if u, err := url.Parse(target); err == nil {
		if u.Scheme != "" {
			return
		}
		target = u.Path
	}
	local := filepath.FromSlash(target)
	switch _, err := os.Stat(filepath.Join(c.dir, local)); {
	case !filepath.IsLocal(local):
		c.warn("broken-link", line, 0, "copy the file into the skill", "%s leads out of the skill", plain.Line(target))
	case err != nil:
		c.warn("broken-link", line, 0, "correct the link or add the file", "%s is not there", plain.Line(target))
	}
}

// links returns the targets of the Markdown links and images of a line.
func links(line string) []string {
	var targets []string
	for {
		i := strings.Index(line, "](")
		if i < 0 {
			return targets
		}
		line = line[i+2:]
		end := strings.IndexAny(line, ") ")
		if end < 0 {
			return targets
		}
		targets = append(targets, strings.Trim(line[:end], "<>"))
		line = line[end:]
	}
}

// absolutePath finds a path into somebody's home or on a drive.
func absolutePath(line string) string {
	for _, prefix := range []string{"/Users/", "/home/", "/root/", "/Volumes/", `:\`} {
		i := strings.Index(line, prefix)
		if i < 0 {
			continue
		}
		begin := i
		if prefix == `:\` {
			if i == 0 || !isLetter(line[i-1]) || i > 1 && isLetter(line[i-2]) {
				continue
			}
			begin = i - 1
		} else if i > 0 {
			if r, _ := utf8.DecodeLastRuneInString(line[:i]); unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/.}>~_-", r) {
				continue // part of a longer path or an address
			}
		}
		end := begin
		for end < len(line) && !strings.ContainsRune(" \t\r\"'`)<>,;", rune(line[end])) {
			end++
		}
		return line[begin:end]
	}
	return ""
}

// FindSkills returns the skills that a path holds: itself if it is a skill or
// a SKILL.md, else the directories below it that are skills, six levels deep.
// Hidden directories and node_modules are passed over.
func FindSkills(root string) ([]string, error) {
	if file, problem := skillFile(root); problem == nil {
		if strings.EqualFold(filepath.Base(file), "SKILL.md") {
			return []string{filepath.Dir(file)}, nil
		}
		return []string{file}, nil
	}
	var found []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if p != root && (d.Name()[0] == '.' || d.Name() == "node_modules" || strings.Count(filepath.ToSlash(rel), "/") >= 6) {
			return fs.SkipDir
		}
		if _, problem := skillFile(p); problem == nil {
			found = append(found, p)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s holds no skill", root)
	}
	return found, nil
}
