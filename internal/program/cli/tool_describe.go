package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/own"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// describeTool runs a program with --knack-tool, and writes what it says about itself beside it.
func describeTool(c *cobra.Command, name string) error {
	if err := own.CheckName(name); err != nil {
		return engine.Usagef("knack tool check line-count --write", "%w", err)
	}
	ctx, stop := signals(c.Context())
	defer stop()
	e, err := engine.Open(ctx, new(projectFlags).options())
	if err != nil {
		return err
	}
	defer e.Close()
	ws, err := e.Workspace(ctx)
	if err != nil {
		return err
	}
	require, end, err := auditCalls(e.Project(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer end()
	g, err := userGate(e, nil, require)
	if err != nil {
		return err
	}
	d, err := own.Describer(e.Project().Brought, ws, name)
	if err != nil {
		return fmt.Errorf("tool check: %w", err)
	}
	call := llm.ToolCall{ID: "1", Name: d.Tool.Name, Input: json.RawMessage(`{}`)}
	data, err := d.Read(tool.Call(ctx, tool.Set{d.Tool}, call, g, nil))
	if err != nil {
		return fmt.Errorf("tool check: %s --knack-tool: %w", plain.Line(d.Program), err)
	}
	root, err := outfile.Dir(d.Base, filepath.Dir(d.Program), 0o777)
	if err != nil {
		return fmt.Errorf("tool check: %w", err)
	}
	defer root.Close()
	path := filepath.Join(filepath.Dir(d.Program), name+".json")
	if err := writeNew(root, name+".json", data); errors.Is(err, fs.ErrExist) {
		return &engine.Error{Err: fmt.Errorf("tool check: %s is already there", plain.Line(path)),
			Hint: "remove it first: it is never changed"}
	} else if err != nil {
		return fmt.Errorf("tool check: %w", err)
	}
	fmt.Fprintln(c.OutOrStdout(), plain.Line(path))
	if d.Approved {
		fmt.Fprintln(c.ErrOrStderr(), "next: knack trust    # the definition is part of what you approve")
	}
	return nil
}

// notUsed returns why a tool of the user's or the project's own is not there: it is not approved, or something is wrong
// with it or beside it. nil: there is none.
func notUsed(b engine.Brought, name string) error {
	_, problems := own.Find(b)
	_, known := ownTools().Find(name)
	for _, p := range problems {
		x := &engine.Error{Err: fmt.Errorf("the tool %s was not run: %s: %s", plain.Line(name), plain.Line(p.Path),
			plain.Line(p.Message)), Hint: p.Hint}
		beside, _ := filepath.Glob(filepath.Join(filepath.Dir(p.Path), name+"*"))
		switch {
		case known && (p.Code == knack.CodeUntrusted || p.Code == knack.CodeChanged):
			x.Hint, x.Exit = p.Hint+"; --trust for this call only", engine.ExitRefused
			return x
		case len(beside) > 0:
			return x
		}
	}
	return nil
}
