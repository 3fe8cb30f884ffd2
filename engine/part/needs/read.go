package needs

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/fences"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/scripts"
)

// How much of a skill is read.
const (
	maxScripts = 60
	maxScript  = 256 << 10
)

// Says returns the commands of a skill's own text and metadata that install programs. Nobody has looked at them.
func Says(ctx context.Context, k *knack.Skill) []string {
	r := reader{seen: map[Need]bool{}}
	for _, x := range engine.RequiredOf(k) {
		for _, i := range x.Installs {
			r.installs(strings.Fields(i.Command()))
		}
	}
	if body, err := k.Body(ctx); err == nil {
		r.commands(body)
	}
	return r.says
}

// read returns what a skill needs as its text and files show it.
func read(ctx context.Context, k *knack.Skill) []Need {
	r := reader{seen: map[Need]bool{}, known: programs()}
	r.required(k)
	for _, f := range k.Fields() {
		var text string
		if f.Key == "compatibility" && json.Unmarshal(f.Value, &text) == nil {
			r.compatibility(text)
		}
	}
	if body, err := k.Body(ctx); err == nil {
		r.commands(body)
	}
	r.named(k)
	r.files(ctx, k)
	return r.all
}

type reader struct {
	all   []Need
	says  []string // commands of the skill's text and metadata that install something
	used  []string // the first words of the commands in its text
	seen  map[Need]bool
	known map[string]program
}

func (r *reader) add(n Need) {
	key := Need{Kind: n.Kind, Name: n.Name}
	if !r.seen[key] {
		r.seen[key] = true
		r.all = append(r.all, n)
	}
}

// program adds a program if it is among programs.
func (r *reader) program(name, from string) {
	if name == "python" || name == "pip" || name == "pip3" {
		name = "python3"
	}
	if _, ok := r.known[name]; ok {
		r.add(Need{Kind: Program, Name: name, From: from})
	}
}

// compatibility reads a sentence such as "Requires git, docker and Python 3.11+".
func (r *reader) compatibility(text string) {
	lower := strings.ToLower(text)
	if !strings.Contains(lower, "require") && !strings.Contains(lower, "need") {
		return
	}
	const from = "compatibility"
	if m := regexp.MustCompile(`\bpython ?(?:>= ?)?(3\.[0-9]+)`).FindStringSubmatch(lower); m != nil {
		r.add(Need{Kind: Program, Name: "python3", Min: m[1], From: from})
	}
	if m := regexp.MustCompile(`\bnode(?:\.?js)? ?(?:>= ?)?v?([0-9]+)`).FindStringSubmatch(lower); m != nil {
		r.add(Need{Kind: Program, Name: "node", Min: m[1], From: from})
	}
	for _, word := range regexp.MustCompile(`[a-z0-9][a-z0-9-]*`).FindAllString(lower, 200) {
		switch word {
		case "go", "make", "convert", "dot", "fd", "op", "az", "gs", "swift", "node": // also other words
		case "nodejs":
			r.program("node", from)
		default:
			r.program(word, from)
		}
	}
}

// commands reads the commands in the code blocks of a text.
func (r *reader) commands(body string) {
	marker, shell := "", false
	var block strings.Builder
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		bare := strings.TrimLeft(line, " ")
		switch {
		case marker == "":
			if marker = fences.Opens(bare); marker != "" {
				info, _, _ := strings.Cut(strings.TrimSpace(bare[len(marker):]), " ")
				shell = slices.Contains([]string{"bash", "sh", "shell", "zsh", "console", "shell-session"}, strings.ToLower(info))
				block.Reset()
			}
		case fences.Closes(bare, marker):
			if shell {
				r.shell(block.String(), "SKILL.md")
			}
			marker = ""
		default:
			block.WriteString(strings.TrimPrefix(bare, "$ ") + "\n")
		}
	}
}

// shell adds the programs of a text of commands. Where that is no shell text as a whole, each line is read.
func (r *reader) shell(text, from string) {
	calls := scripts.Words(text)
	if calls == nil {
		for line := range strings.Lines(text) {
			calls = append(calls, scripts.Words(line)...)
		}
	}
	for _, words := range calls {
		for len(words) > 1 && (words[0] == "sudo" || words[0] == "env" || words[0] == "exec" || words[0] == "time") {
			words = words[1:]
		}
		r.program(words[0], from)
		if from == "SKILL.md" {
			r.used = append(r.used, words[0])
			r.installs(words)
		}
	}
}

// named adds those commands of the text that are certainly programs, although they are not among programs: the skill
// has their name, is granted them, or says how they are installed.
func (r *reader) named(k *knack.Skill) {
	program := regexp.MustCompile(`^[a-z][a-z0-9_-]{2,40}$`)
	for _, name := range r.used {
		granted := func(rule string) bool {
			return strings.HasPrefix(rule, "Bash("+name+" ") || strings.HasPrefix(rule, "Bash("+name+":")
		}
		if program.MatchString(name) && (name == k.Name ||
			slices.ContainsFunc(k.AllowedTools, granted) ||
			slices.ContainsFunc(r.says, func(line string) bool { return gives(line, name) })) {
			r.add(Need{Kind: Program, Name: name, From: "SKILL.md"})
		}
	}
}

// gives reports whether a command that installs has a package of the name of a program.
func gives(line, name string) bool {
	for _, pack := range strings.Fields(line)[2:] {
		base := strings.TrimSuffix(path.Base(pack), ".git")
		if i := strings.LastIndexAny(base, "@="); i > 0 {
			base = strings.Trim(base[:i], "@=")
		}
		if base == name || base == name+"-cli" {
			return true
		}
	}
	return false
}

// installs keeps a command that installs packages, if it has nothing but their names.
func (r *reader) installs(words []string) {
	if slices.Contains(words, "") { // the shell would expand it
		return
	}
	line := strings.Join(words, " ")
	pack := regexp.MustCompile(`^[A-Za-z0-9@][A-Za-z0-9@_.+/:=-]*$`)
	for _, start := range []string{"npm install -g ", "npm i -g ", "pip install ", "pip3 install ", "pipx install ",
		"uv tool install ", "brew install ", "go install ", "cargo install ", "gem install "} {
		names, ok := strings.CutPrefix(line, start)
		if !ok || slices.Contains(r.says, line) || len(r.says) == maxSays {
			continue
		}
		if !slices.ContainsFunc(strings.Fields(names), func(name string) bool { return !pack.MatchString(name) }) {
			r.says = append(r.says, line)
		}
	}
}

// maxSays is how many commands of a skill that install something are shown.
const maxSays = 5

// files reads the scripts of a skill, and its package.json.
func (r *reader) files(ctx context.Context, k *knack.Skill) {
	names, err := k.Resources(ctx)
	if err != nil || k.Dir == "" || k.ReadFile != nil {
		return
	}
	root, err := regular.Root(k.Dir)
	if err != nil {
		return
	}
	defer root.Close()
	own := map[string]bool{} // modules that the skill brings
	for _, name := range names {
		for part := range strings.SplitSeq(strings.TrimSuffix(name, ".py"), "/") {
			own[part] = own[part] || strings.HasSuffix(name, ".py")
		}
	}
	left := maxScripts
	for _, name := range names {
		base, ext := path.Base(name), path.Ext(name)
		code := slices.Contains([]string{".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".php", ""}, ext)
		if base != "package.json" && base != "requirements.txt" && !code || left == 0 {
			continue
		}
		left--
		data, err := regular.ReadIn(root, filepath.FromSlash(name), maxScript)
		if err != nil {
			continue
		}
		switch {
		case base == "package.json":
			r.packages(data, name)
		case base == "requirements.txt":
			r.requirements(string(data), name)
		default:
			r.script(data, name, ext, own)
		}
	}
}

// script adds what one program needs.
func (r *reader) script(data []byte, name, ext string, own map[string]bool) {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	line, hasBang := strings.CutPrefix(strings.TrimSpace(string(first)), "#!")
	words := strings.Fields(line)
	if hasBang && len(words) > 0 {
		if path.Base(words[0]) == "env" {
			words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") })
		}
		if len(words) > 0 {
			r.program(path.Base(words[0]), name)
		}
	} else if ext == "" {
		return
	}
	text := string(data)
	switch {
	case ext == ".py" || hasBang && strings.Contains(line, "python"):
		r.python(text, name, own)
	case ext == ".sh" || ext == ".bash" || hasBang && strings.Contains(line, "sh"):
		r.shell(text, name)
	case ext == ".js" || ext == ".mjs":
		r.program("node", name)
	case ext == ".rb":
		r.program("ruby", name)
	case ext == ".php":
		r.program("php", name)
	}
}

// python adds the modules that a script imports when it begins. With an inline block of dependencies (PEP 723), uv gets
// them.
func (r *reader) python(text, name string, own map[string]bool) {
	if strings.Contains(text, "\n# /// script") || strings.HasPrefix(text, "# /// script") {
		r.program("uv", name)
		return
	}
	r.program("python3", name)
	imports := regexp.MustCompile(`(?m)^(?:import|from) +([A-Za-z_][A-Za-z0-9_]*)`)
	for _, m := range imports.FindAllStringSubmatch(text, 200) {
		if !own[m[1]] {
			r.add(Need{Kind: Python, Name: m[1], From: name})
		}
	}
}

// requirements adds the lines of a requirements.txt.
func (r *reader) requirements(text, name string) {
	r.program("python3", name)
	byPip := map[string]string{}
	for module, pip := range modules() {
		byPip[pip] = module
	}
	distribution := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*`)
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		m := distribution.FindString(strings.TrimSpace(line))
		if m == "" {
			continue
		}
		lower := strings.ToLower(m)
		module, ok := byPip[lower]
		if !ok {
			module = strings.ReplaceAll(strings.ReplaceAll(lower, "-", "_"), ".", "_")
		}
		r.add(Need{Kind: Python, Name: module, From: name})
	}
}

// packages adds the dependencies of a package.json.
func (r *reader) packages(data []byte, name string) {
	var p struct {
		Dependencies map[string]any `json:"dependencies"`
	}
	if json.Unmarshal(data, &p) != nil || len(p.Dependencies) == 0 {
		return
	}
	r.program("npm", name)
	pattern := requirement()
	for _, dep := range slices.Sorted(maps.Keys(p.Dependencies)) {
		if pattern.MatchString(dep) {
			r.add(Need{Kind: NPM, Name: dep, From: name})
		}
	}
}

// required adds the programs that a skill names for other agents.
func (r *reader) required(k *knack.Skill) {
	pattern := requirement()
	for _, x := range engine.RequiredOf(k) {
		for _, name := range x.Programs {
			if m := pattern.FindStringSubmatch(name); m != nil {
				r.add(Need{Kind: Program, Name: m[1], Min: m[2], From: "metadata." + x.Name + ".requires"})
			}
		}
	}
}
