package own

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// describeFlag asks a program for the definition of its tool.
const describeFlag = "--knack-tool"

// describeTime limits how long a program may take to print the definition of its tool.
const describeTime = 10 * time.Second

// A Description says how to ask a program for the definition of its tool.
type Description struct {
	Tool     tool.Tool // whose call runs the program with --knack-tool, in the sandbox
	Program  string    // the program's file
	Base     string    // the directory above which no link is followed when a file is written beside it
	Approved bool      // it is a project's, which was approved
}

// Describer returns how a program of the user or, if it is approved, of the project is asked what tool it is. The
// program need not be a tool yet.
func Describer(b engine.Brought, ws workspace.Workspace, name string) (*Description, error) {
	dirs := []Program{{folder: filepath.Join(b.User, "tools"), dir: b.User}}
	if b.User == "" {
		dirs = nil
	}
	for _, dir := range b.Dirs {
		at := filepath.Join(dir, filepath.FromSlash(layout.Rows(layout.Tool)[0].Path))
		dirs = append(dirs, Program{folder: at, dir: dir, check: b.Check})
	}
	for _, at := range dirs {
		program := programNamed(at.folder, name)
		if program == "" {
			continue
		}
		p := &Program{Name: name, Path: program, program: program, check: at.check, mine: at.check == nil}
		if p.check != nil {
			p.folder = at.folder
			if err := p.approved(); err != nil {
				return nil, fmt.Errorf("%s was not run: %w", name, err)
			}
		}
		data, err := regular.Read(program, maxProgram)
		if err == nil && p.check != nil {
			err = p.check(program, data) // of the bytes whose sum is kept: the file may have changed since
		}
		if err != nil {
			return nil, err
		}
		p.sum = sha256.Sum256(data)
		return &Description{Tool: p.describer(ws), Program: program, Base: at.dir, Approved: p.check != nil}, nil
	}
	return nil, fmt.Errorf("there is no program %s in your tools, nor in .knack/tools", name)
}

// programNamed returns the executable file of a name in a directory, with any suffix; "": there is none.
func programNamed(dir, name string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "" // a directory that is not there has no programs
	}
	i := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		if stem(e.Name()) != name || strings.EqualFold(filepath.Ext(e.Name()), ".json") {
			return false
		}
		info, err := e.Info()
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
	if i < 0 {
		return ""
	}
	return filepath.Join(dir, entries[i].Name())
}

// describer returns the tool that asks the program.
func (p *Program) describer(ws workspace.Workspace) tool.Tool {
	return tool.Tool{Name: p.Name, Schema: json.RawMessage(`{"type":"object"}`),
		Effect: tool.Reads | tool.Writes | tool.Runs,
		Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
			return []permission.Subject{{Kind: permission.KindTool, Text: p.Name,
				Note: "it runs " + p.program + " " + describeFlag}}, nil
		},
		Run: func(ctx context.Context, call tool.Input) (tool.Result, error) {
			c, err := p.prepare(ws, workspace.Command{Args: []string{describeFlag}})
			if err != nil {
				return tool.Result{}, err
			}
			return coding.RunProgram(ctx, ws, c, describeTime, call, coding.Options{}), nil
		}}
}

// Read returns what the program printed as the content of NAME.json. The error says what is wrong with it.
func (d *Description) Read(res tool.Result) ([]byte, error) {
	text := strings.TrimSpace(llm.TextOf(res.Parts))
	if res.IsError {
		return nil, errors.New(text)
	}
	var printed struct{ Output *string }
	if data, err := json.Marshal(res.Structured); err == nil && json.Unmarshal(data, &printed) == nil &&
		printed.Output != nil {
		text = strings.TrimSpace(*printed.Output) // without what the sandbox says
	}
	if !strings.HasPrefix(text, "{") {
		return nil, errors.New("it printed no JSON object")
	}
	def, err := parse(text, toolMark)
	if err != nil {
		return nil, err
	}
	if def.Name != "" && def.Name != d.Tool.Name {
		return nil, fmt.Errorf("it says that its name is %q", def.Name)
	}
	if def.outside() && d.Approved {
		return nil, errNotYours
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
