package installer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A target is what the user wants to install.
type target struct {
	given  install.Given
	name   string // "": as the tree says
	id     string // "": NAME@direct
	entry  json.RawMessage
	relock bool // the project's lock will record it, whatever it records now
	// replaces is what it was called when it was installed; "": the same.
	replaces string
}

// find finds what the user typed for a plugin.
func (x *Installer) find(arg string) (target, error) {
	if name, market, ok := install.Split(arg); ok {
		if _, err := os.Stat(arg); err != nil {
			source := "SOURCE"
			if known, err := x.known(market); known != nil || err != nil {
				source = market
			}
			return listed(x.Store, name, market, source)
		}
	}
	given, err := typedSource(arg)
	return target{given: given, name: strings.TrimSuffix(filepath.Base(strings.TrimRight(arg, "/")), ".git")}, err
}

// listed finds a plugin in a marketplace. source is what adds the marketplace.
func listed(s *install.Store, name, market, source string) (target, error) {
	known, err := s.Marketplaces()
	if err != nil {
		return target{}, err
	}
	m, ok := known[market]
	if !ok {
		return target{}, &engine.Error{Err: fmt.Errorf("there is no marketplace %s", market),
			Hint: "knack plugin marketplace add " + source}
	}
	list, err := s.List(m)
	if err != nil {
		return target{}, err
	}
	e, ok := list.Find(name)
	if !ok {
		err := fmt.Errorf("the marketplace %s has no plugin %s", market, name)
		if why := list.WhyLeftOut(name); why != "" {
			err = fmt.Errorf("the plugin %s of the marketplace %s cannot be installed: %s", name, market, why)
		}
		return target{}, &engine.Error{Err: err, Hint: "knack plugin marketplace list " + market}
	}
	return target{given: s.Listed(m, e), name: e.Name, id: e.Name + "@" + market, entry: e.JSON}, nil
}

// hasArchiveName reports whether a path or address is that of an archive.
func hasArchiveName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{".skill", ".zip", ".tar.gz", ".tgz"}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}

// typedSource reads a source that the user typed: a directory, the address of a repository, OWNER/NAME on GitHub, each
// with #REF for a branch, tag or commit, an archive, as a file or address, with #sha256=HEX, or npm:PACKAGE@VERSION.
func typedSource(arg string) (install.Given, error) {
	g := install.Given{Typed: true}
	if info, err := os.Stat(arg); err == nil {
		abs, err := filepath.Abs(arg)
		g.Source = plugin.Source{Kind: plugin.Path, Path: abs}
		if !info.IsDir() {
			if g.Kind = plugin.Archive; !hasArchiveName(arg) {
				return g, engine.Usagef("knack plugin add --help", "%s is neither a directory nor an archive", plain.Line(arg))
			}
		}
		return g, err
	}
	if name, ok := strings.CutPrefix(arg, "npm:"); ok {
		g.Source = plugin.Source{Kind: plugin.NPM, Package: name}
		if at := strings.LastIndexByte(name, '@'); at > 0 {
			g.Package, g.Version = name[:at], name[at+1:]
		}
		return g, g.Check()
	}
	address, ref, _ := strings.Cut(arg, "#")
	g.Source = plugin.Source{Kind: plugin.Git, URL: address, Ref: ref}
	if plugin.IsCommit(ref) {
		g.Ref, g.SHA = "", ref
	}
	u, err := url.Parse(address)
	switch {
	case strings.HasPrefix(arg, "-"):
	case err == nil && (u.Scheme == "https" || u.Scheme == "http") && hasArchiveName(u.Path):
		g.Source = plugin.Source{Kind: plugin.Archive, URL: address,
			Digest: strings.ToLower(strings.TrimPrefix(ref, "sha256="))}
		return g, nil
	case err == nil && slices.Contains([]string{"https", "http", "ssh", "file"}, u.Scheme):
		return g, nil
	case err == nil && u.Scheme == "" && strings.Count(address, "/") == 1 && !strings.HasPrefix(address, "."):
		g.URL = "https://github.com/" + address + ".git"
		return g, g.Check()
	case strings.Contains(address, "@") && strings.Contains(address, ":"): // git@host:path
		return g, nil
	}
	return g, engine.Usagef("knack plugin add --help", "%s: no such directory, and not the address of a repository",
		plain.Line(arg))
}

// skillSource reads what the user typed for a skill.
func skillSource(arg, name string) (install.Given, error) {
	g := install.Given{Typed: true}
	if info, err := os.Stat(arg); err == nil {
		abs, err := filepath.Abs(arg)
		g.Source = plugin.Source{Kind: plugin.Path, Path: abs}
		switch {
		case err != nil || name == "":
		case info.IsDir():
			g.Source.Path, err = skillIn(abs, name)
		default:
			err = engine.Usagef("unzip it, then knack skill add DIR "+plain.Line(name),
				"%s: a skill in a file cannot be named", plain.Line(arg))
		}
		if !info.IsDir() {
			g.Kind = plugin.Archive
		}
		return g, err
	}
	address, part, _ := strings.Cut(arg, "#")
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") {
		switch lower := strings.ToLower(u.Path); {
		case hasArchiveName(lower):
			g.Source = plugin.Source{Kind: plugin.Archive, URL: address, Path: name,
				Digest: strings.ToLower(strings.TrimPrefix(part, "sha256="))}
			return g, nil
		case strings.Trim(lower, "/") == "", strings.HasSuffix(lower, "/index.json"):
			if name == "" {
				return g, engine.Usagef("knack skill add "+plain.Line(address)+" NAME", "%s has several skills: which one?",
					plain.Line(address))
			}
			g.Source = plugin.Source{Kind: plugin.Index, URL: address, Skill: name}
			return g, nil
		}
	}
	g, err = typedSource(arg)
	g.Source.Path = name
	return g, err
}

// placeName is the name of the directory, file or entry that a skill comes from.
func placeName(g install.Given) string {
	if g.Skill != "" {
		return g.Skill
	}
	name := path.Base(filepath.ToSlash(cmp.Or(g.Source.Path, g.URL)))
	for _, ext := range []string{".skill", ".zip", ".tar.gz", ".tgz", ".git"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// installed is where an update of an installed plugin comes from.
func (x *Installer) installed(id string, it *install.Item) (target, error) {
	name, market, ok := install.Split(id)
	if ok && it.From != nil {
		return listed(x.Store, name, market, "SOURCE")
	}
	return target{given: install.Given{Source: it.Source, Typed: it.From == nil, From: it.From}, name: name, id: id}, nil
}

// known returns the source of a marketplace of the settings; nil: they have none of this name.
func (x *Installer) known(name string) (*plugin.Source, error) {
	if x.Known == nil {
		return nil, nil
	}
	return x.Known(name)
}

// marketplaceSource is the source of a marketplace: one of the settings, or what the user typed.
func (x *Installer) marketplaceSource(arg string) (install.Given, error) {
	if src, err := x.known(arg); src != nil || err != nil {
		return install.Given{Source: *cmp.Or(src, &plugin.Source{})}, err
	}
	return typedSource(arg)
}

// nothingUsed is the error for a tree that brings nothing.
func nothingUsed(ctx context.Context, st *install.Staged) error {
	hint := "knack plugin validate DIR"
	if root, err := regular.Root(st.Dir); err == nil {
		if m, _ := plugin.ReadMarketplace(plugin.FS(root)); m != nil {
			hint = "it is a marketplace: knack plugin marketplace add"
		}
		root.Close()
	}
	if len(st.Plugin.Extensions) > 0 {
		hint = "a tool: knack tool new; a hook: knack help hooks; a command: a file in ~/.config/knack/prompts"
	}
	err := errors.New("it brings nothing that this program can use")
	if unused := install.Describe(ctx, st.Plugin, st.Dir).Unused; len(unused) > 0 {
		err = fmt.Errorf("%w: it has %s", err, strings.Join(unused, "; "))
	}
	return &engine.Error{Err: err, Hint: hint}
}
