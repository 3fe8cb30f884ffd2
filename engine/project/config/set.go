package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/outfile"
)

// Set changes one value of a settings file; everything else in the file, including unknown keys, stays
// byte for byte. A nil value removes the key. name has dots, such as permissions.allow. A missing file
// is created, with mode 0600; a file that is not JSON is an error and stays unchanged. Set writes a
// new file and renames it, while no other Set changes a file of the same directory. root is that of the project in which
// the file is, and in which a link is not followed: see package outfile. "" is for a file of the user, who may keep it
// elsewhere and have a link to it.
func Set(root, path, name string, value json.RawMessage) error {
	change := func(data []byte) ([]byte, error) { return set(path, data, name, value) }
	if root != "" {
		return outfile.Update(root, path, 0o600, change)
	}
	return atomicfile.Update(path, 0o600, change)
}

// Draft returns what Set would write into a file with this content, and writes nothing.
func Draft(path string, data []byte, name string, value json.RawMessage) ([]byte, error) {
	return set(path, data, name, value)
}

func set(path string, data []byte, name string, value json.RawMessage) ([]byte, error) {
	if len(value) > 0 && !json.Valid(value) {
		return nil, fmt.Errorf("the value of %s is not JSON", name)
	}
	parts := split(name)
	var first *knack.Problem
	f := file{path: path, data: data, add: func(p knack.Problem) {
		if first == nil && p.Severity == knack.Error {
			first = &p
		}
	}}
	top, whole := f.parse()
	if !whole {
		first.Message, _ = strings.CutSuffix(first.Message, brokenNote)
		return nil, *first
	}
	n := len(data) - len(f.data)
	bom := data[:n:n] // limit the capacity so that append copies
	if top == nil {
		if len(value) == 0 {
			return data, nil
		}
		return append(nested(parts, value, ""), '\n'), nil
	}
	if top.kind != 'o' {
		return nil, fmt.Errorf("%s: settings are an object, not %s", path, top.is())
	}
	at := top
	for i, part := range parts {
		next := at.get(part)
		last := i == len(parts)-1
		switch {
		case next == nil && len(value) == 0:
			return data, nil
		case next == nil:
			return append(bom, f.insert(at, part, nested(parts[i+1:], value, f.indent(at)+"  "))...), nil
		case last && len(value) == 0:
			return append(bom, f.remove(at, part)...), nil
		case last:
			return append(bom, f.splice(next.at, next.end, value)...), nil
		case next.kind != 'o':
			return nil, fmt.Errorf("%s: %s is %s, not an object", path, strings.Join(parts[:i+1], "."), next.is())
		}
		at = next
	}
	return data, nil
}

// split returns the keys that lead to a setting. Everything after the name of a map, such as
// skills.overrides, is one key, because names of skills may contain dots.
func split(name string) []string {
	if k, item, err := row(name); err == nil && item && k.kind != raw {
		return append(strings.Split(k.name, "."), strings.TrimPrefix(name, k.name+"."))
	}
	return strings.Split(name, ".")
}

// nested returns value inside one object for each part.
func nested(parts []string, value []byte, indent string) []byte {
	if len(parts) == 0 {
		return value
	}
	key, _ := json.Marshal(parts[0])
	in := nested(parts[1:], value, indent+"  ")
	return fmt.Appendf(nil, "{\n%s  %s: %s\n%s}", indent, key, in, indent)
}

func (f *file) splice(from, to int, with []byte) []byte {
	return bytes.Join([][]byte{f.data[:from], with, f.data[to:]}, nil)
}

// indent returns the white space at the beginning of the line on which a node starts.
func (f *file) indent(n *node) string {
	line := f.data[bytes.LastIndexByte(f.data[:n.at], '\n')+1 : n.at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// insert adds a member at the end of an object.
func (f *file) insert(n *node, key string, value []byte) []byte {
	name, _ := json.Marshal(key)
	if len(n.members) == 0 {
		indent := f.indent(n)
		return f.splice(n.at, n.end, fmt.Appendf(nil, "{\n%s  %s: %s\n%s}", indent, name, value, indent))
	}
	last := n.members[len(n.members)-1]
	sep := ", "
	if before := f.data[n.at:last.at]; bytes.ContainsRune(before, '\n') {
		sep = ",\n" + f.indent(&node{at: last.at})
	}
	return f.splice(last.val.end, last.val.end, fmt.Appendf(nil, "%s%s: %s", sep, name, value))
}

// remove removes every member with a name from an object, each with one comma.
func (f *file) remove(n *node, key string) []byte {
	var out bytes.Buffer
	from := 0
	kept := false
	for i, m := range n.members {
		if m.key != key {
			kept = true
			continue
		}
		start, end := m.at, m.val.end
		if i+1 < len(n.members) && !kept {
			end = n.members[i+1].at // with the following comma
		} else if i > 0 && kept {
			start = max(from, n.members[i-1].val.end) // with the preceding comma
		}
		out.Write(f.data[from:start])
		from = end
	}
	out.Write(f.data[from:])
	return out.Bytes()
}
