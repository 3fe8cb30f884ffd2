package diagnose

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A Server is the definition of a language server.
type Server struct {
	Name      string            // the program
	Args      []string          // with the program
	From      string            // the setting, or the plugin
	Languages map[string]string // by extension of a file, such as .go, the language as the protocol calls it
	// Missing says why the program cannot be started; "": it was found.
	Missing string

	env      []string // NAME=value
	dir      string   // of the plugin, which it may read
	options  json.RawMessage
	settings json.RawMessage
}

// set is what the settings say, see engine/project/config.
type set struct {
	LanguageServers map[string]string `json:"languageServers"`
	Formatters      map[string]string `json:"formatters"`
}

// maxServers is how many run at once.
const maxServers = 8

// Defined returns the language servers that settings and plugins define, and what is wrong with their definitions.
// Those of settings come first: an extension belongs to the first that names it.
func Defined(p *engine.Project) (all []*Server, problems []knack.Problem) {
	var s set
	if err := p.ReadSettings(&s); err != nil {
		return nil, []knack.Problem{{Code: knack.CodeUnreadable, Severity: knack.Warn, Message: err.Error()}}
	}
	for _, extensions := range slices.Sorted(maps.Keys(s.LanguageServers)) {
		args := strings.Fields(s.LanguageServers[extensions])
		if len(args) == 0 {
			continue // an extension that a file of less precedence gives to a server
		}
		server := &Server{Name: filepath.Base(args[0]), Args: args, From: "the setting languageServers",
			Languages: map[string]string{}}
		for e := range strings.FieldsSeq(extensions) {
			server.Languages[extension(e)] = languageOf(extension(e))
		}
		all = append(all, server)
	}
	for _, plugin := range p.Brought.Plugins {
		for _, data := range plugin.LanguageServers {
			found, err := parse(data, plugin)
			if err != nil {
				problems = append(problems, knack.Problem{Code: knack.CodePluginInvalid, Severity: knack.Warn, Path: plugin.Dir,
					Message: "Language servers of the plugin " + plugin.Name + " are left out: " + err.Error()})
			}
			all = append(all, found...)
		}
	}
	for _, s := range all {
		s.find()
	}
	return all, problems
}

// parse reads definitions in the format of Claude Code's plugins.
func parse(data []byte, p engine.PluginDir) (all []*Server, err error) {
	var in map[string]struct {
		Command               string            `json:"command"`
		Args                  []string          `json:"args"`
		ExtensionToLanguage   map[string]string `json:"extensionToLanguage"`
		Transport             string            `json:"transport"`
		Env                   map[string]string `json:"env"`
		InitializationOptions json.RawMessage   `json:"initializationOptions"`
		Settings              json.RawMessage   `json:"settings"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	fill := strings.NewReplacer("${CLAUDE_PLUGIN_ROOT}", p.Dir, "${PLUGIN_ROOT}", p.Dir)
	for _, name := range slices.Sorted(maps.Keys(in)) {
		d := in[name]
		if d.Command == "" || d.Transport != "" && d.Transport != "stdio" {
			return nil, fmt.Errorf("%s: a language server needs a command, and speaks on its standard input and output",
				plain.Line(name))
		}
		s := &Server{Name: name, Args: []string{fill.Replace(d.Command)}, From: "the plugin " + p.Name, dir: p.Dir,
			Languages: map[string]string{}, options: d.InitializationOptions, settings: d.Settings}
		for _, a := range d.Args {
			s.Args = append(s.Args, fill.Replace(a))
		}
		for _, k := range slices.Sorted(maps.Keys(d.Env)) {
			s.env = append(s.env, k+"="+fill.Replace(d.Env[k]))
		}
		for e, language := range d.ExtensionToLanguage {
			s.Languages[extension(e)] = language
		}
		if rel := s.Args[0]; strings.ContainsRune(rel, '/') && !filepath.IsAbs(rel) {
			s.Args[0] = filepath.Join(p.Dir, rel)
			if !subpath.Contains(p.Dir, s.Args[0]) {
				return nil, fmt.Errorf("%s: %q is not a file of the plugin", plain.Line(name), rel)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// Formatters lists the formatters that settings define, each as a Server whose languages have no name.
func Formatters(p *engine.Project) (all []*Server) {
	var s set
	if p.ReadSettings(&s) != nil {
		return nil // Defined says so
	}
	for _, extensions := range slices.Sorted(maps.Keys(s.Formatters)) {
		args := strings.Fields(s.Formatters[extensions])
		if len(args) == 0 {
			continue // an extension that a file of less precedence gives to a formatter
		}
		f := &Server{Name: filepath.Base(args[0]), Args: args, From: "the setting formatters", Languages: map[string]string{}}
		for e := range strings.FieldsSeq(extensions) {
			f.Languages[extension(e)] = ""
		}
		f.find()
		all = append(all, f)
	}
	return all
}

// find looks for the program.
func (s *Server) find() {
	if _, err := exec.LookPath(s.Args[0]); err != nil {
		s.Missing = "there is no program " + plain.Line(s.Args[0])
	}
}

func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Unused returns settings for well-known language servers that are installed and whose languages have none.
func Unused(defined []*Server) (settings []string) {
	for _, known := range [...][2]string{
		{".go", "gopls"}, {".ts .tsx .js .jsx", "typescript-language-server --stdio"}, {".py", "pyright-langserver --stdio"},
		{".rs", "rust-analyzer"}, {".c .cc .cpp .h", "clangd"},
	} {
		first, _, _ := strings.Cut(known[0], " ")
		program, _, _ := strings.Cut(known[1], " ")
		if slices.ContainsFunc(defined, func(s *Server) bool { _, ok := s.Languages[first]; return ok }) {
			continue
		}
		// A link to rustup only says how to install the program.
		if path, err := exec.LookPath(program); err == nil && filepath.Base(realPath(path)) != "rustup" {
			settings = append(settings, fmt.Sprintf(`{"languageServers": {%q: %q}}`, known[0], known[1]))
		}
	}
	return settings
}

// extension returns how a definition spells the extension of a file: with a dot, in lower case.
func extension(e string) string { return "." + strings.ToLower(strings.TrimLeft(e, ".*")) }

// languageOf returns what the protocol calls the language of files with an extension; servers that know one language do
// not look at it.
func languageOf(extension string) string {
	switch extension {
	case ".ts", ".mts", ".cts":
		return "typescript"
	case ".tsx":
		return "typescriptreact"
	case ".js", ".mjs", ".cjs":
		return "javascript"
	case ".jsx":
		return "javascriptreact"
	case ".py", ".pyi":
		return "python"
	case ".rs":
		return "rust"
	case ".rb":
		return "ruby"
	case ".h":
		return "c"
	case ".cc", ".cxx", ".hpp":
		return "cpp"
	case ".cs":
		return "csharp"
	case ".kt":
		return "kotlin"
	case ".sh":
		return "shellscript"
	}
	return strings.TrimPrefix(extension, ".")
}
