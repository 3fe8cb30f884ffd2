package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/project/trust"
	"github.com/knack-agent/knack/mcp"
)

// trustValue lists what a project contains that needs trust, and what was approved.
type trustValue struct {
	Root    string      `json:"root"`
	Trusted bool        `json:"trusted"` // the folder
	Items   []TrustItem `json:"items"`
	Rules   []string    `json:"rules"` // stored by the answer "always"
}

func trustProject(ctx context.Context, s *Session, _ string) (Reply, error) {
	was := s.engine.Project()
	t, err := openTrust(was.options.Env, was.dir, was.options.Trust)
	if err != nil {
		return Reply{}, err
	}
	var b strings.Builder
	items, err := t.Scan(ctx, was.dir, false)
	if err != nil {
		fmt.Fprintln(&b, plain.Line(err.Error()))
	}
	rules, err := t.KeptRules()
	if err != nil {
		return Reply{}, err
	}
	t.Write(&b, items, rules)
	reply := Reply{Text: strings.TrimRight(b.String(), "\n"), Value: trustValue{t.Root(), t.Trusted(), items, rules}}
	refused := slices.ContainsFunc(items, func(it TrustItem) bool { return it.Refused != "" })
	open := slices.DeleteFunc(slices.Clone(items), func(it TrustItem) bool {
		return it.State == trust.Approved ||
			it.Refused != ""
	})
	question := TrustQuestion(len(open))
	switch {
	case len(open) == 0 && (refused || t.Trusted()):
		return reply, nil
	case len(open) == 0:
		question = "Trust the folder? Git and other programs follow its configuration."
	}
	if s.person == nil {
		reply.Text += "\nnothing was approved, because there is no user to ask: knack trust -y approves what is shown"
		return reply, nil
	}
	if was.options.Env.StateDir() == "" {
		return Reply{}, ErrNoState("no approval can be stored")
	}
	agreed, err := s.confirm(ctx, question, reply.Text, "yes")
	if err != nil {
		return Reply{}, err
	}
	if !agreed {
		return Reply{Text: "nothing was approved", Value: reply.Value}, nil
	}
	if err := s.askNetwork(ctx, open); err != nil {
		return Reply{}, err
	}
	c, err := s.engine.Trust(ctx, open...)
	if err != nil {
		return Reply{}, err
	}
	return s.reloadReply(c), nil
}

// askNetwork asks which network the programs of MCP servers among the items may reach.
func (s *Session) askNetwork(ctx context.Context, items []TrustItem) error {
	if !StartsPrograms(items) {
		return nil
	}
	a, err := s.ask(ctx, hook.NoticeQuestion, NetworkQuestion, Question{Title: NetworkQuestion, Asker: AskerTrust,
		Fields: []Field{{Name: "network", Label: NetworkQuestion, Type: FieldChoice, Default: "none", Required: true,
			Options: []Option{{ID: "none", Label: "none"}, {ID: "all", Label: "all"}}, Other: true}}})
	if err != nil {
		return err
	}
	if a.Declined {
		return errors.New("nothing was approved")
	}
	network, err := mcp.ParseNetwork(cmp.Or(a.Text("network"), "none"))
	if err != nil {
		return fmt.Errorf("nothing was approved: %w", err)
	}
	SetNetwork(items, network)
	return nil
}

// NetworkQuestion asks for the Network of the items for which StartsPrograms is true.
const NetworkQuestion = "What may the programs of the project's MCP servers reach: none, all, or hosts separated by " +
	"commas?"

// StartsPrograms reports whether items define MCP servers that run as programs.
func StartsPrograms(items []TrustItem) bool {
	return slices.ContainsFunc(items, func(it TrustItem) bool { return it.Programs })
}

// SetNetwork sets which network the programs of MCP servers in items may reach. network is a value
// that mcp.ParseNetwork returned.
func SetNetwork(items []TrustItem, network string) {
	for i := range items {
		if items[i].Programs {
			items[i].Network = network
		}
	}
}

// TrustQuestion returns the question whether to trust n items.
func TrustQuestion(n int) string {
	if n == 1 {
		return "Trust this item?"
	}
	return fmt.Sprintf("Trust these %d items?", n)
}
