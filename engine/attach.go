package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/tool"
)

// Attach adds to a prompt the files that the user's words name as @path, as the
// read tool would show them. A word with @ that names no file is a word; if it
// looks like a path, it is reported. Text that
// nobody typed names none.
func (s *Session) Attach(ctx context.Context, in agent.Input) (agent.Input, error) {
	if !strings.Contains(in.Typed, "@") {
		return in, nil
	}
	for _, word := range strings.Fields(in.Typed) {
		path, ok := strings.CutPrefix(word, "@")
		if !ok || path == "" || slices.Contains(in.Touched, s.ws.Path(path)) {
			continue
		}
		isFile := func(path string) bool {
			info, err := s.ws.Stat(ctx, path)
			return err == nil && info.Mode().IsRegular()
		}
		if !isFile(path) {
			path = strings.TrimRight(path, ",.;:!?)") // the sentence's, not the file's
		}
		if path == "" || slices.Contains(in.Touched, s.ws.Path(path)) {
			continue
		}
		if !isFile(path) {
			if _, err := s.ws.Stat(ctx, path); err != nil && strings.ContainsAny(path, "./\\") && !strings.Contains(path, "@") {
				s.engine.notice(knack.Problem{Code: "attachment-missing", Severity: knack.Warn,
					Message: fmt.Sprintf("@%s: there is no such file; it is sent as a word", path), Hint: "ls " + filepath.Dir(path)})
			}
			continue
		}
		input, err := json.Marshal(map[string]string{"path": s.ws.Path(path)})
		if err != nil {
			return in, err
		}
		res := tool.Call(ctx, s.files, llm.ToolCall{Name: "read", Input: input}, tool.AllowAll, nil)
		if res.IsError {
			return in, fmt.Errorf("%s cannot be attached: %s", path, res.Parts[0].Text)
		}
		for _, p := range res.Parts {
			if p.Media == nil {
				p = llm.Text(fmt.Sprintf("<file path=\"%s\">\n%s\n</file>", html.EscapeString(path), p.Text))
			}
			in.Parts = append(in.Parts, p)
		}
		in.Touched = append(in.Touched, s.ws.Path(path))
	}
	return in, nil
}

// Path is the absolute path that a path in a prompt means.
func (s *Session) Path(path string) string { return s.ws.Path(path) }
