package command

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/gate"
)

const (
	trustedYes = "trust"
	// maxDocuments is the number of items that have keys of their own. More are grouped by their kind.
	maxDocuments = 8
	// maxShown is how much of a file the page shows, in bytes.
	maxShown = 256 << 10
)

// TrustPage asks whether to trust items of a project, each of which can be looked into before answering. The page fits
// on a small screen, however many items there are.
func TrustPage(p *engine.Project, items []engine.TrustItem) engine.Question {
	q := engine.Question{
		Title: p.ShortIn("Trust the folder " + p.Dir() + "?"), Asker: engine.AskerTrust,
		Text: "This folder brings instructions, settings or programs of its own. They can instruct the model, grant " +
			"permissions and run programs as you. They stay off until you trust them. If they change, you will be asked " +
			"again.",
		Options: []engine.Option{
			{ID: trustedYes, Label: trustsAll(len(items)), Allow: true},
			{ID: engine.OptionNo, Label: "not now: keep them off", Help: "/trust asks again"},
		},
	}
	if len(items) == 0 {
		q.Text, q.Options[0].Label = "Git and other programs follow its configuration.", "yes, trust the folder"
		return q
	}
	document := func(title, help string, items []engine.TrustItem) {
		q.Documents = append(q.Documents, engine.Document{Title: title, Help: help, Text: trustText(p, items)})
	}
	if len(items) <= maxDocuments {
		for _, it := range items {
			document(string(it.Kind)+" "+it.Path, trustHelp(it), []engine.TrustItem{it})
		}
		return q
	}
	var kinds []string
	for _, it := range items {
		if !slices.Contains(kinds, string(it.Kind)) {
			kinds = append(kinds, string(it.Kind))
		}
	}
	for _, kind := range kinds {
		var some []engine.TrustItem
		running := 0
		for _, it := range items {
			if string(it.Kind) == kind {
				some = append(some, it)
				if len(it.Commands) > 0 || it.Programs {
					running++
				}
			}
		}
		help := some[0].Path
		if len(some) > 1 {
			help += ", …"
		}
		if running > 0 {
			help = fmt.Sprintf("%d run programs; %s", running, help)
		}
		document(fmt.Sprintf("%d × %s", len(some), kind), help, some)
	}
	return q
}

// trustsAll is the label of the answer that trusts n items.
func trustsAll(n int) string {
	if n == 1 {
		return "yes, trust it"
	}
	return fmt.Sprintf("yes, trust these %d", n)
}

// trustHelp tells in a few words what an item would do.
func trustHelp(it engine.TrustItem) string {
	var all []string
	if it.State == "changed" {
		all = append(all, "changed")
	}
	if it.Replaces != "" {
		all = append(all, "replaces the bundled skill "+it.Replaces)
	}
	if it.Programs {
		all = append(all, "starts programs")
	}
	if len(it.Commands) > 0 {
		all = append(all, "runs "+plain.Count(len(it.Commands), "command"))
	}
	return strings.Join(append(all, it.Loads...), "; ")
}

// trustText is what there is to read about items: what they would do, and their files.
func trustText(p *engine.Project, items []engine.TrustItem) string {
	var b strings.Builder
	for _, it := range items {
		p.WriteItems(&b, []engine.TrustItem{it})
		file := filepath.Join(p.Root(), filepath.FromSlash(it.Path))
		data, err := regular.Read(file, maxShown)
		if err != nil {
			data, err = regular.Read(filepath.Join(file, "SKILL.md"), maxShown)
		}
		if err == nil {
			fmt.Fprintf(&b, "%s\n\n", strings.TrimRight(plain.Text(string(data)), "\n"))
		}
	}
	return b.String()
}

// AskTrust asks who whether to trust what a project contains that is not approved or has changed since, and approves
// it. Without approval the program continues without it.
func AskTrust(ctx context.Context, e *engine.Engine, who engine.Person) error {
	if !e.NeedsTrust() {
		return nil
	}
	items, unread := e.Project().Untrusted(ctx)
	if len(items) == 0 {
		return unread
	}
	q := TrustPage(e.Project(), items)
	if unread != nil {
		q.Points = append(q.Points, gate.Reason{Text: "Not everything could be read: " + plain.Line(unread.Error()),
			Danger: true})
	}
	a, err := who.Ask(ctx, q)
	if err != nil || a.Declined || a.Option != trustedYes {
		return err
	}
	if err := askNetwork(ctx, who.Ask, items); err == errNotApproved {
		return nil
	} else if err != nil {
		return err
	}
	_, err = e.Trust(ctx, items...)
	return err
}

// networkPage asks what the programs of MCP servers among the items may reach.
func networkPage(items []engine.TrustItem) engine.Question {
	options := []engine.Option{{ID: "none", Label: "no"}, {ID: "all", Label: "yes, any host"}}
	label := NetworkQuestion
	needs, hosts := NetworkNeeds(items)
	if needs != "" {
		label = needs + " " + label
	}
	if hosts != "" {
		options = slices.Insert(options, 1, engine.Option{ID: hosts, Label: "only " + strings.ReplaceAll(hosts, ",", ", ")})
	}
	return engine.Question{Title: NetworkQuestion, Asker: engine.AskerTrust,
		Fields: []engine.Field{{Name: "network", Label: label, Type: engine.FieldChoice, Default: "none",
			Required: true, Options: options, Other: true,
			OtherLabel: "only these hosts …", OtherHelp: "type them with commas between them"}}}
}
