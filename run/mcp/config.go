package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A Server describes how to reach one MCP server: by Command, by URL, or by Open.
type Server struct {
	Name string

	// Command is a program that speaks MCP on its standard input and output.
	Command string
	Args    []string
	Env     map[string]string
	// Network is what the program may reach: "all", "none", or hosts separated by commas, as
	// [ParseNetwork] returns them. "" means all, but none for a project's server.
	Network string

	// Write are directories in which the program may write besides the workspace, absolute or below "~".
	Write []string

	// URL is an address that speaks streamable HTTP or, with SSE, the older transport that it replaced. With SSE there
	// is no login: the Headers have the token.
	URL     string
	SSE     bool
	Headers map[string]string
	// HeadersHelper is a shell command that prints more headers, as a JSON object of strings.
	HeadersHelper string
	OAuth         OAuth

	Policy *Policy // which tools may be called; nil: rules decide. See [Server.Restrict] for a server of the host

	// Open connects to a server of the host. It is called again after each connection that ended.
	Open func(ctx context.Context) (Conn, error)

	// Allow is what the sandbox permits the program in addition: to read the plugin that contains it, and to
	// write its data.
	Allow workspace.Allowance

	// OnlyTools are the names of the server's tools that may be used, before any prefix; nil: all. Those in WithoutTools
	// are not used in any case.
	OnlyTools, WithoutTools []string

	// Timeout limits connecting; 0: that of the Options. CallTimeout limits one call; 0: 10 minutes.
	Timeout, CallTimeout time.Duration

	// Values are variables for ${NAME} that this server alone has, before those of the environment. They may be secrets.
	Values map[string]string `json:"-"`

	Origin    permission.Origin // origin of the file that defines it
	DefinedIn string            // the file, or the name of the flag that defined it
}

// OAuth is the user's configuration for logging in to a server.
type OAuth struct {
	ClientID string `json:"clientId,omitempty"` // of a registered client; "": use ClientDocument or dynamic registration
	// ClientSecret is the secret of a registered client, preferably written as ${NAME}.
	ClientSecret string `json:"clientSecret,omitempty"`
	// ClientDocument is the URL of a metadata document that describes the client, for servers that support
	// this. Its redirect URI is http://127.0.0.1/callback.
	ClientDocument string `json:"clientMetadataUrl,omitempty"`
	CallbackPort   int    `json:"callbackPort,omitempty"` // 0: any port
	Scopes         Scopes `json:"scopes,omitempty"`
}

// Scopes are what a login asks for. In a file they may also be one string, with spaces between them, as in Claude Code.
type Scopes []string

func (s *Scopes) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*s = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// Remote reports whether the server is reached over a network.
func (s *Server) Remote() bool { return s.URL != "" }

// A TransportKind is how a server is reached.
type TransportKind string

const (
	Stdio TransportKind = "stdio" // the standard input and output of a program
	HTTP  TransportKind = "http"  // streamable HTTP
	Host  TransportKind = "host"  // a connection that the host of the engine opens
)

// Transport returns how the server is reached.
func (s *Server) Transport() TransportKind {
	switch {
	case s.Open != nil:
		return Host
	case s.URL != "":
		return HTTP
	}
	return Stdio
}

// Target returns the program or address of the server, to show it to the user. It is untrusted text.
func (s *Server) Target() string {
	switch {
	case s.Open != nil:
		return "the host"
	case s.URL != "":
		return s.URL
	}
	return strings.Join(append([]string{s.Command}, s.Args...), " ")
}

// identity distinguishes a server from others with the same name: an approval for one does not apply
// to the other.
func (s *Server) identity() string {
	h := sha256.New()
	e := json.NewEncoder(h)
	e.Encode([]any{s.Origin, s.Name, s.Command, s.Args, slices.Sorted(maps.Keys(s.Env)), s.URL})
	if s.Origin == permission.Project || s.Origin == permission.Plugin {
		e.Encode(s.DefinedIn)
	}
	if s.OnlyTools != nil || s.WithoutTools != nil {
		e.Encode([][]string{s.OnlyTools, s.WithoutTools})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// definitionJSON is a server as it is written in files.
type definitionJSON struct {
	Type          string            `json:"type,omitempty"`
	Command       string            `json:"command,omitempty"`
	Args          []string          `json:"args,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	URL           string            `json:"url,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	HeadersHelper string            `json:"headersHelper,omitempty"`
	OAuth         *OAuth            `json:"oauth,omitempty"`
	Timeout       int               `json:"timeout,omitempty"`     // milliseconds
	ToolTimeout   int               `json:"toolTimeout,omitempty"` // milliseconds
	Network       networkJSON       `json:"network,omitempty"`
	Write         []string          `json:"write,omitempty"`
	Disabled      bool              `json:"disabled,omitempty"`
	Enabled       *bool             `json:"enabled,omitempty"` // Pi, Codex and OpenCode call it so
	EnabledTools  []string          `json:"enabledTools,omitzero"`
	DisabledTools []string          `json:"disabledTools,omitempty"`
	Tools         json.RawMessage   `json:"tools,omitempty"` // see [ParseTools]
}

// guards returns the keys of a definition that make it do less.
func guards() []string {
	return slices.Concat(onlyKeys, withoutKeys, []string{"tools", "disabled", "enabled", "network", "toolPermissions"})
}

// A networkJSON is none, all, or hosts. Files may also say true for all and false for none.
type networkJSON string

func (n *networkJSON) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true":
		*n = "all"
		return nil
	case "false":
		*n = "none"
		return nil
	}
	var text string
	if json.Unmarshal(data, &text) != nil {
		return fmt.Errorf("network: true, false, or a text: none, all, or hosts separated by commas")
	}
	*n = networkJSON(text)
	return nil
}

// Limits of a configuration.
const (
	maxServers = 100
	maxConfig  = 1 << 20 // bytes
)

// Parse reads servers by name: the value of mcpServers, or a file with that key at the top level.
// place is named in problems. Servers with the key disabled are left out, which is no more than information. The
// result is sorted by name.
func Parse(data []byte, origin permission.Origin, place string) ([]Server, []knack.Problem) {
	problem := func(format string, args ...any) knack.Problem {
		return knack.Problem{Code: knack.CodeMCPInvalid, Severity: knack.Error, Path: place,
			Message: fmt.Sprintf(format, args...), Hint: "knack help mcp"}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(data) > maxConfig {
		return nil, []knack.Problem{problem("it is larger than %d bytes", maxConfig)}
	}
	data = jsonc.Plain(data)
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, []knack.Problem{problem("not a JSON object: %v", err)}
	}
	var problems []knack.Problem
	if inner, ok := top["mcpServers"]; ok {
		problems = besideServers(top, place)
		top = nil
		if err := json.Unmarshal(inner, &top); err != nil {
			return nil, []knack.Problem{problem("mcpServers: not an object: %v", err)}
		}
	}
	var servers []Server
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if strings.HasPrefix(name, "$") || name == "inputs" {
			continue // keys for a schema or an editor
		}
		if len(servers) == maxServers {
			problems = append(problems, problem("only the first %d servers are used", maxServers))
			break
		}
		if holdsServers(name, top[name]) {
			problems = append(problems, problem("%s has no effect: servers are under mcpServers", plain.Line(name)))
			continue
		}
		s, used, err := parseServer(name, top[name])
		if at := filepath.ToSlash(place); strings.HasSuffix(at, "/.pi/mcp.json") ||
			strings.HasSuffix(at, "/.pi/agent/mcp.json") {
			s.Timeout *= 1000 // theirs are seconds
		}
		if unused := unusedKeys(top[name]); err == nil && len(unused) > 0 {
			x := knack.Problem{Code: knack.CodeMCPInvalid, Severity: knack.Info, Path: place,
				Message: fmt.Sprintf("MCP server %s: no effect here: %s", name, plain.Line(plain.List(unused, 10)))}
			if slices.Contains(unused, "cwd") { // it may not start without
				x.Severity, x.Hint = knack.Warn, `for a directory: "command": "env", "args": ["-C", "DIR", "COMMAND", …]`
			}
			problems = append(problems, x)
		}
		if words := strings.Fields(s.Command); err == nil && len(s.Args) == 0 && len(words) > 1 &&
			!strings.ContainsAny(words[0], `/\~$`) {
			problems = append(problems, knack.Problem{Code: knack.CodeMCPInvalid, Severity: knack.Warn, Path: place,
				Message: fmt.Sprintf("MCP server %s: no program is called %s: there is no shell that would divide it", name,
					plain.Line(s.Command)), Hint: fmt.Sprintf(`"command": %q, "args": %s`, words[0], quoted(words[1:]))})
		}
		switch {
		case err != nil:
			problems = append(problems, problem("server %q: %v", name, err))
		case used:
			s.Origin, s.DefinedIn = origin, place
			servers = append(servers, s)
		default: // somebody wants it so, and somebody else may look for what it has
			problems = append(problems, knack.Problem{Code: knack.CodeMCPInvalid, Severity: knack.Info, Path: place,
				Message: fmt.Sprintf("MCP server %s is off, by its key "+offKey(top[name]), name),
				Hint:    "remove the key " + offKey(top[name]) + " of " + name})
		}
	}
	return servers, problems
}

// quoted returns words as a JSON list.
func quoted(words []string) []byte {
	text, _ := json.Marshal(words) // strings only
	return text
}

// besideServers names the keys beside mcpServers in a file of servers, which have no effect.
func besideServers(top map[string]json.RawMessage, place string) (problems []knack.Problem) {
	if name := filepath.Base(place); name != ".mcp.json" && name != "mcp.json" {
		return nil // such as settings, which have other keys
	}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if name == "mcpServers" || strings.HasPrefix(name, "$") {
			continue
		}
		p := knack.Problem{Code: knack.CodeMCPInvalid, Severity: knack.Info, Path: place,
			Message: plain.Line(name) + " has no effect in a file of servers"}
		if holdsServers(name, top[name]) {
			p.Severity, p.Hint = knack.Warn, "move its servers to mcpServers"
		}
		problems = append(problems, p)
	}
	return problems
}

// holdsServers reports whether a key is one that other programs have for servers by name, and not a server.
func holdsServers(name string, value json.RawMessage) bool {
	switch strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name)) {
	case "servers", "mcp", "mcpservers":
	default:
		return false
	}
	var inner map[string]map[string]json.RawMessage
	return json.Unmarshal(value, &inner) == nil && len(inner) > 0
}

func parseServer(name string, data json.RawMessage) (s Server, used bool, err error) {
	var d definitionJSON
	if err := json.Unmarshal(data, &d); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) { // without the names of Go
			err = fmt.Errorf("%s cannot be a JSON %s", cmp.Or(wrong.Field, "it"), wrong.Value)
		}
		return s, false, err
	}
	if err := checkKeys(data, append(keysOf(d), guards()...), guards()); err != nil {
		return s, false, err
	}
	if err := CheckName(name); err != nil {
		return s, false, err
	}
	off := d.Disabled || d.Enabled != nil && !*d.Enabled
	if off && d.Command == "" && d.URL == "" {
		return s, false, nil // it turns off one that is defined elsewhere
	}
	s = Server{
		Name: name, Command: d.Command, Args: d.Args, Env: d.Env, Network: string(d.Network), Write: d.Write,
		URL: d.URL, Headers: d.Headers, HeadersHelper: d.HeadersHelper,
		Timeout: time.Duration(d.Timeout) * time.Millisecond, CallTimeout: time.Duration(d.ToolTimeout) * time.Millisecond,
	}
	if d.OAuth != nil {
		s.OAuth = *d.OAuth
	}
	switch strings.ToLower(d.Type) {
	case "sse":
		s.Command, s.Args, s.SSE = "", nil, true
		if d.URL == "" {
			return s, false, fmt.Errorf("it has no url")
		}
	case "":
		if d.Command == "" && d.URL == "" {
			return s, false, fmt.Errorf("it has neither a command nor a url")
		}
	case string(Stdio):
		s.URL = ""
		if d.Command == "" {
			return s, false, fmt.Errorf("it has no command")
		}
	case string(HTTP), "streamable-http", "streamable_http", "streamablehttp":
		s.Command, s.Args = "", nil
		if d.URL == "" {
			return s, false, fmt.Errorf("it has no url")
		}
	default:
		return s, false, fmt.Errorf("unknown type %q: stdio, http or sse", d.Type)
	}
	if s.Command != "" && s.URL != "" {
		return s, false, fmt.Errorf("it has both a command and a url: use one of them")
	}
	if s.Timeout < 0 || s.CallTimeout < 0 {
		return s, false, fmt.Errorf("a timeout is negative")
	}
	if s.Network != "" {
		if s.Network, err = ParseNetwork(s.Network); err != nil {
			return s, false, fmt.Errorf("network: %w", err)
		}
	}
	for _, dir := range s.Write {
		if err := CheckWrite(dir); err != nil {
			return s, false, fmt.Errorf("write: %w", err)
		}
	}
	if err := s.limitTools(data, &d); err != nil {
		return s, false, err
	}
	return s, !off, nil
}

// offKey returns the key by which a server is off.
func offKey(data json.RawMessage) string {
	var d struct{ Disabled bool }
	if json.Unmarshal(data, &d); d.Disabled {
		return "disabled"
	}
	return "enabled"
}

// Off returns the names of those entries of a file that only turn off a server which another file defines, as those of
// Pi in a project do.
func Off(data []byte) (names []string) {
	var doc struct {
		MCPServers map[string]json.RawMessage `json:"mcpServers"`
	}
	if json.Unmarshal(jsonc.Plain(bytes.TrimPrefix(data, []byte("\ufeff"))), &doc) != nil {
		return nil // Parse says so
	}
	for _, name := range slices.Sorted(maps.Keys(doc.MCPServers)) {
		var d struct {
			Command, URL any
			Disabled     bool
			Enabled      *bool
		}
		err := json.Unmarshal(doc.MCPServers[name], &d) // what is wrong in it, Parse says
		if err == nil && d.Command == nil && d.URL == nil && (d.Disabled || d.Enabled != nil && !*d.Enabled) {
			names = append(names, name)
		}
	}
	return names
}

// Keys of other programs that say which tools of a server may be used.
var (
	onlyKeys    = []string{"enabledTools", "enabled_tools", "includeTools", "allowedTools"}
	withoutKeys = []string{"disabledTools", "disabled_tools", "excludeTools"}
)

// limitTools reads which tools may be used, by the keys of any program. One that it cannot read is an error: without it
// more could be called than somebody wanted.
func (s *Server) limitTools(data []byte, d *definitionJSON) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return err
	}
	read := func(key string, to *[]string) error {
		value, ok := keys[key]
		if !ok || string(value) == "null" {
			return nil
		}
		var names []string
		if err := json.Unmarshal(value, &names); err != nil {
			return fmt.Errorf("%s restricts, and is not a list of tools; permissions.deny with mcp__%s__TOOL does the same",
				key, Safe(s.Name))
		}
		if *to = append(*to, names...); *to == nil {
			*to = []string{}
		}
		return nil
	}
	policy, only, err := ParseTools(d.Tools)
	if err != nil {
		return err
	}
	s.Policy, s.OnlyTools = &Policy{now: policy}, only
	for _, key := range onlyKeys {
		if err := read(key, &s.OnlyTools); err != nil {
			return err
		}
	}
	if slices.Contains(s.OnlyTools, "*") { // GitHub's programs write all so
		s.OnlyTools = nil
	}
	for _, key := range withoutKeys {
		if err := read(key, &s.WithoutTools); err != nil {
			return err
		}
	}
	if _, ok := keys["toolPermissions"]; ok {
		return fmt.Errorf("toolPermissions restricts, and Knack cannot hold it; permissions.deny and ask with mcp__%s__TOOL "+
			"do", Safe(s.Name))
	}
	return nil
}

// offers reports whether the definition leaves a tool of the server in use.
func (s *Server) offers(name string) bool {
	return (s.OnlyTools == nil || slices.Contains(s.OnlyTools, name)) && !slices.Contains(s.WithoutTools, name)
}

// unusedKeys returns the keys of a definition that have no effect here, sorted.
func unusedKeys(data json.RawMessage) (names []string) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(data, &keys) != nil {
		return nil
	}
	for _, name := range slices.Concat(keysOf(definitionJSON{}), onlyKeys, withoutKeys, []string{"$comment", "//"}) {
		delete(keys, name)
	}
	return slices.Sorted(maps.Keys(keys))
}

// JSON returns the server as it is written in files.
func (s *Server) JSON() json.RawMessage {
	d := definitionJSON{
		Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Headers: s.Headers, HeadersHelper: s.HeadersHelper,
		Timeout: int(s.Timeout / time.Millisecond), ToolTimeout: int(s.CallTimeout / time.Millisecond),
		Network: networkJSON(s.Network), Write: s.Write, EnabledTools: s.OnlyTools, DisabledTools: s.WithoutTools,
		Tools: s.Policy.Now().json(),
	}
	if s.Remote() {
		d.Type = string(HTTP)
		if s.SSE {
			d.Type = "sse"
		}
	}
	if o := s.OAuth; o.ClientID != "" || o.ClientDocument != "" || o.CallbackPort != 0 || len(o.Scopes) > 0 {
		d.OAuth = &s.OAuth
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(d) // cannot fail: only strings and numbers
	return bytes.TrimSpace(b.Bytes())
}

// ParseNetwork checks what the programs of servers may reach: none, all, or hosts ("example.com",
// "*.example.com", "localhost:5432") separated by commas or spaces. It returns the hosts separated by
// commas.
func ParseNetwork(text string) (string, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	all := strings.ToLower(strings.Join(words, ","))
	if all == "none" || all == "all" {
		return all, nil
	}
	if len(words) == 0 {
		return "", fmt.Errorf("none, all, or hosts separated by commas")
	}
	for _, word := range words {
		host, port, err := net.SplitHostPort(word)
		if err != nil {
			host, port = word, "1"
		}
		n, err := strconv.ParseUint(port, 10, 16)
		host = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(host, "*."), "["), "]")
		if slices.Contains([]string{"none", "all"}, strings.ToLower(word)) || err != nil || n == 0 ||
			net.ParseIP(host) == nil && !hostName(host) {
			return "", fmt.Errorf("%q: none, all, or hosts (example.com, *.example.com, localhost:5432) separated by commas",
				clip(word, 100))
		}
	}
	return all, nil
}

// CheckWrite checks a directory that programs of servers may write. What it may contain, its user decides.
func CheckWrite(dir string) error {
	if rest, ok := strings.CutPrefix(dir, "~/"); (ok && rest != "" || filepath.IsAbs(dir)) &&
		!slices.Contains(strings.Split(dir, "/"), "..") &&
		strings.TrimSpace(dir) == dir && !strings.ContainsAny(dir, ",\n\x00") {
		return nil
	}
	return fmt.Errorf("%q: a directory, such as ~/.cache/name or /srv/data", clip(dir, 100))
}

// hostName reports whether host is a DNS name. Other names must be written in punycode, so that they
// cannot imitate another name.
func hostName(host string) bool {
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return false
		}
	}
	return true
}

// Beside returns the servers of a host that may stand beside the configured ones: one with the name of a configured one
// is left out, because the rules for that one must not count for another. problems says which, in sentences.
func Beside(given, configured []Server) (kept []Server, problems []string) {
	for _, x := range given {
		i := slices.IndexFunc(configured, func(c Server) bool { return Safe(c.Name) == Safe(x.Name) })
		if i >= 0 {
			problems = append(problems, fmt.Sprintf("the host's MCP server %s is left out: %s defines a server with that name",
				x.Name, configured[i].DefinedIn))
			continue
		}
		kept = append(kept, x)
	}
	return kept, problems
}

// CheckName returns an error if name is not a valid name for a server.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a server needs a name")
	case len(name) > 64:
		return fmt.Errorf("a name has at most 64 characters")
	case Safe(name) == "":
		return fmt.Errorf("a name has letters, digits, _ or -")
	}
	return nil
}

// Safe converts a name to one that rules and models accept: letters, digits, "-" and single "_", so
// that the parts of mcp__server__tool can be separated.
func Safe(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	return strings.TrimRight(b.String(), "_")
}

var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
})

// expand replaces ${NAME}, ${NAME:-default} and ${env:NAME} in the texts of a server, and ~ at the beginning of its
// command and arguments. Definitions from a project never get the values of keys.
func (s Server) expand(getenv func(string) string) (Server, error) {
	var failed error
	put := func(text string) string {
		if _, word, ok := strings.Cut(text, "${input:"); ok {
			name, _, _ := strings.Cut(word, "}")
			failed = cmp.Or(failed, fmt.Errorf("${input:%s} is a question of VS Code's: write ${NAME}, and set the variable NAME",
				plain.Line(name)))
		}
		return variable().ReplaceAllStringFunc(text, func(ref string) string {
			m := variable().FindStringSubmatch(ref)
			name := m[1]
			if value := s.Values[name]; value != "" {
				return value
			}
			if s.Origin == permission.Project && keyName(name) {
				failed = cmp.Or(failed, fmt.Errorf("a project's server is not given ${%s}: define the server yourself, with "+
					"knack mcp add", name))
				return ""
			}
			value := getenv(name)
			if s.Origin == permission.Project && hasPassword(value) {
				failed = cmp.Or(failed, fmt.Errorf("a project's server is not given ${%s}, which contains a password: define "+
					"the server yourself, with knack mcp add", name))
				return ""
			}
			if value != "" {
				return value
			}
			if m[2] == "" {
				failed = cmp.Or(failed, fmt.Errorf("the environment variable %s is not set", name))
			}
			return m[3]
		})
	}
	values := func(in map[string]string) map[string]string {
		out := maps.Clone(in)
		for _, k := range slices.Sorted(maps.Keys(in)) { // in this order, so that the error is the same each time
			out[k] = put(in[k])
		}
		return out
	}
	home := func(text string) string {
		if dir := getenv("HOME"); dir != "" && strings.HasPrefix(text, "~/") {
			text = dir + text[1:]
		}
		return put(text)
	}
	s.Command, s.URL = home(s.Command), put(s.URL)
	s.Args = slices.Clone(s.Args)
	for i := range s.Args {
		s.Args[i] = home(s.Args[i])
	}
	s.Env, s.Headers = values(s.Env), values(s.Headers)
	s.OAuth.ClientSecret = put(s.OAuth.ClientSecret)
	return s, failed
}

// variables returns what looks up the variables of servers of an origin.
func (o *Options) variables(origin permission.Origin) func(string) string {
	if origin != permission.User || o.Own == nil {
		return o.Getenv
	}
	return func(name string) string { return cmp.Or(o.Getenv(name), o.Own(name)) }
}

// keyName reports whether the name of a variable looks like that of a key.
func keyName(name string) bool {
	name = strings.ToUpper(name)
	for _, word := range []string{"TOKEN", "KEY", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS",
		"CREDENTIAL",
		"CREDENTIALS", "APIKEY", "PAT", "AUTH", "DSN", "COOKIE", "WEBHOOK"} {
		if slices.Contains(strings.Split(name, "_"), word) {
			return true
		}
	}
	for _, end := range []string{"TOKEN", "APIKEY", "SECRET", "PASSWORD", "_PWD"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// hasPassword reports whether a value is a URL with a password, as DATABASE_URL often is.
func hasPassword(value string) bool {
	_, rest, ok := strings.Cut(value, "://")
	if !ok {
		return false
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user := strings.LastIndexByte(rest[:end], '@')
	return user >= 0 && strings.Contains(rest[:user], ":")
}

// checkURL parses an address. Without TLS, only addresses on this machine are allowed.
func checkURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, err
	case u.Host == "":
		return nil, fmt.Errorf("%s: not an absolute address", address)
	case net.ParseIP(u.Hostname()) == nil && !hostName(u.Hostname()):
		return nil, fmt.Errorf("%s: the host must be written in ASCII (punycode: xn--…), because letters of other scripts "+
			"can look the same", address)
	case u.Scheme == "https":
	case u.Scheme == "http":
		host := u.Hostname()
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, fmt.Errorf("%s: http is for this machine only: use https", address)
		}
	default:
		return nil, fmt.Errorf("%s: only http and https", address)
	}
	if u.User != nil {
		return nil, fmt.Errorf("an address with a user name or a password in it is not used: put it into headers")
	}
	return u, nil
}
