package permission

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// A Rule is a tool name with an optional pattern: Tool or Tool(pattern).
type Rule struct {
	Tool    string
	Pattern string // "" if Any is set: the rule then covers every subject of the tool
	Any     bool
	Origin  Origin
	Base    string // absolute directory to which a pattern "/x" is relative; "": the working directory

	text string // as it was written, if this is another reading of it
}

func (r Rule) String() string {
	if r.text != "" {
		return r.text
	}
	if r.Any {
		return r.Tool
	}
	return r.Tool + "(" + r.Pattern + ")"
}

// A Severity tells what happens to a rule with a [Problem].
type Severity string

const (
	SeverityError Severity = "error" // it is ignored
	SeverityWarn  Severity = "warn"  // it is kept, but may have no effect
	SeverityInfo  Severity = "info"  // it is kept
)

// A Problem is a message about a rule, for the rule's author.
type Problem struct {
	Rule     string
	Severity Severity
	Message  string
}

func (p Problem) String() string { return p.Rule + ": " + p.Message }

// ParseRule parses Tool or Tool(pattern). It does not check that the tool exists: see
// [Rule.Problem].
func ParseRule(text string, o Origin) (Rule, error) {
	text = strings.TrimSpace(text)
	name, pattern, found := strings.Cut(text, "(")
	name = strings.TrimSpace(name)
	if name == "" {
		return Rule{}, fmt.Errorf("%q: a rule must begin with the name of a tool", text)
	}
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-*.:/", r) {
			return Rule{}, fmt.Errorf("%q: %q is not a valid tool name", text, name)
		}
	}
	if !found {
		return Rule{Tool: name, Any: true, Origin: o}, nil
	}
	pattern, closed := strings.CutSuffix(pattern, ")")
	if !closed {
		return Rule{}, fmt.Errorf("%q is not closed", text)
	}
	if rest := after(pattern); rest != "" {
		return Rule{}, fmt.Errorf("%q: %q stands after the bracket that closes the pattern; write each rule by itself",
			text, rest+")")
	}
	pattern = strings.TrimSpace(pattern)
	r := Rule{Tool: name, Pattern: pattern, Origin: o}
	if pattern == "" {
		return Rule{}, fmt.Errorf("%q: the pattern is empty; %s without parentheses covers every use", text, name)
	}
	if pattern == "*" || pattern == ":*" {
		return Rule{Tool: name, Any: true, Origin: o}, nil
	}
	for _, c := range pattern {
		if unicode.Is(unicode.Cf, c) || unicode.IsControl(c) && c != '\n' && c != '\t' {
			return Rule{}, fmt.Errorf("%q: the pattern contains control or hidden characters", text)
		}
	}
	switch kind, _ := kindOf(name); kind {
	case KindRead, KindEdit:
		if strings.HasPrefix(pattern, "!") {
			return Rule{}, fmt.Errorf("%q: a pattern cannot be negated; use a deny rule", text)
		}
	case KindWebFetch:
		host, ok := strings.CutPrefix(pattern, "domain:")
		name, port := cutPort(host)
		if _, err := strconv.ParseUint(port, 10, 16); !ok || name == "" || strings.ContainsAny(name, "/ :") || err != nil &&
			port != "" {
			return Rule{}, fmt.Errorf("%q: the pattern must be domain:HOST or domain:HOST:PORT", text)
		}
	case KindNetwork:
		name, port := cutPort(pattern)
		if _, err := strconv.ParseUint(port, 10, 16); name == "" || strings.ContainsAny(name, "/ @") || err != nil &&
			port != "" {
			return Rule{}, fmt.Errorf("%q: the pattern must be HOST, *.HOST, HOST:PORT or a preset (%s)", text,
				presetNames())
		}
	}
	return r, nil
}

// after returns what stands after the bracket that closes a pattern, as in "ls:*)(x"; "": nothing. Brackets without a
// partner, and those of a pattern with quotes, may be text.
func after(pattern string) string {
	if strings.ContainsAny(pattern, "\"'`\\") {
		return ""
	}
	depth, end := 1, -1
	for i := range len(pattern) {
		switch pattern[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 && end < 0 {
			end = i + 1
		} else if depth < 0 {
			return ""
		}
	}
	if depth != 1 || end < 0 {
		return ""
	}
	return strings.TrimSpace(pattern[end:])
}

// ParseRules parses a list of rules. The Problems report the rules that cannot be parsed and those
// for unknown tools; tools are the names of all existing tools. base is the directory to which
// patterns "/x" are relative.
func ParseRules(texts []string, o Origin, base string, tools ...string) ([]Rule, []Problem) {
	var rules []Rule
	var problems []Problem
	for _, text := range texts {
		r, err := ParseRule(text, o)
		if err != nil {
			problems = append(problems, Problem{text, SeverityError, err.Error()})
			continue
		}
		r.Base = base
		if p, ok := r.Problem(tools...); ok {
			problems = append(problems, p)
		}
		rules = append(rules, r)
	}
	return rules, problems
}

// Problem reports a rule for a tool that Knack does not have: a tool of another agent (info) or an
// unknown one (warn). Such a rule has no effect until a tool with that name is added. tools are the
// names of all existing tools.
func (r Rule) Problem(tools ...string) (Problem, bool) {
	if r.Tool == string(KindNetwork) && !r.Any && r.Pattern != "localhost" && !strings.ContainsAny(r.Pattern, ".:*") &&
		presetHosts(r.Pattern) == nil {
		return Problem{r.String(), SeverityWarn,
			r.Pattern + " is a host here, and no preset: these are " + presetNames()}, true
	}
	if _, _, ok := knownKind(r.Tool); ok || r.Tool == "*" || strings.HasPrefix(r.Tool, "mcp__") ||
		slices.Contains(tools, r.Tool) {
		return Problem{}, false
	}
	if IsOtherAgentsTool(r.Tool) {
		return Problem{r.String(), SeverityInfo, r.Tool +
			" is a tool of other agents that Knack does not have, so the rule has no effect"}, true
	}
	if strings.ContainsRune(r.Tool, '*') {
		return Problem{}, false
	}
	return Problem{r.String(), SeverityWarn, "unknown tool " + r.Tool}, true
}

// Meant returns the tool that a rule for an unknown tool probably means, by a misspelt name; "": none. tools are as for
// [Rule.Problem]. Such a rule that denies or asks would guard nothing.
func (r Rule) Meant(tools ...string) string {
	if _, ok := r.Problem(tools...); !ok || r.Tool == string(KindNetwork) || IsOtherAgentsTool(r.Tool) {
		return ""
	}
	lower := strings.ToLower(r.Tool)
	if name, _, _ := strings.Cut(r.Tool, ":"); name != r.Tool {
		if _, _, known := knownKind(name); known {
			return name + "(…)"
		}
	}
	if strings.HasPrefix(lower, "mcp_") {
		return "mcp__SERVER__TOOL"
	}
	tools = slices.Clone(tools)
	for i := range kinds {
		tools = append(tools, kinds[i].name)
	}
	slices.Sort(tools)
	best, far := "", 3
	for _, name := range tools {
		most := min(2, len(name)/3, len(r.Tool)/2)
		if d := similar.Distance(lower, strings.ToLower(name), most); d <= most && d < far {
			best, far = name, d
		}
	}
	return best
}

// Misspelt returns an error if the rule is for a tool that does not exist and that has nearly the name of one, see
// [Rule.Meant].
func (r Rule) Misspelt(tools ...string) error {
	if meant := r.Meant(tools...); meant != "" {
		return fmt.Errorf("there is no tool %s; did you mean %s", r.Tool, meant)
	}
	return nil
}

// AllowProblem reports a rule that allows no call: a name with a wildcard counts for tools of one named server only,
// because the names of servers and tools are chosen by others. In deny and ask rules any such name counts.
func (r Rule) AllowProblem() (Problem, bool) {
	i := strings.IndexByte(r.Tool, '*')
	switch {
	case i < 0 || r.Tool == "*" || strings.HasPrefix(r.Tool, "mcp__") && strings.Count(r.Tool[:i], "__") >= 2:
		return Problem{}, false
	case strings.HasPrefix(r.Tool, "mcp__"):
		return Problem{r.String(), SeverityError, r.Tool + " allows nothing, because it names no server: write mcp__SERVER " +
			"for all its tools, or mcp__SERVER__*"}, true
	}
	return Problem{r.String(), SeverityError,
		r.Tool + " allows nothing: an allow rule names one tool; only deny and ask " +
			"rules may have a wildcard in the name"}, true
}

// otherAgentsTools lists tools of other agents that Knack does not have.
var otherAgentsTools = []string{
	"ExitPlanMode", "EnterPlanMode", "LSP", "NotebookRead",
	"TaskGet", "TaskOutput", "TaskStop", "Workflow", "ScheduleWakeup", "SendMessage", "TeamCreate",
	"TeamDelete", "CronCreate", "CronDelete", "CronList", "EnterWorktree", "ExitWorktree", "Cd", "Search", "View",
	"BatchTool", "Computer",
}

// IsOtherAgentsTool reports whether name is a tool of other agents that Knack does not have. Rules for it
// have no effect.
func IsOtherAgentsTool(name string) bool { return slices.Contains(otherAgentsTools, name) }

// Broad reports whether a rule covers all tools or every use of the shell. A project's skill must
// not grant itself such a rule.
func (r Rule) Broad() bool {
	kind, _ := kindOf(r.Tool)
	if kind == "*" {
		return true
	}
	return kind == KindBash && (r.Any || strings.Trim(r.Pattern, "*: ") == "")
}

// CoversAll reports whether a rule that denies covers every call of a tool by its name, that of its MCP server
// (mcp__x), or a pattern (mcp__x__*). names are those of the tool.
func (r Rule) CoversAll(names ...string) bool {
	return r.Any && slices.ContainsFunc(names, func(name string) bool {
		return name == r.Tool || strings.HasPrefix(r.Tool, "mcp__") && strings.HasPrefix(name, r.Tool+"__") ||
			strings.ContainsRune(r.Tool, '*') && glob(r.Tool, name)
	})
}

// kinds lists the tool names in rules, including those of other agents, with the kind of subject and,
// if the name covers only one tool of that kind, that tool. Names of other tools are in
// [Subject.Aliases].
var kinds = [...]struct {
	name string
	kind Kind
	tool string
}{
	{"Bash", KindBash, ""}, {"bash", KindBash, ""},
	{"Read", KindRead, ""}, {"read", KindRead, ""},
	{"Edit", KindEdit, ""}, {"edit", KindEdit, ""}, {"MultiEdit", KindEdit, ""}, {"NotebookEdit", KindEdit, ""},
	{"Write", KindEdit, "write"}, {"write", KindEdit, "write"},
	{"Grep", KindRead, "grep"}, {"grep", KindRead, "grep"},
	{"Glob", KindRead, "find"}, {"find", KindRead, "find"},
	{"LS", KindRead, "ls"}, {"ls", KindRead, "ls"},
	{"Skill", KindSkill, ""}, {"skill", KindSkill, ""},
	{"Agent", KindAgent, ""}, {"agent", KindAgent, ""}, {"Task", KindAgent, ""},
	{"PowerShell", KindPowerShell, ""},
	{"WebFetch", KindWebFetch, ""}, {"web_fetch", KindWebFetch, ""},
	{"WebSearch", KindWebSearch, ""}, {"web_search", KindWebSearch, ""},
	{"Tool", KindTool, ""},
	{"Network", KindNetwork, ""},
}

// kindOf returns the kind of a tool name, by default the name itself, and the one tool that the
// name covers; "" if it covers all tools of the kind.
func kindOf(name string) (kind Kind, tool string) {
	kind, tool, _ = knownKind(name)
	return kind, tool
}

func knownKind(name string) (kind Kind, tool string, known bool) {
	for i := range kinds {
		if kinds[i].name == name {
			return kinds[i].kind, kinds[i].tool, true
		}
	}
	return Kind(name), "", false
}

// isTool reports whether name is one of the calling tool's names.
func (s *Subject) isTool(name string) bool {
	return s.Tool == name || s.Aliases != nil && slices.Contains(*s.Aliases, name)
}

// coversTool reports whether a rule covers the tool of a subject, regardless of the subject's text. broad
// is for deny and ask rules.
func (r *Rule) coversTool(s *Subject, broad bool) bool {
	k, t := kindOf(r.Tool)
	switch {
	case k == "*":
		return true
	case k == s.Kind && t == "":
		return true
	case k == s.Kind:
		own := s.Tool
		if kind, one := kindOf(own); one != "" {
			own = one
		} else if kind == s.Kind {
			own = strings.ToLower(string(kind))
		}
		if broad && t == "write" && (!r.Any || own != "edit") {
			return true // such a rule covers every tool that writes files
		}
		return own == t
	case s.Kind == KindNetwork && k == KindWebFetch:
		return !r.Any // a rule without a host is about the tool alone
	case s.Kind == KindNetwork:
		return broad && strings.ContainsRune(r.Tool, '*') && glob(r.Tool, string(KindNetwork))
	case s.isTool(r.Tool):
		return true
	}
	rule, kind := string(k), string(s.Kind)
	if strings.HasPrefix(rule, "mcp__") && strings.HasPrefix(kind, "mcp__") {
		if rule == strings.TrimSuffix(kind, "__") || strings.Count(rule, "__") == 1 && strings.HasPrefix(kind, rule+"__") {
			return true
		}
		if i := strings.IndexByte(rule, '*'); i >= 0 && (broad || strings.Count(rule[:i], "__") >= 2) {
			return glob(rule, kind)
		}
		return false
	}
	return broad && strings.ContainsRune(rule, '*') && (glob(rule, kind) || glob(rule, s.Tool))
}

// isForFiles reports whether a rule is about files that are written, and not only about the commands that write them.
func (r *Rule) isForFiles() bool {
	kind, _ := kindOf(r.Tool)
	return kind == KindEdit || kind == "*"
}

// sameServerOrigin reports whether an allow rule may apply to the MCP server of a subject. A rule is written
// for one server, but names it only by its name: a project must not define a server with the name
// of one of the user's, nor allow the user's servers. Rules from answers and from the command line
// apply to the server that is configured now.
func (r *Rule) sameServerOrigin(s *Subject) bool {
	switch {
	case s.Server == "":
		return true
	case r.Origin == Project:
		return s.Server == Project
	case r.Origin == User, r.Origin == Managed:
		return s.Server != Project
	}
	return true
}

// matchText matches the text of a subject that is neither a command nor a path with the rule's
// pattern.
func (r *Rule) matchText(kind Kind, text string, broad bool) bool {
	pattern := r.Pattern
	if kind == KindPowerShell && !broad { // PowerShell is not parsed: only a rule with the whole text allows it
		return !r.Any && (pattern == text || pattern == escapeGlob(text))
	}
	if r.Any && kind == KindWebFetch && !broad { // another port is often another service, which nobody thought of
		u := webAddress(text)
		return u != nil && matchPort("", u, false)
	}
	if r.Any {
		return true
	}
	if kind == KindNetwork && r.Tool == string(KindNetwork) {
		return matchNetwork(pattern, text, broad)
	}
	if kind == KindWebFetch || kind == KindNetwork {
		host, ok := strings.CutPrefix(pattern, "domain:")
		return ok && matchHost(strings.ToLower(host), text, broad)
	}
	if broad {
		pattern, text = strings.ToLower(pattern), strings.ToLower(text)
	}
	if kind == KindSkill {
		text = strings.TrimLeft(text, "/ ")
	}
	for _, tail := range []string{" *", ":*"} {
		if p, ok := strings.CutSuffix(pattern, tail); ok && (text == p || strings.HasPrefix(text, p+" ") ||
			strings.HasPrefix(text, p+":")) {
			return true
		}
	}
	// As in Claude Code, from whose settings such rules are read: what is kept out may be kept out by its beginning.
	if p, ok := strings.CutSuffix(pattern, ":*"); ok && broad && glob(p+"*", text) {
		return true
	}
	return glob(pattern, text)
}

// cutPort cuts the port off a host; "": it has none. A host with colons is an address in brackets.
func cutPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") {
		return strings.Trim(host, "[]"), ""
	}
	return strings.Trim(host[:i], "[]"), host[i+1:]
}

// matchHost matches the host of an address with a.b, *.a.b (any subdomain) or a pattern in which *
// matches within one label. Other ports than 80 and 443 must be in the pattern, unless broad is set.
func matchHost(pattern, address string, broad bool) bool {
	u := webAddress(address)
	if u == nil {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	pattern, port := cutPort(pattern)
	if host == "" || !matchPort(port, u, broad) {
		return false
	}
	if rest, ok := strings.CutPrefix(pattern, "*."); ok && !strings.Contains(rest, "*") {
		return strings.HasSuffix(host, "."+rest)
	}
	p, h := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(p) != len(h) {
		return false
	}
	for i := range p {
		if !glob(p[i], h[i]) {
			return false
		}
	}
	return true
}

// webAddress parses an address that may have no scheme; nil: it is none of the web.
func webAddress(address string) *url.URL {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil
	}
	return u
}

func matchPort(want string, u *url.URL, broad bool) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if want == "" {
		return broad || port == "80" || port == "443"
	}
	return want == port
}

// Symbols in patterns and lines that are not characters. The command lines that are judged do not
// contain these bytes.
const (
	wordEnd     = 0 // the separator of words
	unknownByte = 1 // unknown text: only a wildcard matches it
	noMatch     = 2 // matches nothing
	wildcard    = 3
)

// A pattern is the compiled pattern of a Bash rule.
type pattern struct {
	text    []byte
	prefix  bool // the rule ended in " *" or ":*": more words may follow
	starred bool
	lead    int // number of whole words before the first star
	assigns bool
}

// compile parses the pattern of a Bash rule. Quotes and backslashes work as in the shell, but a *
// inside double quotes is a wildcard.
func compile(s string) pattern {
	var p pattern
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutSuffix(s, ":*"); ok {
		s, p.prefix = rest, true
	} else if rest, ok := strings.CutSuffix(s, " *"); ok {
		s, p.prefix = strings.TrimRight(rest, " "), true
	}
	out := make([]byte, 0, len(s))
	word := false // a word has begun; it may be empty: ''
	add := func(c byte) {
		word = true
		if c < 4 {
			c = 0x7f
		}
		out = append(out, c)
	}
	wild := func() {
		word = true
		if !p.starred {
			p.starred = true
			for _, c := range out {
				if c == wordEnd {
					p.lead++
				}
			}
		}
		if len(out) == 0 || out[len(out)-1] != wildcard {
			out = append(out, wildcard)
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\n':
			if word {
				out = append(out, wordEnd)
			}
			word = false
		case '\'', '"':
			end := strings.IndexByte(s[i+1:], c)
			if end < 0 {
				add(c)
				continue
			}
			word = true
			for k := i + 1; k <= i+end; k++ {
				if c == '"' && s[k] == '*' {
					wild()
				} else if c == '"' && s[k] == '\\' && k < i+end {
					k++
					add(s[k])
				} else {
					add(s[k])
				}
			}
			i += end + 1
		case '\\':
			if i+1 < len(s) {
				i++
			}
			add(s[i])
		case '*':
			wild()
		default:
			add(c)
		}
	}
	if !word && len(out) > 0 {
		out = out[:len(out)-1]
	}
	p.text = out
	if !p.starred {
		for _, c := range out {
			if c == wordEnd {
				p.lead++
			}
		}
		if len(out) > 0 {
			p.lead++
		}
	}
	if len(out) > 0 {
		first, _, _ := strings.Cut(string(out), "\x00")
		eq := strings.IndexByte(first, '=')
		p.assigns = eq > 0 && bash.Identifier(first[:eq])
	}
	return p
}

// exact reports whether a pattern matches only one line.
func (p *pattern) exact() bool { return !p.prefix && !p.starred }

// match matches a line of symbols with the pattern. literal marks the bytes that no wildcard matches.
// With loose, unknown text in the line matches anything.
func (p *pattern) match(line []byte, literal []bool, loose bool) bool {
	wildcardMayMatch := func(i int) bool { return line[i] != noMatch && (literal == nil || !literal[i]) }
	if !p.starred && !(loose && strings.IndexByte(string(line), unknownByte) >= 0) {
		if len(line) < len(p.text) || string(line[:len(p.text)]) != string(p.text) {
			return false
		}
		rest := len(p.text)
		if rest == len(line) {
			return true
		}
		if !p.prefix || line[rest] != wordEnd {
			return false
		}
		for i := rest; i < len(line); i++ {
			if !wildcardMayMatch(i) {
				return false
			}
		}
		return true
	}
	// on[j]: the part of the pattern processed so far matches line[:j].
	on := make([]bool, len(line)+1)
	next := make([]bool, len(line)+1)
	on[0] = true
	spread := func() { // unknown text matches any part of the pattern
		if !loose {
			return
		}
		for j := range line {
			if on[j] && line[j] == unknownByte {
				on[j+1] = true
			}
		}
	}
	spread()
	for _, c := range p.text {
		some := false
		for j := range next {
			next[j] = false
		}
		for j := 0; j <= len(line); j++ {
			switch {
			case c == wildcard:
				next[j] = on[j] || j > 0 && next[j-1] && wildcardMayMatch(j-1)
			case j > 0 && on[j-1] && line[j-1] == c:
				next[j] = true
			case loose && on[j] && (j > 0 && line[j-1] == unknownByte || j < len(line) && line[j] == unknownByte):
				next[j] = true
			}
			some = some || next[j]
		}
		if !some {
			return false
		}
		on, next = next, on
		spread()
	}
	if on[len(line)] {
		return true
	}
	if p.prefix {
		ok := true
		for j := len(line) - 1; j >= 0; j-- {
			if ok = ok && wildcardMayMatch(j); !ok {
				break
			}
			if on[j] && (line[j] == wordEnd || loose && line[j] == unknownByte) {
				return true
			}
		}
	}
	return false
}
