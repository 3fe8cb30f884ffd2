package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/run/tool"
)

// NetworkTool is the name of a Request about a host that a command wants to reach.
const NetworkTool = "SandboxNetworkAccess"

// A Network configures how connections of commands are decided on. The zero Network asks the Approver for 60 seconds.
type Network struct {
	Approver Approver      // asks about hosts; nil: that of the Gate
	Wait     time.Duration // for an answer, from when the user sees the question; 0: 60 s; negative: nobody is asked
	Managed  bool          // only an administrator's rules open hosts, and nobody is asked
	// Guard explains why a command line may be asked about in spite of rules, such as for a secret in it; "": it may
	// not. nil: there is no guard.
	Guard func(line string) string
	// Listens reports whether a program of this machine listens on a port of its loopback interface; nil: none does. What
	// a command starts itself is on its own.
	Listens func(port string) bool
}

const (
	defaultWait = 60 * time.Second
	titleLength = 60 // characters of a command line in a question about a host
)

// A network decides about the connections of one call's commands. Each host is decided once.
type network struct {
	*approval
	ctx      context.Context      // with the values of the call; the command may outlive its end
	subjects []permission.Subject // of the call
	line     string               // "": the call runs no single command line
	words    []Host               // that the line names

	mu     sync.Mutex
	hosts  map[string]*hostAnswer // by address
	asked  int
	closed string // why nobody is asked any more; "": the user can be
}

// A hostAnswer is the decision on one host.
type hostAnswer struct {
	done    chan struct{} // closed when err is set
	err     error
	waiting int // connections that wait for done
	cancel  context.CancelFunc
}

// newNetwork returns the network of a call that was allowed.
func (a *approval) newNetwork(ctx context.Context, subjects []permission.Subject) *network {
	n := &network{approval: a, ctx: context.WithoutCancel(ctx), subjects: subjects, line: commandLine(subjects),
		hosts: map[string]*hostAnswer{}}
	if n.line != "" {
		n.words = hostsOf(n.line, a.opt.Paths.Dir, a.opt.Paths.Home)
	}
	return n
}

// openNetwork lets the commands of a permit reach what rules, answers and the user allow.
func (a *approval) openNetwork(ctx context.Context, p *tool.Permit) {
	if !slices.ContainsFunc(p.Subjects, permission.Subject.Runs) {
		return
	}
	n := a.newNetwork(ctx, p.Subjects)
	n.opened(a.hosts)
	p.Allow.Reach = n.reach
	rules := n.newGrounds(n.scopes, n.subjects).rules()
	if n.opt.Network.Managed {
		rules.Allow = slices.DeleteFunc(rules.Allow, func(r permission.Rule) bool { return r.Origin != permission.Managed })
	}
	p.Allow.Hosts = append(p.Allow.Hosts, rules.LoopbackHosts()...)
}

// opened notes the hosts that the user approved with the call.
func (n *network) opened(hosts []Host) {
	for _, h := range hosts {
		d := &hostAnswer{done: make(chan struct{})}
		close(d.done)
		name := h.Name
		if isLoopback(name) {
			name = "127.0.0.1" // as the sandbox names it
		}
		n.hosts[net.JoinHostPort(name, h.Port)] = d
	}
}

// reach is the func Reach of the call's [workspace.Allowance].
func (n *network) reach(ctx context.Context, to workspace.Destination) error {
	key := net.JoinHostPort(to.Host, to.Port)
	if to.Address.IsValid() {
		key = net.JoinHostPort(to.Address.String(), to.Port)
	}
	n.mu.Lock()
	d := n.hosts[key]
	if d == nil {
		d = &hostAnswer{done: make(chan struct{})}
		n.hosts[key] = d
		var question context.Context
		question, d.cancel = context.WithCancel(n.ctx)
		go func() {
			defer d.cancel()
			err := n.decideHost(question, to)
			n.mu.Lock()
			defer n.mu.Unlock()
			d.err = err
			close(d.done)
		}()
	}
	d.waiting++
	n.mu.Unlock()
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.waiting--; d.waiting == 0 && d.cancel != nil && n.hosts[key] == d {
		select {
		case <-d.done: // it was decided in the meantime
		default:
			delete(n.hosts, key) // withdrawn: the next connection asks again, and does not wait for the end of this question
			d.cancel()
		}
	}
	return context.Cause(ctx)
}

// subject returns what is decided about a destination.
func (n *network) subject(to workspace.Destination) permission.Subject {
	host := to.Host
	if to.Address.IsValid() {
		host = to.Address.String()
	}
	s := permission.HostSubject(host, to.Port)
	s.Tool = n.call.Name
	switch why := n.guarded(); {
	case to.Own:
		s.Note = "another command of the session serves there"
	case why != "":
		s.EveryTime, s.Note = true, why
	case to.Address.IsValid():
		s.Note = to.Host + " leads to an address of this machine's network"
	case insideHost(host):
		s.Note = host + " is in this machine's network"
	}
	s.Question = fmt.Sprintf("%s wants to reach %s%s", short(cmp.Or(n.line, n.call.Name), titleLength), host, n.whose(to))
	return s
}

// guarded explains why a host is asked about because of what the command is given: its line, or else all texts of the
// input.
func (n *network) guarded() string {
	if n.opt.Network.Guard == nil {
		return ""
	}
	said := n.line
	if said == "" {
		var input any
		if json.Unmarshal(n.call.Input, &input) != nil {
			return "what the call is given cannot be read"
		}
		said = strings.Join(textsIn(input), "\n")
	}
	return n.opt.Network.Guard(said)
}

// textsIn returns all texts in a decoded JSON value, with the names of fields.
func textsIn(v any) (texts []string) {
	switch v := v.(type) {
	case string:
		texts = append(texts, v)
	case []any:
		for _, x := range v {
			texts = append(texts, textsIn(x)...)
		}
	case map[string]any:
		for name, x := range v {
			texts = append(append(texts, name), textsIn(x)...)
		}
	}
	return texts
}

// whose says in parentheses whose host a destination is, and its port if it is not one of the web.
func (n *network) whose(to workspace.Destination) string {
	if to.Address.IsValid() {
		return ", the address of " + to.Host
	}
	port := ""
	if to.Port != "443" && to.Port != "80" {
		port = " on port " + to.Port
	}
	for _, h := range n.words {
		if h.Name == to.Host && h.What != "" {
			return port + " (" + h.What + ")"
		}
	}
	for _, p := range permission.NetworkPresets() {
		if slices.Contains(p.Hosts, to.Host) {
			return port + " (one of Network(" + p.Name + "))"
		}
	}
	return port
}

// short returns the first line of a text, cut to a number of characters.
func short(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// judge decides about a subject by rules and answers.
func (n *network) judge(ctx context.Context, s permission.Subject, mode permission.Mode,
	inside bool) permission.Decision {

	from := n.newGrounds(n.scopes, n.subjects)
	rules := from.rules()
	rules.Allow = slices.DeleteFunc(rules.Allow, func(r permission.Rule) bool {
		switch {
		case n.opt.Network.Managed:
			return r.Origin != permission.Managed
		case inside: // what was answered for always opens nothing inside, nor do presets and patterns
			return r.Origin != permission.Session && !permission.Rules{Allow: []permission.Rule{r}}.NamesHost(s)
		}
		return false
	})
	return rules.Decide(ctx, mode, from.place, s)
}

// decideHost decides about a destination, and asks the user if it can. The error is for the model and the user.
func (n *network) decideHost(ctx context.Context, to workspace.Destination) error {
	s := n.subject(to)
	host, _, _ := net.SplitHostPort(s.Text)
	inside := to.Address.IsValid() || insideHost(to.Host)
	d := n.judge(ctx, s, permission.Default, inside)
	switch {
	case d.Verdict != permission.Ask:
	case to.Own && d.Rule == "": // the command can reach it through files, too
		d.Verdict, d.Reason = permission.Allow, ""
	case d.Rule == "" && !s.EveryTime && n.consented(to, inside):
		d.Verdict, d.Reason = permission.Allow, ""
	case !inside || n.Mode() != permission.Bypass: // nobody thinks of what is inside when choosing that mode
		d = n.judge(ctx, s, n.Mode(), inside)
	}
	rule := permission.HostRule(host, to.Port)
	allow := ". To allow it: --allow '" + rule + "'"
	if s.EveryTime || d.Rule != "" || n.opt.Network.Managed {
		allow = "" // no rule does
	}
	r := Record{Tool: n.call.Name, Decision: d}
	refuse := func(why string) error {
		r.Decision.Verdict = permission.Deny
		n.audit(r)
		return errors.New(why + allow)
	}
	approver := n.opt.Network.Approver
	if approver == nil {
		approver = n.opt.Approver
	}
	switch {
	case d.Verdict == permission.Allow:
		return n.audit(r)
	case d.Verdict == permission.Deny && d.Rule != "":
		return refuse(fmt.Sprintf("the rule %s (%s) denies it", d.Rule, d.Origin))
	case d.Verdict == permission.Deny:
		return refuse(d.Reason)
	case n.opt.Network.Managed:
		return refuse("only an administrator opens hosts to commands here")
	case approver != nil && approver != Typed && n.opt.Network.Wait >= 0:
		return n.askHost(ctx, approver, s, r, inside, rule)
	case d.Rule != "":
		return refuse(fmt.Sprintf("the rule %s (%s) asks about it, and there is no user to ask", d.Rule, d.Origin))
	case s.EveryTime:
		return refuse(s.Note + ", and there is no user to ask")
	}
	return refuse("no rule allows it, and there is no user to ask")
}

// consented reports whether something other than a rule for the destination allows it: a setting, the user who typed
// the command line with the host, or a rule that spells out the name that leads inside.
func (n *network) consented(to workspace.Destination, inside bool) bool {
	if to.Listed || n.opt.Approver == Typed && !inside && n.inWords(to) {
		return true
	}
	return to.Address.IsValid() && !n.opt.Network.Managed &&
		n.newGrounds(n.scopes, n.subjects).rules().NamesHost(permission.HostSubject(to.Host, to.Port))
}

func (n *network) inWords(to workspace.Destination) bool {
	return slices.ContainsFunc(n.words, func(h Host) bool { return h.Name == to.Host && h.Port == to.Port })
}

// askHost asks the user about a host, one question at a time.
func (n *network) askHost(ctx context.Context, approver Approver, s permission.Subject, r Record, inside bool,
	rule string) error {

	select {
	case n.answers.asking <- struct{}{}:
		defer func() { <-n.answers.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if n.judge(ctx, s, n.Mode(), inside).Verdict == permission.Allow { // another command's answer covers it
		return nil
	}
	n.mu.Lock()
	closed := n.closed
	if n.asked++; closed == "" && n.asked > maxHosts {
		closed = fmt.Sprintf("the user was asked about %d hosts of this command, and the others are refused", maxHosts)
	}
	n.mu.Unlock()
	allow := ". To allow it: --allow '" + rule + "'"
	if closed != "" {
		r.Decision.Verdict = permission.Deny
		n.audit(r)
		return errors.New(closed + allow)
	}
	host, port, _ := net.SplitHostPort(s.Text)
	in := struct {
		Host    string `json:"host"`
		Port    string `json:"port,omitempty"`
		Command string `json:"command,omitempty"`
	}{Host: host}
	if port != "443" && port != "80" {
		in.Port = port
	}
	if short(n.line, titleLength) != n.line {
		in.Command = n.line
	}
	input, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req := Request{Call: n.call.ID, Name: NetworkTool, Tool: NetworkTool, Agent: n.opt.Agent, Dir: n.opt.Paths.Dir,
		home: n.opt.Paths.Home, Input: input, Subjects: []permission.Subject{s}, Decision: r.Decision,
		Choices: []Choice{Once}}
	if !s.EveryTime && r.Decision.Rule == "" {
		req.Rules, req.Choices = []string{rule}, append(req.Choices, Session)
		if n.opt.Keeper != nil && !inside {
			req.Choices = append(req.Choices, Always)
		}
	}
	req.Choices = append(req.Choices, No)
	wait := cmp.Or(n.opt.Network.Wait, defaultWait)
	asking, stop := context.WithTimeoutCause(ctx, wait, errNoAnswer)
	defer stop()
	r.Asked = true
	r.Answer, err = approver.Approve(asking, req)
	no := func(why, close string) error {
		r.Decision.Verdict, r.Decision.Reason = permission.Deny, why
		n.audit(r)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.closed = cmp.Or(n.closed, close)
		return errors.New(why + allow)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx) // withdrawn
	case err != nil && asking.Err() != nil:
		why := fmt.Sprintf("nobody answered within %s", wait)
		return no(why, why)
	case err != nil:
		return no("the question was not answered: "+err.Error(), "")
	}
	if err := n.update(r.Answer.Updates); err != nil {
		return no("the answer cannot be applied: "+err.Error(), "")
	}
	if r.Answer.Choice == No || !slices.Contains(req.Choices, r.Answer.Choice) {
		why := "the user declined"
		if r.Answer.Reason != "" {
			why += ": " + r.Answer.Reason
		}
		r.Answer.Choice, r.Decision.Verdict, r.Decision.Reason = No, permission.Deny, why
		n.audit(r)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.closed = "the user declined another host of this command"
		return errors.New(why)
	}
	if err := n.remember(req, r.Answer.Choice); err != nil {
		return no("the answer could not be stored: "+err.Error(), "")
	}
	r.Decision.Verdict = permission.Allow
	return n.audit(r)
}

var errNoAnswer = errors.New("nobody answered")

// hostsToAsk returns the hosts that a command line reaches, as far as its words say, and about which the rules would
// ask, with the rules that open them.
func (a *approval) hostsToAsk(ctx context.Context, subjects []permission.Subject) (hosts []Host, rules []string) {
	line := commandLine(subjects)
	if line == "" || a.opt.Network.Managed || a.opt.Paths.Confined == nil || !a.opt.Paths.Confined() {
		return nil, nil
	}
	n := a.newNetwork(ctx, subjects)
	for _, h := range n.words {
		to := workspace.Destination{Host: h.Name, Port: h.Port}
		s, own := n.subject(to), isLoopback(h.Name)
		if s.EveryTime || insideHost(h.Name) && !own || guard.NamesThisMachine(h.Name) && !own || // never reached by a name
			own && (n.opt.Network.Listens == nil || !n.opt.Network.Listens(h.Port)) ||
			n.judge(ctx, s, n.Mode(), own).Verdict != permission.Ask {
			continue
		}
		hosts = append(hosts, h)
		if !own { // no answer opens what is inside for longer
			rules = append(rules, permission.HostRule(h.Name, h.Port))
		}
	}
	return hosts, rules
}
