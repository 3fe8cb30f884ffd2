// Package plugin reads bundles of skills, commands, agents, hooks and MCP servers.
//
// [Read] turns the tree of a plugin into one value, whichever program it was written for:
//
//	p := plugin.Read(fsys, plugin.Options{Name: "demo"})
//	for _, s := range p.Skills { … }
//
// It runs nothing, and needs no trust: what may be used is the caller's decision. [ReadMarketplace]
// reads a list of plugins.
//
// A mistake costs only the field or the file that contains it, and is a Problem. All paths are
// relative to the tree, with slashes. The caller passes a file system that does not follow links out
// of the tree, such as [FS].
//
// Most programs start with package engine.
package plugin

import (
	"encoding/json"
	"io/fs"
	"os"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Plugin is what a tree contains. It is immutable.
type Plugin struct {
	// Name is the prefix of everything that the plugin brings. It has letters, digits, "-", "_" and ".".
	Name        string
	DisplayName string // "": Name
	Version     string // "": none
	Description string
	Author      string
	License     string
	Homepage    string
	Manifest    string // the file that describes it; "": none

	Skills   []Place // each a skill, or a directory of skills
	Commands []Place // each a .md or .toml file, or a directory that is searched for *.md
	Prompts  []File  // templates of Pi
	Agents   []File
	Hooks    []Part // JSON for hook.Parse
	Servers  []Part // JSON objects of MCP servers by name, without a wrapper
	// LanguageServers are JSON objects of language servers by name, see package engine/part/diagnose.
	LanguageServers []Part
	Tools           []File // programs in the folder tools, or their definitions, that say that they are tools

	// UserConfig is what it asks its user for.
	UserConfig []ConfigValue

	// Extensions are programs for Pi, which do not run here: see [Extension].
	Extensions []string
	// Unused describes, one line each, what the tree contains and this program does not run.
	Unused   []string
	Problems []knack.Problem
}

// A Place is a file or directory with skills or commands.
type Place struct {
	Path string
	// Name is the name of the skill or command if the file does not define one, or, with Fixed, in any
	// case; "": from the file's path.
	Name  string
	Fixed bool
	// Text is a command whose text is in the manifest, which is then at Path; "": Path has it.
	Text string
}

// A File is a file with the name of what it defines, without the plugin's prefix: reviewer, or
// team:reviewer for a file in a sub-directory.
type File struct {
	Path string
	Name string
}

// A Part is JSON from a file of the plugin.
type Part struct {
	Path string
	JSON json.RawMessage
}

// IsEmpty reports whether the plugin brings nothing that this program uses.
func (p *Plugin) IsEmpty() bool {
	return len(p.Skills)+len(p.Commands)+len(p.Prompts)+len(p.Agents)+len(p.Hooks)+len(p.Servers)+len(p.Tools)+
		len(p.LanguageServers) == 0
}

// FS returns the files below root for Read. Links inside root work, and those that leave it are
// errors. So is a pipe or a device in the place of a file.
func FS(root *os.Root) fs.FS { return tree{root, root.FS()} }

// ReadFile reads a file of a plugin, such as that of an agent: at most 1 MiB.
func ReadFile(root *os.Root, name string) ([]byte, error) {
	return regular.ReadIn(root, name, maxFile)
}

type tree struct {
	root *os.Root
	fs.FS
}

func (t tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return regular.OpenIn(t.root, name)
}

func (t tree) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(t.FS, name) }
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(t.FS, name) }
