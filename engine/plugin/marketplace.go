package plugin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// MarketplaceFiles are the places of a marketplace's list in its tree, in order of precedence.
var MarketplaceFiles = []string{".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json",
	".github/plugin/marketplace.json", "marketplace.json"}

// A Marketplace is a list of plugins.
type Marketplace struct {
	Name    string
	Owner   string
	File    string // where the list is
	Entries []Entry
	Renames map[string]string // old name → new name; "": the plugin was removed
	// Problems say which entries are left out, and what else is wrong with the list.
	Problems []knack.Problem
}

// An Entry is one plugin of a list.
type Entry struct {
	Name, Description, Version string
	Source                     Source
	JSON                       json.RawMessage // the whole entry, for [Options]
}

// Find returns the entry of a plugin, also under an old name.
func (m *Marketplace) Find(name string) (Entry, bool) {
	for range 10 { // renames may follow each other
		i := slices.IndexFunc(m.Entries, func(e Entry) bool { return e.Name == name })
		if i >= 0 {
			return m.Entries[i], true
		}
		next, ok := m.Renames[name]
		if !ok || next == "" {
			break
		}
		name = next
	}
	return Entry{}, false
}

// A Kind is a kind of source.
type Kind string

const (
	Path    Kind = "path"    // a directory: of the marketplace, or of this machine
	Git     Kind = "git"     // a repository
	Archive Kind = "archive" // an address of a .zip or .tar.gz
	NPM     Kind = "npm"     // a package
	Index   Kind = "index"   // a .well-known/agent-skills/index.json
)

// A Source is where the tree of a plugin or skill is. In JSON it has the form of a marketplace's
// entry, with these names for all kinds.
type Source struct {
	Kind    Kind   `json:"source"`
	Path    string `json:"path,omitempty"`     // of Path; in a Git repository or an Archive: the directory of the plugin
	URL     string `json:"url,omitempty"`      // of Git, Archive and Index
	Ref     string `json:"ref,omitempty"`      // of Git: a branch or tag; "": the default branch
	SHA     string `json:"sha,omitempty"`      // of Git: the commit; it decides if there is a Ref, too
	Digest  string `json:"sha256,omitempty"`   // of Archive: of its bytes, in hex
	Package string `json:"package,omitempty"`  // of NPM
	Version string `json:"version,omitempty"`  // of NPM; "": the latest
	Host    string `json:"registry,omitempty"` // of NPM: the registry's address; "": the public one
	Skill   string `json:"skill,omitempty"`    // of Index: the name of the skill
}

// String describes the source in one line.
func (s Source) String() string {
	text := cmp.Or(s.URL, s.Package, s.Path)
	if s.Kind == NPM {
		text = "npm:" + s.Package
		if s.Version != "" {
			text += "@" + s.Version
		}
	}
	if s.Kind != Path && s.Path != "" {
		text += " (" + s.Path + ")"
	}
	if at := cmp.Or(s.SHA, s.Ref); at != "" {
		text += " at " + at
	}
	if s.Skill != "" {
		text += " (" + s.Skill + ")"
	}
	return plain.Line(text)
}

// IsCommit reports whether a text is the whole name of a commit.
func IsCommit(text string) bool { return isCommit().MatchString(text) }

// IsRepository reports whether a text is OWNER/NAME on GitHub.
func IsRepository(text string) bool { return repository().MatchString(text) }

// WhyLeftOut returns why a plugin of the list is not among the entries; "": it is, or is not in the list.
func (m *Marketplace) WhyLeftOut(name string) string {
	for _, p := range m.Problems {
		if why, ok := strings.CutPrefix(p.Message, name+leftOut); ok {
			return why
		}
	}
	return ""
}

// leftOut comes between the name of an entry that is left out and the reason.
const leftOut = " is left out: "

// ReadMarketplace reads a marketplace's list from its tree. An entry that cannot be used is left out, with
// a Problem. The error is about the list as a whole.
func ReadMarketplace(fsys fs.FS) (*Marketplace, error) {
	m := &Marketplace{}
	r := &reader{fsys: fsys, Plugin: &Plugin{}}
	var data []byte
	for _, name := range MarketplaceFiles {
		if m.File != "" {
			if _, err := fs.Stat(fsys, name); err == nil {
				r.problem(knack.CodeDuplicateFile, knack.Info, name, "not used: %s lists the plugins", m.File)
			}
			continue
		}
		if d, ok := r.bigFile(name); ok {
			data, m.File = d, name
		}
	}
	if m.File == "" {
		if len(r.Problems) > 0 {
			return nil, r.Problems[0]
		}
		return nil, fmt.Errorf("there is no marketplace: none of %s exists", strings.Join(MarketplaceFiles, ", "))
	}
	m.Problems = r.Problems
	return m, m.parse(data)
}

// Limits of a list.
const (
	maxMarketplace = 8 << 20 // bytes
	maxEntries     = 10_000
)

func (r *reader) bigFile(name string) ([]byte, bool) {
	info, err := fs.Stat(r.fsys, name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	if info.Size() > maxMarketplace {
		r.problem(knack.CodeTooLarge, knack.Error, name, "larger than %d MiB: not read", maxMarketplace>>20)
		return nil, false
	}
	data, err := fs.ReadFile(r.fsys, name)
	if err != nil {
		r.unreadable(name, err)
		return nil, false
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), true
}

func (m *Marketplace) parse(data []byte) error {
	var top struct {
		Name     string
		Owner    json.RawMessage
		Metadata json.RawMessage
		Plugins  []json.RawMessage
		Renames  json.RawMessage
	}
	if err := json.Unmarshal(jsonc.Plain(data), &top); err != nil {
		return fmt.Errorf("%s: not a JSON object with a list of plugins: %w", m.File, err)
	}
	if !ValidName(top.Name) {
		return fmt.Errorf("%s: %q cannot be the name of a marketplace", m.File, plain.Line(top.Name))
	}
	m.Name = top.Name
	var owner struct{ Name string }
	json.Unmarshal(top.Owner, &owner) // only for display
	m.Owner = plain.Line(owner.Name)
	var meta struct{ PluginRoot string }
	json.Unmarshal(top.Metadata, &meta)
	bad := func(format string, args ...any) {
		m.Problems = append(m.Problems, knack.Problem{Code: knack.CodePluginInvalid, Severity: knack.Warn, Path: m.File,
			Message: fmt.Sprintf(format, args...)})
	}
	var renames map[string]*string
	if json.Unmarshal(top.Renames, &renames) == nil {
		m.Renames = map[string]string{}
		for from, to := range renames {
			if m.Renames[from] = ""; to != nil {
				m.Renames[from] = *to
			}
		}
	} else if top.Renames != nil {
		bad("renames is not an object of names; it was ignored")
	}
	seen := map[string]bool{} // in lower case: a file system may not tell them apart
	for i, raw := range top.Plugins {
		if i == maxEntries {
			bad("only the first %d of %d entries are used", maxEntries, len(top.Plugins))
			break
		}
		var e struct {
			Name        string
			Description json.RawMessage
			Version     json.RawMessage
			Source      json.RawMessage
		}
		switch err := json.Unmarshal(raw, &e); {
		case err != nil:
			bad("entry %d is left out: it is not an object with a name", i+1)
			continue
		case !ValidName(e.Name):
			bad("entry %d is left out: %q cannot be the name of a plugin", i+1, plain.Line(e.Name))
			continue
		case seen[strings.ToLower(e.Name)]:
			bad("%s is listed twice; the first entry counts", e.Name)
			continue
		}
		src, err := parseSource(e.Source, meta.PluginRoot)
		if err != nil {
			bad("%s%s%v", e.Name, leftOut, err)
			continue
		}
		seen[strings.ToLower(e.Name)] = true
		m.Entries = append(m.Entries, Entry{Name: e.Name, Description: plain.Line(text(e.Description)),
			Version: plain.Line(text(e.Version)), Source: src, JSON: raw})
	}
	return nil
}

// ParseSource reads the source of a marketplace in settings, where it may also be a directory of this machine.
func ParseSource(raw json.RawMessage) (Source, error) {
	var dir struct{ Source, Path string }
	if json.Unmarshal(raw, &dir) == nil && (dir.Source == "directory" || dir.Source == "file") {
		if dir.Path == "" || strings.ContainsRune(dir.Path, 0) {
			return Source{}, fmt.Errorf("%q is not a directory", plain.Line(dir.Path))
		}
		if dir.Source == "file" { // DIR/.claude-plugin/marketplace.json
			dir.Path = filepath.Dir(filepath.Dir(dir.Path))
		}
		return Source{Kind: Path, Path: filepath.Clean(dir.Path)}, nil
	}
	return parseSource(raw, "")
}

// parseSource reads the source of an entry. root is the directory that bare names are relative to.
func parseSource(raw json.RawMessage, root string) (Source, error) {
	var relative string
	if raw == nil {
		return Source{}, fmt.Errorf("it has no source")
	}
	if json.Unmarshal(raw, &relative) == nil {
		return relativeSource(relative, root)
	}
	var s struct {
		Source, Repo, URL, Path, Ref, SHA, SHA256, Digest, Package, Version, Registry string
	}
	if json.Unmarshal(raw, &s) != nil {
		return Source{}, errors.New("its source is neither a path nor an object of texts")
	}
	src := Source{Path: s.Path, URL: s.URL, Ref: s.Ref, SHA: strings.ToLower(s.SHA)}
	switch s.Source {
	case "local":
		return relativeSource(s.Path, root)
	case "github":
		if !repository().MatchString(s.Repo) {
			return Source{}, fmt.Errorf("%q is not a repository OWNER/NAME", plain.Line(s.Repo))
		}
		src.Kind, src.URL = Git, "https://github.com/"+s.Repo+".git"
	case "url", "git", "git-subdir":
		src.Kind = Git
		if repository().MatchString(s.URL) {
			src.URL = "https://github.com/" + s.URL + ".git"
		}
	case "archive":
		src = Source{Kind: Archive, URL: s.URL, Path: s.Path,
			Digest: strings.ToLower(strings.TrimPrefix(cmp.Or(s.SHA256, s.Digest), "sha256:"))}
	case "npm":
		src = Source{Kind: NPM, Package: s.Package, Version: s.Version, Host: s.Registry}
	case "command":
		return Source{}, fmt.Errorf("its source is a command, which would run before anything was shown")
	default:
		return Source{}, fmt.Errorf("unknown kind of source %q", plain.Line(s.Source))
	}
	return src, src.Check()
}

func relativeSource(given, root string) (Source, error) {
	name := given
	if !strings.HasPrefix(given, "./") && given != "." && root != "" {
		name = path.Join(root, given)
	}
	name = path.Clean(name)
	if given == "" || strings.ContainsAny(given, "\\\x00") || !fs.ValidPath(name) {
		return Source{}, fmt.Errorf("%q is not a path inside the marketplace", plain.Line(given))
	}
	return Source{Kind: Path, Path: name}, nil
}

// Check returns an error unless the source, which somebody else wrote, is complete and safe to fetch: only
// https, no options in the place of names, no passwords.
func (s Source) Check() error {
	https := func(text string) error {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fmt.Errorf("%q is not an https address", plain.Line(text))
		}
		return nil
	}
	if s.Path != "" && !fs.ValidPath(path.Clean(s.Path)) {
		return fmt.Errorf("%q is not a path inside it", plain.Line(s.Path))
	}
	switch s.Kind {
	case Git:
		if strings.HasPrefix(s.Ref, "-") || strings.ContainsAny(s.Ref, " \t\n:~^?*[\\\x00") || strings.Contains(s.Ref, "..") {
			return fmt.Errorf("%q is not a branch or tag", plain.Line(s.Ref))
		}
		if s.SHA != "" && !isCommit().MatchString(s.SHA) {
			return fmt.Errorf("%q is not a commit", plain.Line(s.SHA))
		}
		return https(s.URL)
	case Archive:
		if !digest().MatchString(s.Digest) {
			return fmt.Errorf("an archive needs its sha256")
		}
		return https(s.URL)
	case Index:
		return https(s.URL)
	case NPM:
		if !npmName().MatchString(s.Package) || strings.ContainsAny(s.Version, "/\t\n?#") {
			return fmt.Errorf("%q is not an npm package", plain.Line(s.Package+"@"+s.Version))
		}
		if s.Host != "" {
			return https(s.Host)
		}
	}
	return nil
}

var (
	isCommit   = pattern(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	digest     = pattern(`^[0-9a-f]{64}$`)
	repository = pattern(`^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_.-]+$`)
	npmName    = pattern(`^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$`)
)

// pattern compiles a regular expression when it is first needed.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
