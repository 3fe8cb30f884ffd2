package telemetry_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestDashboard compares the names in the dashboard and in the collector's configuration with what is sent, as
// Prometheus and Tempo name it.
func TestDashboard(t *testing.T) {
	t.Parallel()
	const dir = "../../../examples/telemetry/"
	c := newCollector(t)
	p := enginetest.New(t, "~/.config/knack/skills/notes/SKILL.md", "---\ndescription: d\n---\nread them",
		"~/.config/knack/settings.json", `{"telemetry": {"endpoint": "`+c.URL+`", "content": true}}`)
	m := &llmtest.Script{Answers: []llmtest.Answer{enginetest.Calls("Skill", `{"skill": "notes"}`),
		enginetest.Calls("bash", `{"command": "rm x"}`), {Text: "x"},
		{Error: &llm.Error{Kind: llm.Invalid}}}}
	o := p.Options(m)
	o.Values["permissions.deny"] = []string{"Bash(rm:*)"}
	run(t, p, o, nil, "hello", "again")
	sent := map[string]bool{"knack_telemetry_dropped_total": true} // TestQueue has it
	for _, m := range c.instruments {
		name := strings.ReplaceAll(m.Name, ".", "_")
		switch m.Unit {
		case "s":
			name += "_seconds"
		case "USD":
			name += "_USD"
		}
		if m.Histogram {
			sent[name+"_sum"], sent[name+"_count"], sent[name+"_bucket"] = true, true, true
		} else {
			sent[name+"_total"] = true
		}
	}
	labels := map[string]bool{"le": true}
	for _, key := range regexp.MustCompile(`"key":"([^"]+)"`).FindAllStringSubmatch(c.body, -1) {
		labels[strings.ReplaceAll(key[1], ".", "_")] = true
		labels[key[1]] = true
	}
	data, err := os.ReadFile(dir + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, Query string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`\b(gen_ai|knack)_\w+_(total|sum|count|bucket)\b`)
	label := regexp.MustCompile(`by \(([^)]+)\)|\{(\w+)[!=]`)
	attribute := regexp.MustCompile(`span\.([a-z_.]+)`)
	checked := 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			names := metric.FindAllString(target.Expr, -1)
			for _, name := range names {
				if checked++; !sent[name] {
					t.Errorf("%s: no metric %s is sent", panel.Title, name)
				}
			}
			for _, found := range label.FindAllStringSubmatch(target.Expr, -1) {
				for name := range strings.SplitSeq(found[1]+","+found[2], ",") {
					if name = strings.TrimSpace(name); name != "" && !labels[name] {
						t.Errorf("%s: no attribute %s is sent", panel.Title, name)
					}
				}
			}
			for _, found := range attribute.FindAllStringSubmatch(target.Query, -1) {
				if checked++; !labels[found[1]] {
					t.Errorf("%s: no attribute %s is sent", panel.Title, found[1])
				}
			}
			if target.Expr != "" && len(names) == 0 {
				t.Errorf("%s: %s names no metric of ours", panel.Title, target.Expr)
			}
		}
	}
	if checked < 12 {
		t.Errorf("only %d names were compared", checked)
	}
	config, err := os.ReadFile(dir + "collector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deleted []string
	for _, found := range regexp.MustCompile(`key: ([a-z_.]+), action: delete`).FindAllStringSubmatch(string(config), -1) {
		deleted = append(deleted, found[1])
		if !labels[found[1]] {
			t.Errorf("collector.yaml: no attribute %s is sent", found[1])
		}
	}
	for name := range labels { // what has text
		if (strings.HasSuffix(name, ".messages") || strings.HasPrefix(name, "gen_ai.tool.call.") &&
			name != "gen_ai.tool.call.id" || strings.HasSuffix(name, ".description")) && !slices.Contains(deleted, name) {
			t.Errorf("collector.yaml does not delete %s", name)
		}
	}
}
