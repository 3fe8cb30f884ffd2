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

	"github.com/knack-agent/knack/internal/leaf/fences"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Bounds that the open specification recommends for a body.
const (
	adviceLines  = 500
	adviceTokens = 5000
)

// Check checks a skill strictly against the open Agent Skills specification and advises
// its author. Violations of the specification have Severity Error, likely mistakes Warn,
// everything else Info. Each fact is reported as one Problem. path is the skill's
// directory or its SKILL.md. The Skill is nil if it cannot be read.
func Check(ctx context.Context, path string) (*Skill, []Problem) {
	s, problems := checkFile(ctx, path)
	for i, p := range problems {
		problems[i].Risk = risks[p.Code]
	}
	return s, problems
}

// risks maps the code of a problem to an entry of the OWASP Agentic Skills Top 10; see
// docs/security.md.
var risks = map[Code]string{
	CodeSymlinkOutside: "AST02", // bytes that are not part of the skill's approval or package
	CodeToolPattern:    "AST03",
	// A person and a program would read different things.
	CodeHiddenCharacters: "AST04", CodeDuplicateKey: "AST04", CodeYAMLRepaired: "AST04", CodeYAMLInvalid: "AST04",
	CodeFrontmatterUnclosed: "AST04", CodeLinkAsText: "AST04", CodeEncoding: "AST04", CodeNameDirMismatch: "AST04",
	CodeUnknownKey: "AST10", CodeAbsolutePath: "AST10", // other programs read these differently
}

func checkFile(ctx context.Context, path string) (*Skill, []Problem) {
	file, problem := skillFile(path)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	data, err := readBounded(file)
	if err == nil && len(data) > maxFile {
		return nil, []Problem{{Code: CodeTooLarge, Severity: Error, Path: file,
			Message: fmt.Sprintf("the file is larger than %d MiB", maxFile>>20), Hint: "move text to files under references/"}}
	}
	if err != nil {
		return nil, []Problem{{Code: CodeUnreadable, Severity: Error, Path: file, Message: err.Error(),
			Hint: "check its permissions"}}
	}
	if to := textLink(data, int64(len(data))); to != "" {
		return nil, []Problem{{Code: CodeLinkAsText, Severity: Error, Path: file,
			Message: "the file contains only " + plain.Line(to) + ", a symbolic link that was checked out as text",
			Hint:    "git config core.symlinks true, then check the file out again"}}
	}
	// "." and ".." do not show the directory's name.
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, []Problem{{Code: CodeUnreadable, Severity: Error, Path: file, Message: err.Error(),
			Hint: "name the directory in full"}}
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
	c.problems = dropConsequences(s, c.problems)
	if s != nil {
		c.line = 1 + bytes.Count(data, []byte("\n")) - bytes.Count(body, []byte("\n"))
		c.body = string(body)
		c.check(string(data))
	}
	order.Stable(c.problems, func(a, b Problem) int { return a.Line - b.Line })
	return s, c.problems
}

// dropConsequences removes Problems that merely follow from another one. A file without
// frontmatter has no name and no description, and a description of the wrong type is not
// missing. If a name is invalid, but its valid form is the directory's name, the mismatch
// with the directory is not a second mistake.
func dropConsequences(s *Skill, problems []Problem) []Problem {
	found := map[Code]bool{}
	for _, p := range problems {
		found[p.Code] = true
	}
	headless := found[CodeFrontmatterMissing] || found[CodeFrontmatterUnclosed]
	return slices.DeleteFunc(problems, func(p Problem) bool {
		switch p.Code {
		case CodeNameMissing:
			return headless
		case CodeDescriptionMissing:
			return headless || slices.ContainsFunc(problems, func(p Problem) bool {
				return p.Code == CodeFieldType && strings.HasPrefix(p.Message, "description ")
			})
		case CodeNameDirMismatch:
			return found[CodeNameInvalid] && s != nil && validName(s.Label) == validName(s.Name)
		}
		return false
	})
}

// CheckName explains what is wrong with a skill's name by the open specification. It
// returns "" for a valid name.
func CheckName(name string) string {
	if utf8.RuneCountInString(name) > maxName {
		return fmt.Sprintf("has more than %d characters", maxName)
	}
	return badName(name)
}

// skillFile finds the SKILL.md for a path. If several differ in letter case, the exact
// name wins.
func skillFile(path string) (string, *Problem) {
	info, err := os.Stat(path)
	if err != nil {
		return "", &Problem{Code: CodeUnreadable, Severity: Error, Path: path, Message: errors.Unwrap(err).Error(),
			Hint: "name a skill's directory or its SKILL.md"}
	}
	if !info.IsDir() {
		return path, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", &Problem{Code: CodeUnreadable, Severity: Error, Path: path, Message: err.Error(),
			Hint: "check its permissions"}
	}
	found := ""
	for _, e := range entries {
		if e.Name() == "SKILL.md" || found == "" && strings.EqualFold(e.Name(), "SKILL.md") {
			found = e.Name()
		}
	}
	if found == "" {
		return "", &Problem{Code: CodeUnreadable, Severity: Error, Path: path,
			Message: "there is no SKILL.md in this directory", Hint: "knack skill new " + plain.Line(filepath.Base(path))}
	}
	return filepath.Join(path, found), nil
}

// breaksSpecification reports whether a Problem found while loading violates the open
// specification.
func breaksSpecification(p Problem) bool {
	switch p.Code {
	case CodeFieldType: // only for keys of the specification
		key, _, _ := strings.Cut(p.Message, " ")
		switch strings.TrimSuffix(key, ":") {
		case "name", "description", "metadata", "allowed-tools":
			return true
		}
	case CodeNameMissing, CodeNameInvalid, CodeNameTooLong, CodeNameDirMismatch, CodeDescriptionMissing,
		CodeDescriptionTooLong,
		CodeCompatibilityInvalid, CodeCompatibilityTooLong, CodeFrontmatterMissing, CodeFrontmatterUnclosed, CodeYAMLRepaired,
		CodeYAMLInvalid, CodeDuplicateKey, "encoding", CodeLimitReached, CodeTooLarge:
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
	line  int // line number of the body's first line
}

func (c *checker) info(code Code, line int, hint, format string, args ...any) {
	c.problem(code, Info, line, 0, hint, format, args...)
}

func (c *checker) check(file string) {
	c.keys()
	c.size()
	c.hidden(file)
	c.prose()
	c.tools()
	c.placeholders()
	c.files()
}

// keys reports keys that other programs do not know or reject.
func (c *checker) keys() {
	var extensions []string
	for _, f := range c.skill.list() {
		switch canonical(f.key) {
		case "name", "description", "license", "compatibility":
		case "metadata":
			var values map[string]json.RawMessage
			if json.Unmarshal([]byte(f.value), &values) != nil {
				continue
			}
			for name, v := range values {
				if v[0] != '"' && name != "knack" && name != "knack-procedure" { // Knack's own, see `knack help models`
					c.info(CodeFieldType, 0, "quote the values: version: '1.0'",
						"metadata: the open specification allows only strings as values")
					break
				}
			}
		case "allowed-tools":
			if strings.HasPrefix(f.value, "[") {
				c.info(CodeFieldType, 0, "write one string with spaces between the tools",
					"allowed-tools: the open specification has one string, not a list")
			}
		default:
			if key := canonical(f.key); key != "" && key != f.key {
				continue // a misspelled key is already reported
			}
			extensions = append(extensions, plain.Line(f.key))
		}
	}
	if c.skill.Agent != "" && !c.skill.Fork {
		c.warn(CodeFieldType, 0, 0, "add context: fork, or remove it", "agent has no effect without context: fork")
	}
	if n := len(extensions); n > 0 {
		are := "an extension"
		if n > 1 {
			are = "extensions"
		}
		c.info(CodeUnknownKey, 0, "keep what you need; some programs refuse a file with such keys",
			"%s: %s of the open specification", strings.Join(extensions, ", "), are)
	}
}

func (c *checker) size() {
	lines := strings.Count(strings.TrimSpace(c.body), "\n") + 1
	if n := tokens(len(c.body)); lines > adviceLines || n > adviceTokens {
		c.warn(CodeBodyTooLong, c.line, 0, "move parts to files under references/ and link to them",
			"the text has %d lines and about %d tokens; at most %d and %d are advised", lines, n, adviceLines, adviceTokens)
	}
}

// hidden reports text that a person does not see but a model reads.
func (c *checker) hidden(file string) {
	n := 0
	open := false // inside a comment
	comment := ""
	fence := ""
	var first rune
	firstLine, firstColumn, hidden := 0, 0, 0
	report := func() {
		if isHiddenInstruction(comment) {
			c.warn(CodeHiddenCharacters, n, 0, "move it into the text or remove it",
				"a comment that readers do not see gives the model an instruction")
		}
		comment = ""
	}
	for line := range strings.Lines(file) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if r, at := hiddenRune(line); at > 0 {
			if hidden++; hidden == 1 {
				first, firstLine, firstColumn = r, n, at
			}
		}
		if fence != "" {
			if fences.Closes(line, fence) {
				fence = ""
			}
			continue
		}
		if !open {
			if fence = fences.Opens(line); fence != "" {
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
			if found && !open || len(comment) > 4096 { // a long comment is checked in parts
				report()
			}
			line = rest
		}
	}
	report() // a comment that is not closed hides the rest of the text
	if hidden > 0 {
		more := ""
		if hidden > 1 {
			more = fmt.Sprintf(", and others in %s", plain.Count(hidden-1, "more line"))
		}
		c.warn(CodeHiddenCharacters, firstLine, firstColumn, "remove it", "an invisible character: U+%04X%s", first, more)
	}
}

// hiddenRune finds the first invisible character of a line, and its column.
// Joiners between letters of scripts that need them, and what is in emoji, are visible.
func hiddenRune(line string) (rune, int) {
	column := 0
	before := rune(0)
	for i, r := range line {
		column++
		if r == '\t' || r == 0xfeff && i == 0 {
			continue
		}
		if plain.Hidden(r) {
			after, _ := utf8.DecodeRuneInString(line[i+utf8.RuneLen(r):])
			joiner := (r == 0x200c || r == 0x200d) && (before > 0x2ff || after > 0x2ff)
			if !joiner && !plain.Written(line[:i], r, line[i+utf8.RuneLen(r):]) {
				return r, column
			}
		}
		before = r
	}
	return 0, 0
}

// isHiddenInstruction reports whether a comment reads like an instruction for the model that is
// hidden from people. Notes of authors and of their tools are not reported.
func isHiddenInstruction(comment string) bool {
	text := strings.ToLower(strings.Join(strings.Fields(comment), " "))
	for _, phrase := range []string{
		"ignore previous", "ignore all", "ignore the above", "ignore any", "disregard", "secretly", "do not tell",
		"don't tell", "never tell", "do not mention", "don't mention", "without telling", "without asking", "system prompt",
		"do not reveal", "exfiltrat",
	} {
		if strings.Contains(text, phrase) {
			return true
		}
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	addressed, orders := false, false
	for _, w := range words {
		switch w {
		case "todo", "fixme", "generated", "regenerate", "edit", "editing", "lint", "markdownlint", "prettier", "license",
			"copyright", "template", "placeholder":
			return false
		case "assistant", "llm", "you":
			addressed = true
		case "must", "always", "never", "run", "execute", "send", "fetch", "upload", "delete", "curl", "override", "reveal":
			orders = true
		}
	}
	return addressed && orders
}

// secondPersonLines limits how many lines in the second person are reported.
const secondPersonLines = 3

// prose reports a description that does not say when to use the skill, and text in the
// second person.
func (c *checker) prose() {
	s := c.skill
	fallback := slices.ContainsFunc(c.problems, func(p Problem) bool {
		return p.Code == CodeDescriptionMissing || p.Code == CodeFrontmatterMissing || p.Code == CodeFrontmatterUnclosed
	})
	if s.Description != "" && s.WhenToUse == "" && !s.NotModel && !fallback && english(s.Description) &&
		!hasWhen(s.Description) {
		c.warn(CodeDescriptionNoWhen, 0, 0, "add a sentence that begins with: Use when …",
			"the description says what the skill does, but not when to use it")
	}
	found, first := 0, 0
	for i, text := range c.paragraphs() {
		if text != "" && !strings.HasPrefix(strings.TrimSpace(text), ">") && secondPerson(withoutCode(text)) {
			if found++; found == 1 {
				first = c.line + i
			}
		}
	}
	if found >= secondPersonLines {
		c.info(CodeSecondPerson, first, "write instructions: Run the tests, not: You should run the tests",
			"%d lines are in the second person (you should …)", found)
	}
}

// withoutCode removes text between backticks.
func withoutCode(line string) string {
	var b strings.Builder
	for i, part := range strings.Split(line, "`") {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}

// paragraphs returns the lines of the body; lines inside fences are empty.
func (c *checker) paragraphs() []string {
	lines := strings.Split(c.body, "\n")
	fence := ""
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		if fence != "" {
			if fences.Closes(line, fence) {
				fence = ""
			}
			lines[i] = ""
			continue
		}
		if fence = fences.Opens(line); fence != "" {
			lines[i] = ""
		}
	}
	return lines
}

// english guesses from small words whether a description is in English. How other
// languages express when to use a skill is not known here.
func english(text string) bool {
	foreign, letters := 0, 0
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
			if r > 0x24f { // not a Latin script
				foreign++
			}
		}
	}
	if foreign*10 > letters {
		return false
	}
	small := 0
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		switch w {
		case "the", "and", "for", "with", "to", "of", "in", "on", "from", "by", "an", "this", "that", "your", "using", "or",
			"is":
			small++
		case "de", "la", "el", "und", "der", "die", "das", "pour", "les", "des", "para", "los", "con", "per", "dan", "untuk",
			"ve", "bir":
			small--
		}
	}
	return small > 0
}

// hasWhen reports whether a description says when to use the skill.
func hasWhen(description string) bool {
	d := " " + strings.ToLower(strings.Join(strings.Fields(description), " ")) + " "
	for _, sign := range []string{
		" when", "whenever", " use ", " used ", " using this skill", " useful ", " trigger", " if ", " before ", " after ",
		" asks", " asked ", " during ", " while ", " for tasks", " for questions", " for requests", " invoke", " activate",
		" apply ", " applies ", " need", " want", " helps ", " call ", " called ", " load ", " run this ", " run when",
		" should be ", " must be ", " required ", " on request", " upon ", " whether ", " once ", " any time", " anytime",
		" in case ", " where ", " dispatch", " spawned ", " mention", " scenarios", " says ", " typing ",
	} {
		if strings.Contains(d, sign) {
			return true
		}
	}
	return false
}

func secondPerson(line string) bool {
	l := " " + strings.ToLower(line) + " "
	for _, sign := range []string{" you should ", " you must ", " you have to ", " you ought to "} {
		if strings.Contains(l, sign) {
			return true
		}
	}
	return false
}

// tools advises on the permissions that the skill grants itself.
func (c *checker) tools() {
	for _, rule := range c.skill.AllowedTools {
		tool, pattern, scoped := strings.Cut(strings.TrimSuffix(rule, ")"), "(")
		if tool == "*" || strings.EqualFold(tool, "bash") && (!scoped || pattern == "*" || pattern == ":*") {
			all := "every command"
			if tool == "*" {
				all = "every tool"
			}
			c.warn(CodeToolPattern, 0, 0, "name what is needed: Bash(git status:*)",
				"allowed-tools: %s grants %s; a project or plugin skill gets it only if the user approves", rule, all)
		}
	}
}

// placeholders reports inline commands that are refused with any arguments, and arguments that are
// probably counted from 1.
func (c *checker) placeholders() {
	sc := c.skill.scanner()
	dirs := map[string]string{"CLAUDE_SKILL_DIR": c.dir, "CLAUDE_PROJECT_DIR": c.dir, "CLAUDE_PLUGIN_ROOT": c.dir}
	values := newValues("a b c d e f g h i j", dirs)
	first := len(sc.names) > 0
	var second string // the first positional argument after $0
	line, secondLine := c.line, 0
	code, codeLine := "", 0 // the first $n in code
	argument := func(t token) {
		first = first || t.kind == all || t.kind == word && t.index == 0
		if t.kind == word && t.index == 1 && second == "" {
			second, secondLine = t.raw, line
		}
	}
	for _, t := range sc.scan(c.body) {
		if t.code && t.kind == word && t.index < 10 && code == "" && !strings.HasPrefix(t.raw, "$ARGUMENTS") {
			code, codeLine = t.raw, line
		}
		if argument(t); t.kind == command {
			_, _, problem, err := sc.prepare(t.text, &values, c.skill.Shell == "powershell")
			switch {
			case err != nil:
				c.warn(CodeShellRefused, line, 0, "see `knack help skills`", "the command %s cannot run: %v",
					escapeCommand(t.text), err)
			case problem != "":
				c.warn(CodeShellRefused, line, 0, "use double quotes", "in the command %s %s", escapeCommand(t.text), problem)
			}
			for _, in := range sc.placeholdersIn(t.text) {
				argument(in.token)
			}
		}
		line += strings.Count(t.raw, "\n")
	}
	if second != "" && !first {
		c.warn(CodeArgumentIndex, secondLine, 0, "write $0 for the first argument, or \\"+second+" for the text itself",
			"%s is the second argument, and the first, $0, is not used", second)
	} else if code != "" {
		c.info(CodeArgumentIndex, codeLine, "write \\"+code+" if the program in the code should get it",
			"%s in code is replaced by an argument, if so many are given", code)
	}
}

// files reports links without a target, absolute paths, and scripts that cannot be run.
func (c *checker) files() {
	c.links()
	c.absolutePaths()
	err := filepath.WalkDir(c.dir, func(file string, d fs.DirEntry, err error) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			return nil // unreadable files are reported where they are linked
		}
		if d.IsDir() && file != c.dir && (d.Name()[0] == '.' || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		rel, _ := filepath.Rel(c.dir, file)
		rel = filepath.ToSlash(rel)
		if d.Type()&fs.ModeSymlink != 0 {
			if !isBelow(c.dir, file) {
				c.warn(CodeSymlinkOutside, 0, 0, "copy the file into the skill",
					"%s is a link that leads out of the skill, or is broken", plain.Line(rel))
			}
			return nil
		}
		if d.Type().IsRegular() && strings.HasPrefix(rel, "scripts/") && runtime.GOOS != "windows" {
			if info, err := d.Info(); err == nil && info.Mode()&0o111 == 0 && hasShebang(file) && runsDirectly(c.body, rel) {
				c.warn(CodeNotExecutable, 0, 0, "chmod +x "+plain.Line(rel), "%s is run as a command, but is not executable",
					plain.Line(rel))
			}
		}
		return nil
	})
	if err != nil {
		c.problem(CodeUnreadable, Error, 0, 0, "check its permissions", "%v", err)
	}
}

// runsDirectly reports whether a text runs a script as a command, without an
// interpreter: its path is at the start of a line of code or after a separator.
func runsDirectly(text, rel string) bool {
	for line := range strings.Lines(text) {
		for from := 0; ; {
			i := strings.Index(line[from:], rel)
			if i < 0 {
				break
			}
			i += from
			from = i + len(rel)
			begin := strings.LastIndexAny(line[:i], " \t`;|&(\"'") + 1
			switch before := strings.TrimSpace(strings.TrimRight(line[:begin], "\"' \t")); {
			case before == "" && begin < i, before == "$": // ./scripts/x, ${CLAUDE_SKILL_DIR}/scripts/x
				return true
			case before != "" && strings.IndexByte("`;|&(", before[len(before)-1]) >= 0:
				return true
			}
		}
	}
	return false
}

// links reports links to files that do not exist. If there is more than one and no
// linked file of the skill exists at all, they are reported as one Problem.
func (c *checker) links() {
	type missing struct {
		target string
		line   int
	}
	var dead []missing
	found := 0
	seen := map[string]bool{}
	for i, line := range c.paragraphs() {
		for _, target := range links(withoutCode(line)) {
			target, ok := localTarget(target)
			if !ok || seen[target] {
				continue
			}
			seen[target] = true
			if _, err := os.Stat(filepath.Join(c.dir, filepath.FromSlash(target))); err == nil {
				found++
			} else {
				dead = append(dead, missing{target, c.line + i})
			}
		}
	}
	if len(dead) > 1 && found == 0 {
		c.warn(CodeBrokenLink, dead[0].line, 0, "add the files; were they left out when the skill was copied?",
			"none of the %d linked files exists: %s, …", len(dead), plain.Line(dead[0].target))
		return
	}
	for _, d := range dead {
		c.warn(CodeBrokenLink, d.line, 0, "correct the link or add the file", "%s does not exist", plain.Line(d.target))
	}
}

// localTarget returns the file that a link points to, relative to the skill; ok is false
// for addresses, placeholders and anchors.
func localTarget(target string) (file string, ok bool) {
	target, _, _ = strings.Cut(target, "#")
	for _, dir := range []string{"${CLAUDE_SKILL_DIR}/", "${SKILL_DIR}/", "{baseDir}/", "./"} {
		target = strings.TrimPrefix(target, dir)
	}
	if target == "" || strings.ContainsAny(target, "<>${}*[]|…") || strings.Contains(target, "...") ||
		strings.HasPrefix(target, "/") {
		return "", false
	}
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" {
		return "", false
	}
	// A bare word without an extension is usually a placeholder such as "url" or "path".
	if ext := path.Ext(u.Path); ext == "" && !strings.Contains(u.Path, "/") || strings.Contains(u.Path, "path/to") {
		return "", false
	}
	return u.Path, u.Path != ""
}

// isBelow reports whether a path, after following links, is below dir.
func isBelow(dir, file string) bool {
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
	f, err := regular.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var two [2]byte
	n, _ := f.Read(two[:])
	return n == 2 && two == [2]byte{'#', '!'}
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

// absolutePaths reports paths into one person's home directory, once for each home.
func (c *checker) absolutePaths() {
	seen := map[string]bool{}
	for i, line := range strings.Split(c.body, "\n") {
		for _, prefix := range []string{"/Users/", "/home/", `:\Users\`} {
			for at := 0; ; {
				n := strings.Index(line[at:], prefix)
				if n < 0 {
					break
				}
				at += n + len(prefix)
				home, file := homePath(line, at-len(prefix), prefix)
				if home == "" || seen[home] {
					continue
				}
				seen[home] = true
				c.warn(CodeAbsolutePath, c.line+i, 0, "write it relative to the skill, as ${CLAUDE_SKILL_DIR}/…, or with ~",
					"%s is a path in one user's home directory", plain.Line(file))
			}
		}
	}
}

// homePath returns the path that begins with prefix at an offset of a line if it is in a
// user's home directory, and that directory as home. Homes in containers and user names
// of examples do not count.
func homePath(line string, at int, prefix string) (home, file string) {
	if prefix[0] == '/' && at > 0 {
		if r, _ := utf8.DecodeLastRuneInString(line[:at]); unicode.IsLetter(r) || unicode.IsDigit(r) ||
			strings.ContainsRune("/.}>~_-$", r) {
			return "", "" // part of a longer path or an address
		}
	}
	rest := line[at+len(prefix):]
	end := strings.IndexFunc(rest, func(r rune) bool { return strings.ContainsRune(" \t\r\"'`)<>,;|", r) })
	if end < 0 {
		end = len(rest)
	}
	name, below, deeper := strings.Cut(strings.ReplaceAll(rest[:end], `\`, "/"), "/")
	if !deeper || below == "" || exampleName(name) {
		return "", ""
	}
	end += at + len(prefix)
	if prefix[0] == ':' {
		at = max(0, at-1) // include the drive letter
	}
	return prefix + name, line[at:end]
}

// exampleName reports whether a user name is a placeholder or the user of a container.
func exampleName(name string) bool {
	name = strings.ToLower(name)
	if name == "" || strings.ContainsAny(name, "[]{}$%*…:") || strings.Contains(name, "...") {
		return true
	}
	for _, part := range []string{"user", "your", "name", "example", "xxx"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	switch name {
	case "me", "you", "claude", "node", "ubuntu", "debian", "runner", "vscode", "coder", "dev", "developer", "app",
		"admin", "root", "agent", "sandbox", "foo", "bar", "test", "demo", "someone", "somebody", "john", "jane", "alice",
		"bob", "jdoe", "johndoe", "janedoe", "person", "shared", "public", "all", "default", "linuxbrew", "git", "www", "pi",
		"steam", "jovyan", "gitpod", "codespace", "work", "project", "shares", "data", "path", "abc", "joe", "jim", "x", "u",
		"a":
		return true
	}
	return false
}

// FindSkills returns the skills at a path: the path itself if it is a skill or a
// SKILL.md, otherwise the skill directories below it, up to six levels deep. Hidden
// directories and node_modules are skipped.
func FindSkills(root string) ([]string, error) {
	if file, problem := skillFile(root); problem == nil {
		if strings.EqualFold(filepath.Base(file), "SKILL.md") {
			return []string{filepath.Dir(file)}, nil
		}
		return []string{file}, nil
	}
	var found, passed []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if p != root && (d.Name()[0] == '.' || d.Name() == "node_modules" || strings.Count(filepath.ToSlash(rel), "/") >= 6) {
			if d.Name() != ".git" && d.Name() != "node_modules" {
				passed = append(passed, p)
			}
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
	if len(found) > 0 {
		return found, nil
	}
	for _, p := range passed {
		if _, err := FindSkills(p); err != nil {
			continue
		}
		why := "which is more than six directories down"
		if filepath.Base(p)[0] == '.' {
			why = "whose name begins with a dot"
		}
		return nil, fmt.Errorf("%s contains no skill outside of %s, %s; name that directory", root, p, why)
	}
	return nil, fmt.Errorf("%s contains no skill", root)
}
