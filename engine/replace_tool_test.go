package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/tool"
)

func TestReplaceTool(t *testing.T) {
	ran := 0
	replace := func(name string) engine.Part {
		return engine.ReplaceTool(name, func(context.Context, engine.Place, tool.Input) (tool.Result, error) {
			ran++
			return tool.Text("theirs"), nil
		})
	}
	t.Run("a name that is not built in", func(t *testing.T) {
		p := newFixture(t)
		o := p.options(llmtest.New())
		o.Parts = []engine.Part{replace("bsh")}
		e, err := engine.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if _, err := e.Start(t.Context(), nil, engine.SessionOptions{}); err == nil || !strings.Contains(err.Error(), "bsh") {
			t.Errorf("Start = %v", err)
		}
	})
	t.Run("rules hold, and agents have it", func(t *testing.T) {
		p := newFixture(t)
		m := llmtest.New(calls("bash", `{"command":"rm -rf x"}`),
			llmtest.Answer{Want: []string{"denied"}, Calls: []llmtest.Call{{Name: "Agent",
				Input: `{"prompt":"read it","description":"d","subagent_type":"general-purpose"}`}}},
			calls("bash", `{"command":"ls"}`), llmtest.Answer{Want: []string{"theirs"}, Text: "read"}, llmtest.Reply("done"))
		o := p.options(m)
		o.Parts = append([]engine.Part{replace("bash")}, part.All()...)
		o.Values = map[string]any{"permissions.deny": []string{"Bash(rm *)"}}
		_, s := p.open(t, o, nil, engine.SessionOptions{})
		report, err := engine.Converse(s).Turn(t.Context(), agent.Typed("go"), nil)
		if err != nil || report.End.Text != "done" {
			t.Fatalf("%+v, %v", report, err)
		}
		if ran != 1 {
			t.Errorf("ran %d times", ran)
		}
	})
}

// TestPartNames: two parts of one name are an error, and a tool that Part.Known leaves out is named.
func TestPartNames(t *testing.T) {
	p := newFixture(t)
	named := func(name string, live *engine.Live) engine.Part {
		return engine.Part{Name: name, Open: func(context.Context, *engine.Conv) (*engine.Live, error) { return live, nil }}
	}
	start := func(parts ...engine.Part) (*engine.Session, error) {
		o := p.options(llmtest.New())
		o.Parts = parts
		e, err := engine.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e.Start(t.Context(), nil, engine.SessionOptions{})
	}
	if _, err := start(named("a", nil), named("b", nil), named("a", nil)); err == nil ||
		!strings.Contains(err.Error(), `two parts are named "a"`) {
		t.Errorf("err = %v", err)
	}
	dice := tool.Set{{Name: "Dice"}}
	s, err := start(named("a", &engine.Live{Tools: func() engine.PartTools { return engine.PartTools{Listed: dice} }}))
	if err != nil {
		t.Fatal(err)
	}
	if all := fmt.Sprint(s.Problems()); !strings.Contains(all, "the tool Dice is left out") {
		t.Errorf("problems: %s", all)
	}
}

// Parts change what is sent, in their order, and the log keeps what was said.
func TestPartMessages(t *testing.T) {
	p := newFixture(t)
	says := func(name, word, with string) engine.Part {
		return engine.Part{Name: name, Open: func(context.Context, *engine.Conv) (*engine.Live, error) {
			return &engine.Live{Messages: func(ms []llm.Message) []llm.Message {
				for i := range ms {
					ms[i].Parts = slices.Clone(ms[i].Parts)
					for j := range ms[i].Parts {
						ms[i].Parts[j].Text = strings.ReplaceAll(ms[i].Parts[j].Text, word, with)
					}
				}
				return ms
			}}, nil
		}}
	}
	m := llmtest.New(llmtest.Answer{Want: []string{"the third"}, Text: "done"})
	o := p.options(m)
	o.Parts = []engine.Part{says("a", "first", "second"), says("b", "second", "third")}
	_, s := p.open(t, o, nil, engine.SessionOptions{})
	if _, err := engine.Converse(s).Turn(t.Context(), agent.Typed("the first"), nil); err != nil {
		t.Fatal(err)
	}
	if text := llm.TextOf(s.Log().Project()[0].Parts); !strings.Contains(text, "the first") {
		t.Errorf("the log says %q", text)
	}
}

// A host's workspace is used and closed.
func TestOwnWorkspace(t *testing.T) {
	p := newFixture(t)
	local, err := workspace.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := &farWorkspace{Workspace: local}
	if err := own.WriteFile(t.Context(), own.Path("far.txt"), []byte("far away")); err != nil {
		t.Fatal(err)
	}
	m := llmtest.New(calls("read", `{"path":"far.txt"}`), llmtest.Answer{Want: []string{"far away"}, Text: "done"})
	o := p.options(m)
	o.In = own
	e, s := p.open(t, o, nil, engine.SessionOptions{})
	if _, err := engine.Converse(s).Turn(t.Context(), agent.Typed("go"), nil); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil || !own.closed {
		t.Errorf("Close = %v, closed: %v", err, own.closed)
	}
}

type farWorkspace struct {
	workspace.Workspace
	closed bool
}

func (w *farWorkspace) Close() error {
	w.closed = true
	return w.Workspace.Close()
}

// A host that picks an option which is not there hears of it.
func TestUnknownOption(t *testing.T) {
	p := newFixture(t)
	person := personFunc(func(context.Context, engine.Question) (engine.Answer, error) {
		return engine.Answer{Option: engine.OptionYes}, nil // an approval has none
	})
	var did []string
	m := llmtest.New(calls("touch", `{"what":"a"}`),
		llmtest.Answer{Want: []string{`picks the option "yes", which is none of once`}, Text: "done"})
	_, s := p.open(t, p.options(m), person, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touch(&did, nil)}}})
	if _, err := engine.Converse(s).Turn(t.Context(), agent.Typed("go"), nil); err != nil {
		t.Fatal(err)
	}
	if did != nil {
		t.Errorf("it did %v", did)
	}
}
