package plugin

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/hook"
)

// Validate reports what Claude Code 2.1.332 refuses or passes over in a plugin or marketplace that Read and
// ReadMarketplace take: its author wants it to work in both. The rules were found by giving `claude plugin validate` one
// mistake at a time. A [knack.Warn] is what that program refuses; a [knack.Info] is what it, like Knack, passes over.
func Validate(fsys fs.FS) []knack.Problem {
	v := newValidator(fsys)
	if list, ok := v.strict(MarketplaceFiles[0]); ok {
		v.marketplace(list)
	} else if v.isPlugin() {
		v.problem(knack.CodePluginInvalid, knack.Info, v.Manifest, "it does not exist; a plugin without it cannot be published")
	}
	v.plugin()
	return v.Problems
}

type validator struct{ reader }

func newValidator(fsys fs.FS) *validator {
	return &validator{reader{fsys: fsys, Plugin: &Plugin{Manifest: formats[0].manifest}}}
}

func (v *validator) plugin() {
	if fields, ok := v.strict(v.Manifest); ok {
		v.manifest(fields)
	}
	v.hooks()
}

// refused reports what Claude Code refuses.
func (v *validator) refused(file, message string, args ...any) {
	v.problem(knack.CodePluginInvalid, knack.Warn, file, "Claude Code refuses it: "+message, args...)
}

// isPlugin reports whether the tree has a directory of a plugin. Another program's manifest has rules of its own.
func (v *validator) isPlugin() bool {
	return slices.ContainsFunc([]string{plainTree.skills, plainTree.commands, plainTree.agents}, v.isDir) &&
		!slices.ContainsFunc(formats, func(f format) bool { _, err := fs.Stat(v.fsys, f.manifest); return err == nil })
}

// strict reads a JSON object. Read reports one that cannot be read at all.
func (v *validator) strict(name string) (fields map[string]json.RawMessage, ok bool) {
	quiet := reader{fsys: v.fsys, Plugin: &Plugin{}}
	data, ok := quiet.bigFile(name)
	if !ok {
		return nil, false
	}
	if !json.Valid(data) {
		if fields, ok = quiet.object(name); ok {
			v.refused(name, "comments and trailing commas are not JSON")
		}
		return fields, ok
	}
	return fields, json.Unmarshal(data, &fields) == nil && fields != nil
}

// A shape is what the value of a field has to be.
type shape struct {
	what string
	is   func(json.RawMessage) bool
}

func of[V any](what string, also func(V) bool) shape {
	return shape{what, func(raw json.RawMessage) bool {
		var x V
		return string(raw) != "null" && json.Unmarshal(raw, &x) == nil && (also == nil || also(x))
	}}
}

// anything is the shape of what is not looked at here.
func anything() shape { return shape{is: func(json.RawMessage) bool { return true }} }

// either accepts what one of the shapes accepts.
func either(what string, shapes ...shape) shape {
	return shape{what, func(raw json.RawMessage) bool {
		return slices.ContainsFunc(shapes, func(s shape) bool { return s.is(raw) })
	}}
}

func isRelative(p string) bool { return strings.HasPrefix(p, "./") }

func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "")
}

type object = map[string]json.RawMessage

func isPerson(o object) bool { return text(o["name"]) != "" }

// manifestShapes are the fields of a plugin.json.
func manifestShapes() map[string]shape {
	line, any, list := of[string]("a string", nil), anything(), of[[]json.RawMessage]("a list", nil)
	dir := of("a path that begins with ./", isRelative)
	markdown := of("a path that begins with ./ and ends with .md", func(p string) bool {
		return isRelative(p) && strings.HasSuffix(p, ".md")
	})
	each := func(s shape) shape {
		return of(s.what+", or a list of such paths", func(all []json.RawMessage) bool {
			return !slices.ContainsFunc(all, func(raw json.RawMessage) bool { return !s.is(raw) })
		})
	}
	dirs := either("a path that begins with ./, or a list of such paths", dir, each(dir))
	parts := either("a path that begins with ./, an object, or a list", dir, of[object]("", nil), list)
	return map[string]shape{
		"$schema": line, "name": line, "displayName": line, "version": line, "description": line, "license": line,
		"repository": line, "icon": any, "settings": any, "network": any, "engines": any,
		"author":         of("an object with a name", isPerson),
		"homepage":       of("an address such as https://example.com", isAddress),
		"keywords":       of[[]string]("a list of strings", nil),
		"defaultEnabled": of[bool]("true or false", nil),
		"dependencies":   list, "channels": list,
		"skills": dirs, "outputStyles": dirs, "themes": dirs, "workflows": dirs,
		"agents":   either("a path that begins with ./ and ends with .md, or a list of such paths", markdown, each(markdown)),
		"commands": either(dirs.what, dirs, of[object]("", nil)),
		"hooks":    parts, "mcpServers": parts, "monitors": parts,
		"lspServers": either("a path that begins with ./, or servers by name, each with extensionToLanguage and a command "+
			"without blanks: args has the rest", dir, of("", areLanguageServers), list),
		"userConfig":   of("an object whose values have type, title and description", isUserConfig),
		"experimental": of[object]("an object", nil),
	}
}

// entryShapes are the fields that an entry of a marketplace has beside those of a manifest.
func entryShapes() map[string]shape {
	shapes := manifestShapes()
	shapes["source"] = of[json.RawMessage]("a source", nil) // ReadMarketplace looks at it
	shapes["category"], shapes["relevance"] = of[string]("a string", nil), anything()
	shapes["tags"], shapes["strict"] = shapes["keywords"], shapes["defaultEnabled"]
	return shapes
}

func isUserConfig(values map[string]struct{ Type, Title, Description string }) bool {
	for _, x := range values {
		if x.Title == "" || x.Description == "" ||
			!slices.Contains([]string{"string", "number", "boolean", "directory", "file"}, x.Type) {
			return false
		}
	}
	return true
}

func areLanguageServers(all object) bool {
	for _, raw := range all {
		var x struct {
			Command             string
			ExtensionToLanguage object
		}
		if json.Unmarshal(raw, &x) != nil || x.Command == "" || len(x.ExtensionToLanguage) == 0 ||
			x.Command[0] != '/' && strings.Contains(x.Command, " ") {
			return false
		}
	}
	return true
}

// shaped compares an object's fields with their shapes. What names the object in a file of many; "": the file.
func (v *validator) shaped(file, what string, fields object, shapes map[string]shape) {
	for _, name := range sorted(fields) {
		s, known := shapes[name]
		switch {
		case !known:
			hint := ""
			if near := knack.Near(name, sorted(shapes)); len(near) > 0 {
				hint = "; did you mean " + near[0] + "?"
			}
			v.problem(knack.CodePluginInvalid, knack.Info, file, "%s%s is not a field, it has no effect%s", what, name, hint)
		case !s.is(fields[name]):
			v.refused(file, "%s%s is not %s", what, name, s.what)
		}
	}
}

func (v *validator) manifest(fields object) {
	v.shaped(v.Manifest, "", fields, manifestShapes())
	for _, name := range []string{"description", "author", "version"} {
		if fields[name] == nil {
			v.problem(knack.CodePluginInvalid, knack.Info, v.Manifest, "%s is missing; people see it before they install", name)
		}
	}
	var experimental object
	json.Unmarshal(fields["experimental"], &experimental) // something else is reported above
	for _, of := range []object{fields, experimental} {
		for _, name := range []string{"outputStyles", "themes", "workflows", "monitors", "lspServers"} {
			v.present(name, of[name]) // Read looks at the parts that it uses
		}
	}
}

// present reports paths of a field that name nothing.
func (v *validator) present(field string, raw json.RawMessage) {
	list, _ := paths(raw)
	for _, p := range list {
		if name := path.Clean(p); fs.ValidPath(name) {
			if _, err := fs.Stat(v.fsys, name); errors.Is(err, fs.ErrNotExist) {
				v.refused(v.Manifest, "%s: %s does not exist", field, p)
			}
		}
	}
}

// hooks reports a file of hooks whose events are not below the key hooks: Knack reads it, Claude Code does not.
func (v *validator) hooks() {
	fields, ok := v.strict(formats[0].hooks)
	if !ok {
		return
	}
	for _, name := range sorted(fields) {
		if slices.Contains(hook.Events(), hook.Event(name)) {
			v.refused(formats[0].hooks, "%s is not below the key hooks", name)
		}
	}
}

func (v *validator) marketplace(list object) {
	file := MarketplaceFiles[0]
	var entries []json.RawMessage
	if json.Unmarshal(list["plugins"], &entries) != nil || list["plugins"] == nil || entries == nil {
		v.refused(file, "plugins is not a list")
	}
	any := anything()
	v.shaped(file, "", list, map[string]shape{"$schema": any, "name": any, "version": any, "description": any,
		"plugins": any, "metadata": any, "renames": any, "owner": of("an object with a name", isPerson)})
	if list["owner"] == nil {
		v.refused(file, "owner is missing, an object with a name")
	}
	shapes, seen := entryShapes(), map[string]bool{".": true} // Validate looks at the tree itself
	for i, raw := range entries {
		var e object
		if i == maxEntries || json.Unmarshal(raw, &e) != nil {
			break // ReadMarketplace reports it
		}
		name, source := text(e["name"]), path.Clean(text(e["source"]))
		v.shaped(file, name+": ", e, shapes)
		if !seen[source] && fs.ValidPath(source) {
			v.listed(name, source)
		}
		seen[source] = true
	}
}

// listed reports the mistakes of a plugin that lies in the marketplace's own tree.
func (v *validator) listed(name, source string) {
	tree, err := fs.Sub(v.fsys, source)
	if err != nil {
		return
	}
	of := newValidator(tree)
	of.plugin()
	for _, p := range append(Read(tree, Options{Name: name}).Problems, of.Problems...) {
		p.Path = path.Join(source, p.Path)
		v.Problems = append(v.Problems, p)
	}
}
