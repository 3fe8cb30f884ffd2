package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/mcp"
)

func trustProject(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	report, err := s.Engine().Project().TrustReport(ctx)
	if err != nil {
		return engine.Reply{}, err
	}
	var b strings.Builder
	if report.Unread != nil {
		fmt.Fprintln(&b, plain.Line(report.Unread.Error()))
	}
	report.Write(&b)
	reply := engine.Reply{Text: strings.TrimRight(b.String(), "\n"), Value: report}
	refused := slices.ContainsFunc(report.Items, func(it engine.TrustItem) bool { return it.Refused != "" })
	open := report.Open()
	if len(open) == 0 && (refused || report.Trusted) {
		return reply, nil
	}
	if !s.Interactive() {
		reply.Text += "\nnothing was approved, because there is no user to ask: knack trust -y approves what is shown"
		return reply, nil
	}
	if s.Engine().Project().Env().StateDir() == "" {
		return engine.Reply{}, engine.ErrNoState("no approval can be stored")
	}
	a, err := s.Ask(ctx, TrustPage(s.Engine().Project(), open))
	if err != nil {
		return engine.Reply{}, err
	}
	if a.Declined || a.Option != trustedYes {
		return engine.Reply{Text: "Nothing was approved.", Value: reply.Value}, nil
	}
	if err := askNetwork(ctx, s.Ask, open); err != nil {
		return engine.Reply{}, err
	}
	c, err := s.Engine().Trust(ctx, open...)
	if err != nil {
		return engine.Reply{}, err
	}
	return reloadReply(s, c), nil
}

// errNotApproved means that the user did not answer what programs may reach.
var errNotApproved = errors.New("nothing was approved")

// askNetwork asks which network the programs of MCP servers among the items may reach.
func askNetwork(ctx context.Context, ask func(context.Context, engine.Question) (engine.Answer, error),
	items []engine.TrustItem) error {
	if !StartsPrograms(items) {
		return nil
	}
	a, err := ask(ctx, networkPage(items))
	if err != nil {
		return err
	}
	if a.Declined {
		return errNotApproved
	}
	network, err := ReadNetwork(a.Text("network"))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotApproved, err)
	}
	SetNetwork(items, network)
	return askWrite(ctx, ask, items)
}

// askWrite asks where the programs of MCP servers among the items may write, if their definitions name directories.
func askWrite(ctx context.Context, ask func(context.Context, engine.Question) (engine.Answer, error),
	items []engine.TrustItem) error {
	wants := WriteWants(items)
	if len(wants) == 0 {
		return nil
	}
	all := strings.Join(wants, ",")
	a, err := ask(ctx, engine.Question{Title: WriteQuestion, Asker: engine.AskerTrust,
		Fields: []engine.Field{{Name: "write", Label: WriteQuestion, Type: engine.FieldChoice, Default: "none",
			Required: true, Options: []engine.Option{{ID: "none", Label: "none"}, {ID: all, Label: all}}, Other: true}}})
	if err != nil {
		return err
	}
	if a.Declined {
		return errNotApproved
	}
	dirs, err := ParseWrite(cmp.Or(a.Text("write"), "none"))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotApproved, err)
	}
	SetWrite(items, dirs)
	return nil
}

// ReadNetwork reads an answer to NetworkQuestion. A word that may be meant for the question before, as yes, opens nothing.
func ReadNetwork(text string) (string, error) {
	text = strings.TrimSpace(text)
	switch strings.ToLower(text) {
	case "", "n", "no":
		return "none", nil
	case "y", "yes":
		return "", fmt.Errorf("%q does not say how far: none, all, or hosts with commas between them", text)
	}
	return mcp.ParseNetwork(text)
}

// WriteQuestion asks for the Write of the items for which WriteWants are.
const WriteQuestion = "Where may the programs of the project's MCP servers write besides the project: none, or " +
	"directories separated by commas?"

// WriteWants returns the directories in which the definitions of MCP servers in items ask to write.
func WriteWants(items []engine.TrustItem) (dirs []string) {
	for _, it := range items {
		for _, dir := range it.Wants {
			if it.Programs && !slices.Contains(dirs, dir) && mcp.CheckWrite(dir) == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// ParseWrite reads directories separated by commas, or none.
func ParseWrite(text string) (dirs []string, err error) {
	if strings.TrimSpace(text) == "none" {
		return nil, nil
	}
	for dir := range strings.SplitSeq(text, ",") {
		dir = strings.TrimSpace(dir)
		if err := mcp.CheckWrite(dir); err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// SetWrite sets where the programs of MCP servers in items may write.
func SetWrite(items []engine.TrustItem, dirs []string) {
	for it := range withPrograms(items) {
		it.Write = dirs
	}
}

// NetworkQuestion asks for the Network of the items for which StartsPrograms is true.
const NetworkQuestion = "May this project's MCP servers use the network?"

// downloaders are the programs that download what they run, and the hosts that they need for it.
var downloaders = []struct{ names, hosts string }{
	{"npx npm pnpm bunx", "registry.npmjs.org"},
	{"uvx uv pip pipx", "pypi.org,files.pythonhosted.org"},
}

// NetworkNeeds says what is known about the network that the programs of MCP servers in items need, "" if that is
// nothing, and returns the hosts as for mcp.ParseNetwork.
func NetworkNeeds(items []engine.TrustItem) (text, hosts string) {
	var parts, all []string
	started := func(name string) bool {
		return slices.ContainsFunc(items, func(it engine.TrustItem) bool {
			return it.Programs && slices.ContainsFunc(it.Loads, func(line string) bool {
				return strings.HasSuffix(line, `.command: "`+name+`"`)
			})
		})
	}
	for _, d := range downloaders {
		for name := range strings.FieldsSeq(d.names) {
			if !started(name) {
				continue
			}
			parts = append(parts, name+" downloads what it runs from "+strings.ReplaceAll(d.hosts, ",", " and ")+".")
			if !slices.Contains(all, d.hosts) {
				all = append(all, d.hosts)
			}
		}
	}
	if started("docker") || started("podman") {
		parts = append(parts, "docker gives a server access to the whole machine, whatever you answer.")
	}
	return strings.Join(parts, " "), strings.Join(all, ",")
}

// StartsPrograms reports whether items define MCP servers that run as programs.
func StartsPrograms(items []engine.TrustItem) bool {
	return slices.ContainsFunc(items, func(it engine.TrustItem) bool { return it.Programs })
}

// SetNetwork sets which network the programs of MCP servers in items may reach. network is a value
// that mcp.ParseNetwork returned.
func SetNetwork(items []engine.TrustItem, network string) {
	for it := range withPrograms(items) {
		it.Network = network
	}
}

// withPrograms yields the items that start programs and can be approved. Those that were are to be approved again, with
// what the caller chooses for them now.
func withPrograms(items []engine.TrustItem) iter.Seq[*engine.TrustItem] {
	return func(yield func(*engine.TrustItem) bool) {
		for i := range items {
			it := &items[i]
			if !it.Programs || it.Refused != "" {
				continue
			}
			if it.State == trust.Approved {
				it.State = trust.New
			}
			if !yield(it) {
				return
			}
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
