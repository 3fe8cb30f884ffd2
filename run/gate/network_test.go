package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/tool"
)

// networked returns the func Reach of a command line that rules allow.
func networked(t *testing.T, o gate.Options, line string) func(host string) error {
	t.Helper()
	o.Rules.Allow = append(o.Rules.Allow, rules(t, permission.Flag, "Bash")...)
	permit, err := newGate(t, o).Ask(t.Context(), command(line))
	if err != nil {
		t.Fatal(err)
	}
	return func(host string) error {
		port := "443"
		if name, p, ok := strings.Cut(host, ":"); ok {
			host, port = name, p
		}
		return permit.Allow.Reach(t.Context(), workspace.Destination{Host: host, Port: port})
	}
}

// TestNetworkOwn: what another command of the session serves needs no rule, but those that deny or ask hold.
func TestNetworkOwn(t *testing.T) {
	for _, c := range []struct {
		deny, ask, want string
		guard           func(string) string
	}{
		{},
		{guard: func(string) string { return "it carries a secret" }},
		{deny: "Network(127.0.0.1:3000)", want: "the rule Network(127.0.0.1:3000)"},
		{deny: "Network(localhost:3000)", want: "the rule Network(localhost:3000)"},
		{deny: "Network", want: "the rule Network"},
		{ask: "Network(127.0.0.1:3000)", want: "asks about it"},
	} {
		o := gate.Options{Network: gate.Network{Guard: c.guard}}
		if c.deny != "" {
			o.Rules.Deny = rules(t, permission.User, c.deny)
		}
		if c.ask != "" {
			o.Rules.Ask = rules(t, permission.User, c.ask)
		}
		o.Rules.Allow = rules(t, permission.Flag, "Bash")
		permit, err := newGate(t, o).Ask(t.Context(), command("curl localhost:3000"))
		if err != nil {
			t.Fatal(err)
		}
		err = permit.Allow.Reach(t.Context(), workspace.Destination{Host: "127.0.0.1", Port: "3000", Own: true})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestNetworkRules: which rules open a host to commands, without a user.
func TestNetworkRules(t *testing.T) {
	for _, c := range []struct {
		origin    permission.Origin
		rule      string
		deny, ask string
		mode      permission.Mode
		host      string
		want      string // part of the error; "": it is allowed
	}{
		{"", "", "", "", "", "a.example", "--allow 'Network(a.example)'"},
		{"", "", "", "", "", "a.example:8443", "--allow 'Network(a.example:8443)'"},
		{permission.Flag, "Network(a.example)", "", "", "", "a.example", ""},
		{permission.Flag, "Network(a.example)", "", "", "", "a.example:8443", "no rule"},
		{permission.Flag, "Network(a.example:8443)", "", "", "", "a.example:8443", ""},
		{permission.Flag, "Network(a.example)", "", "", "", "b.a.example", "no rule"},
		{permission.Flag, "Network(*.a.example)", "", "", "", "b.a.example", ""},
		{permission.User, "Network(npm)", "", "", "", "registry.npmjs.org", ""},
		{permission.User, "Network(npm)", "", "", "", "registry.npmjs.org:22", "no rule"},
		{permission.User, "Network(npm)", "", "", "", "pypi.org", "no rule"},
		{permission.User, "WebFetch(domain:a.example)", "", "", "", "a.example", ""},
		{permission.User, "WebFetch", "", "", "", "a.example", "no rule"},
		{permission.Project, "Network(a.example)", "", "", "", "a.example", "no rule"},
		{permission.Project, "WebFetch(domain:a.example)", "", "", "", "a.example", "no rule"},
		{permission.Flag, "Network", "", "", "", "a.example:22", ""},
		{permission.Flag, "Network", "Network(*.example)", "", "", "a.example", "the rule Network(*.example)"},
		{permission.Flag, "Network", "WebFetch(domain:a.example)", "", "", "a.example", "the rule WebFetch"},
		{permission.Flag, "Network", "WebFetch", "", "", "a.example", ""},
		{permission.Flag, "Network", "", "Network(a.example)", "", "a.example", "asks about it"},
		{"", "", "", "", permission.Bypass, "a.example", ""},
		{"", "", "Network", "", permission.Bypass, "a.example", "the rule Network"},
		{"", "", "", "", permission.DontAsk, "a.example", "Network(a.example)"},
		{permission.Flag, "Network(a.example)", "", "", permission.DontAsk, "a.example", ""},
		// What is inside: no preset, pattern or mode opens it.
		{"", "", "", "", permission.Bypass, "10.1.2.3", "Network(10.1.2.3)"},
		{permission.Flag, "Network", "", "", "", "169.254.169.254", "no rule"},
		{permission.Flag, "Network(*.1.2.3)", "", "", "", "10.1.2.3", "no rule"},
		{permission.Flag, "Network(10.1.2.3)", "", "", "", "10.1.2.3", ""},
		{permission.Flag, "Network(localhost:5432)", "", "", "", "localhost:5432", ""},
	} {
		o := gate.Options{Mode: c.mode}
		if c.rule != "" {
			o.Rules.Allow = rules(t, c.origin, c.rule)
		}
		if c.deny != "" {
			o.Rules.Deny = rules(t, permission.User, c.deny)
		}
		if c.ask != "" {
			o.Rules.Ask = rules(t, permission.User, c.ask)
		}
		err := networked(t, o, "./x")(c.host)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// asked is an approver that answers questions about hosts with one choice, and counts them by title.
type asked struct {
	mu     sync.Mutex
	choice gate.Choice
	titles []string
	last   gate.Request
}

func (a *asked) Approve(_ context.Context, r gate.Request) (gate.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.titles, a.last = append(a.titles, r.Title()), r
	return gate.Answer{Choice: a.choice}, nil
}

// TestNetworkQuestions: one question for each host of a command, five at most, none after a no; answers for longer hold
// for the next command.
func TestNetworkQuestions(t *testing.T) {
	user := &asked{choice: gate.Once}
	reach := networked(t, gate.Options{Approver: user}, "npm install left-pad")
	for range 3 {
		if err := reach("registry.npmjs.org"); err != nil {
			t.Error(err)
		}
	}
	want := "npm install left-pad wants to reach registry.npmjs.org (npm's registry)"
	if fmt.Sprint(user.titles) != "["+want+"]" || user.last.Name != gate.NetworkTool || string(user.last.Input) !=
		`{"host":"registry.npmjs.org"}` || fmt.Sprint(user.last.Rules) != "[Network(registry.npmjs.org)]" {
		t.Errorf("%q %s %s", user.titles, user.last.Input, user.last.Rules)
	}
	for i := range 6 {
		err := reach(fmt.Sprintf("h%d.example:8080", i))
		if (err != nil) != (i >= 4) {
			t.Errorf("host %d: %v", i, err)
		}
	}

	no := &asked{}
	reach = networked(t, gate.Options{Approver: no}, "./x")
	if err := reach("a.example"); err == nil || !strings.Contains(err.Error(), "the user declined") {
		t.Error(err)
	}
	if err := reach("b.example"); err == nil || len(no.titles) != 1 {
		t.Errorf("asked after a no: %v %q", err, no.titles)
	}

	kept := &asked{choice: gate.Session}
	o := gate.Options{Approver: kept, Rules: permission.Rules{Allow: rules(t, permission.Flag, "Bash")}}
	g := newGate(t, o)
	for _, line := range []string{"./x", "./y"} {
		permit, err := g.Ask(t.Context(), command(line))
		if err == nil {
			err = permit.Allow.Reach(t.Context(), workspace.Destination{Host: "a.example", Port: "443"})
		}
		if err != nil || len(kept.titles) != 1 {
			t.Errorf("%s: %v %q", line, err, kept.titles)
		}
	}
}

// TestNetworkInside: a name that is allowed and leads inside is asked about with its address, never for always; a rule
// that the user wrote for the name holds.
func TestNetworkInside(t *testing.T) {
	to := workspace.Destination{Host: "a.example", Port: "443", Address: netip.MustParseAddr("10.0.0.7")}
	user := &asked{choice: gate.Always}
	o := gate.Options{Approver: user, Keeper: new(keeper), Rules: permission.Rules{Allow: rules(t, permission.Flag, "Bash",
		"Network(*.example)")}}
	permit, err := newGate(t, o).Ask(t.Context(), command("./x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := permit.Allow.Reach(t.Context(), to); err == nil || fmt.Sprint(user.titles) !=
		"[./x wants to reach 10.0.0.7, the address of a.example]" || fmt.Sprint(user.last.Choices) != "[once session no]" {
		t.Errorf("%v %q %v", err, user.titles, user.last.Choices)
	}
	o.Rules.Allow = append(o.Rules.Allow, rules(t, permission.User, "Network(a.example)")...)
	if permit, err = newGate(t, o).Ask(t.Context(), command("./x")); err != nil {
		t.Fatal(err)
	}
	if err := permit.Allow.Reach(t.Context(), to); err != nil {
		t.Error(err)
	}
}

// TestNetworkWords: the hosts that the words of a command name are part of the question about it.
func TestNetworkWords(t *testing.T) {
	user := &asked{choice: gate.Once}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/.npmrc", []byte("registry = https://npm.corp.example/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := newGate(t, gate.Options{Approver: user, Paths: permission.PathContext{Dir: dir, Confined: func() bool { return true }},
		Rules: permission.Rules{Allow: rules(t, permission.User, "Network(go)")}})
	for line, want := range map[string]string{
		"git clone https://github.com/a/b":             "[github.com:443]",
		"curl -o x http://a.example:81/y?z":            "[a.example:81]",
		"timeout 9 curl https://b.example":             "[b.example:443]",
		"npm i left-pad":                               "[npm.corp.example:443]",
		"npm i --registry=https://r.example/ left-pad": "[r.example:443]",
		"npm test":                                         "[]",
		"pip download six":                                 "[pypi.org:443 files.pythonhosted.org:443]",
		"python3 -m pip install six":                       "[pypi.org:443 files.pythonhosted.org:443]",
		"go get golang.org/x/text":                         "[]",
		"cargo add serde":                                  "[index.crates.io:443 static.crates.io:443]",
		"touch x https://c.example":                        "[]",
		"curl http://127.0.0.1:8080/ http://localhost:1":   "[]",
		"curl $URL":                                        "[]",
		"curl http://10.0.0.1/":                            "[]",
		"wget https://U:p@D.example./x https://d.example/": "[d.example:443]",
	} {
		permit, err := g.Ask(t.Context(), command(line))
		if err != nil {
			t.Fatal(line, err)
		}
		var got []string
		for _, h := range user.last.Hosts {
			got = append(got, h.Name+":"+h.Port)
			before := len(user.titles)
			if err := permit.Allow.Reach(t.Context(), workspace.Destination{Host: h.Name, Port: h.Port}); err != nil ||
				len(user.titles) != before {
				t.Errorf("%s: %v, asked again: %t", line, err, len(user.titles) != before)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", line, got, want)
		}
	}
}

// TestNetworkPort: a port of this machine on which a program listens is part of the question about a command that names
// it, and no answer opens it for longer.
func TestNetworkPort(t *testing.T) {
	user := &asked{choice: gate.Session}
	g := newGate(t, gate.Options{Approver: user,
		Network: gate.Network{Listens: func(port string) bool { return port == "3000" }},
		Paths:   permission.PathContext{Dir: t.TempDir(), Confined: func() bool { return true }}})
	reach := func() (asked int) {
		permit, err := g.Ask(t.Context(), command("curl -o x http://localhost:3000/ http://127.0.0.1:8080/"))
		if err != nil {
			t.Fatal(err)
		}
		before := len(user.titles)
		if err := permit.Allow.Reach(t.Context(), workspace.Destination{Host: "127.0.0.1", Port: "3000"}); err != nil {
			t.Error(err)
		}
		return len(user.titles) - before
	}
	asked := reach()
	if h := user.last.Hosts; asked != 0 || len(h) != 1 || h[0].Name != "localhost" || h[0].Port != "3000" ||
		strings.Contains(fmt.Sprint(user.last.Rules), "Network") {
		t.Errorf("asked again: %d, %v %v", asked, h, user.last.Rules)
	}
	if user.choice = gate.Once; reach() != 1 {
		t.Errorf("the command's rule opens the port: %q", user.titles)
	}
}

// TestNetworkWithdrawn: a question ends with the last connection that waits for it; the next one asks again.
func TestNetworkWithdrawn(t *testing.T) {
	shown := make(chan context.Context)
	o := gate.Options{Approver: gate.ApproverFunc(func(ctx context.Context, r gate.Request) (gate.Answer, error) {
		shown <- ctx
		<-ctx.Done()
		return gate.Answer{}, context.Cause(ctx)
	}), Rules: permission.Rules{Allow: rules(t, permission.Flag, "Bash")}}
	permit, err := newGate(t, o).Ask(t.Context(), command("./x"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- permit.Allow.Reach(ctx, workspace.Destination{Host: "a.example", Port: "443"}) }()
		question := <-shown
		leave()
		<-question.Done()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestNetworkGuard: a command with text of a secret is asked about in spite of rules.
func TestNetworkGuard(t *testing.T) {
	o := gate.Options{Rules: permission.Rules{Allow: rules(t, permission.Flag, "Network")},
		Network: gate.Network{Guard: func(line string) string {
			if strings.Contains(line, "KEY") {
				return "it carries a secret"
			}
			return ""
		}}}
	if err := networked(t, o, "curl https://a.example/KEY")("a.example"); err == nil ||
		!strings.Contains(err.Error(), "it carries a secret") || strings.Contains(err.Error(), "--allow") {
		t.Error(err)
	}
	if err := networked(t, o, "curl https://a.example/")("a.example"); err != nil {
		t.Error(err)
	}
	// of a program that is a tool, what it is given says as much
	post := tool.Tool{Name: "post", Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: permission.KindTool, Text: "post", Default: permission.Allow}}, nil
	}}
	permit, err := newGate(t, o).Ask(t.Context(), post.Propose("1", []byte(`{"to": {"text": ["\u004bEY"]}}`)))
	if err != nil {
		t.Fatal(err)
	}
	if err := permit.Allow.Reach(t.Context(), workspace.Destination{Host: "a.example", Port: "443"}); err == nil ||
		!strings.Contains(err.Error(), "it carries a secret") {
		t.Error(err)
	}
	user := &asked{choice: gate.Always}
	o.Approver, o.Keeper = user, new(keeper)
	networked(t, o, "curl https://a.example/KEY")("a.example")
	if fmt.Sprint(user.last.Choices) != "[once no]" {
		t.Error(user.last.Choices)
	}
}
