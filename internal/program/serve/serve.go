// Package serve is the MCP server: it offers the skills of a directory to other agents.
//
// Each skill is offered as the skills extension of the protocol defines it. For hosts without the
// extension it is also offered as a tool (skill, with find and describe), as a prompt and as
// resources. The skills are those that the settings offer to a model: no untrusted ones, and none that
// their author keeps from models. Nothing is run: inline commands stay text, and the returned text
// says so.
package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/mcp"
)

// A Server offers the skills of an open directory. It is safe for concurrent use.
type Server struct {
	engine *engine.Engine
	sdk    *sdk.Server
	hashes hashes

	bundled bool // offer the skills of the program, too

	report func(problem string)

	mu       sync.Mutex
	reported map[string]bool
	current  *snapshot
	prompts  []string               // names of the added prompts
	listed   map[string]listedSkill // by the URIs of the added resources
	listText string                 // in the tool's description
}

// New makes the server for a directory; bundled: with the skills of the program. It reports each skill that cannot be
// listed, once for each reason; report must be safe for concurrent use.
func New(ctx context.Context, e *engine.Engine, bundled bool, report func(problem string)) (*Server, error) {
	caps := &sdk.ServerCapabilities{
		Tools: &sdk.ToolCapabilities{ListChanged: true}, Prompts: &sdk.PromptCapabilities{ListChanged: true},
		Resources: &sdk.ResourceCapabilities{ListChanged: true, Subscribe: true},
	}
	caps.AddExtension(mcp.SkillsExtension, map[string]any{"directoryRead": true})
	s := &Server{engine: e, bundled: bundled, report: report, reported: map[string]bool{}}
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "knack", Title: "Knack: Agent Skills", Version: e.Project().Version()},
		&sdk.ServerOptions{
			Instructions: "Skills are instructions for kinds of tasks. Before a task, look for a skill that fits: in the " +
				"description of the tool skill, or with find.",
			Capabilities: caps, PageSize: pageSize,
			SubscribeHandler:   func(_ context.Context, r *sdk.SubscribeRequest) error { return s.subscribe(r.Params.URI) },
			UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
				c.TTLMs, c.CacheScope = ttl, "private"
			},
		})
	if err := s.extension(); err != nil {
		return nil, err
	}
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{Name: "skill-file", Title: "File of a skill",
		URITemplate: "skill://{+path}",
		Description: "A file of a skill, by the URI that its manifest names."}, s.readResource)
	s.update(ctx)
	return s, nil
}

const (
	pageSize = 50
	ttl      = 5000 // ms; skills change when their files do
)

// Watch updates the offered skills when one of their files changes, until ctx ends, and notifies
// clients that their lists have changed.
func (s *Server) Watch(ctx context.Context) error {
	return s.engine.WatchFiles(ctx, func(*knack.Catalog) { s.update(ctx) })
}

// subscribe accepts a subscription to the SKILL.md, or another file, of an offered skill.
func (s *Server) subscribe(uri string) error {
	if k, rel := s.now().of(uri); k == nil || rel == "" || hidden(rel) {
		return sdk.ResourceNotFoundError(uri)
	}
	return nil
}

// A listedSkill is a skill whose SKILL.md was added as a resource, and its files then.
type listedSkill struct {
	skill *knack.Skill
	names []string // of the files beside SKILL.md
	// state is a hash of the names, sizes and times of the files. It is another one when a digest in the list of skills
	// is.
	state [sha256.Size]byte
}

func listSkill(ctx context.Context, k *knack.Skill) listedSkill {
	l := listedSkill{skill: k}
	if k.Dir == "" {
		return l // part of the program, or of the host
	}
	h := sha256.New()
	var err error
	l.names, err = k.Resources(ctx)
	fmt.Fprintln(h, err)
	for _, file := range append([]string{filepath.Base(k.Path)}, l.names...) {
		fmt.Fprintf(h, "%q", file)
		if info, err := os.Lstat(filepath.Join(k.Dir, filepath.FromSlash(file))); err == nil {
			fmt.Fprintln(h, info.Size(), info.ModTime().UnixNano(), info.Mode())
		}
	}
	l.state = [sha256.Size]byte(h.Sum(nil))
	return l
}

// Run serves one client on a transport until the client disconnects.
func (s *Server) Run(ctx context.Context, t sdk.Transport) error { return s.sdk.Run(ctx, t) }

// update makes the offer match the current skills.
func (s *Server) update(ctx context.Context) {
	o := newOffer(s.engine, s.bundled)
	text := o.catalog.Listing(o.view).Text
	var prompts []string
	listed := map[string]listedSkill{}
	for _, k := range o.skills {
		if !k.NotUser {
			prompts = append(prompts, k.Name)
		}
		if uri := o.uri(k); uri != "" {
			listed[uri] = listSkill(ctx, k)
		}
	}
	s.mu.Lock()
	s.current = o
	if text != s.listText || s.listText == "" {
		s.listText = text
		s.sdk.AddTool(skillTool(text), s.callSkill)
	}
	gone := func(old, now []string) []string {
		return slices.DeleteFunc(slices.Clone(old), func(x string) bool { return slices.Contains(now, x) })
	}
	if old := gone(s.prompts, prompts); len(old) > 0 {
		s.sdk.RemovePrompts(old...)
	}
	if old := gone(slices.Collect(maps.Keys(s.listed)), slices.Collect(maps.Keys(listed))); len(old) > 0 {
		s.sdk.RemoveResources(old...)
	}
	for _, k := range o.skills {
		if !k.NotUser && !slices.Contains(s.prompts, k.Name) {
			s.sdk.AddPrompt(&sdk.Prompt{Name: k.Name, Description: plain.Line(k.Summary()),
				Arguments: []*sdk.PromptArgument{{Name: "arguments", Description: cmp.Or(plain.Line(k.ArgumentHint),
					"What the skill should work on")}}}, s.getPrompt)
		}
		uri := o.uri(k)
		old, now := s.listed[uri], listed[uri]
		if uri == "" || old.skill == now.skill && old.state == now.state {
			continue
		}
		// New or changed: clients are notified, and list its digests again.
		s.sdk.AddResource(&sdk.Resource{Name: listedName(k), URI: uri, Description: k.Description, MIMEType: "text/markdown",
			Size: k.Size}, s.readResource)
		if old.skill != nil {
			s.notify(ctx, o.uris[k], slices.Concat([]string{"SKILL.md"}, old.names, now.names))
		}
	}
	s.prompts, s.listed = prompts, listed
	s.mu.Unlock()
	for _, k := range o.skills {
		if o.uri(k) == "" {
			s.leftOut(k, fmt.Errorf("its name %q cannot be part of an address; it is offered as a tool and a prompt",
				listedName(k)))
		}
	}
}

// notify notifies those who subscribed to a file below a URI that it may have changed, or is gone.
func (s *Server) notify(ctx context.Context, dir string, names []string) {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		s.sdk.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: dir + name}) // always returns nil
	}
}

// leftOut reports that a skill cannot be listed.
func (s *Server) leftOut(k *knack.Skill, err error) {
	problem := fmt.Sprintf("the skill %s is not listed: %v", k.Name, err)
	s.mu.Lock()
	again := s.reported[problem]
	s.reported[problem] = true
	s.mu.Unlock()
	if !again {
		s.report(problem)
	}
}

func (s *Server) now() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// A snapshot is the skills that the settings offer to models, with their URIs.
type snapshot struct {
	engine  *engine.Engine
	catalog *knack.Catalog
	view    knack.View
	skills  []*knack.Skill
	byURI   map[string]*knack.Skill // by the URI of their directory, with a final slash
	uris    map[*knack.Skill]string // the reverse of byURI
}

func newOffer(e *engine.Engine, bundled bool) *snapshot {
	o := &snapshot{engine: e, catalog: e.Catalog(), view: e.Project().View(), byURI: map[string]*knack.Skill{},
		uris: map[*knack.Skill]string{}}
	o.view.For = knack.ByModel
	o.view.Overrides = maps.Clone(o.view.Overrides)
	for _, k := range o.catalog.Skills() {
		if k.Origin.Kind == knack.Bundled && !bundled { // also for the listing and for calls
			if o.view.Overrides == nil {
				o.view.Overrides = map[string]knack.SkillState{}
			}
			o.view.Overrides[k.Name] = knack.Off
		}
		if !o.catalog.Offers(k, o.view) {
			continue
		}
		o.skills = append(o.skills, k)
		if dir := directory(k); dir != "" && o.byURI[dir] == nil {
			o.byURI[dir], o.uris[k] = k, dir
		}
	}
	return o
}

// listedName returns the name under which the extension lists a skill: that in the frontmatter or, without one, the
// name of its directory.
func listedName(k *knack.Skill) string {
	if k.Label != "" {
		return k.Label
	}
	return k.Name[strings.LastIndexByte(k.Name, ':')+1:]
}

// directory returns the URI of a skill's directory, with a final slash. The extension requires that it
// ends with the name in the frontmatter. "" means that the skill has no such name, and is offered only
// in the other ways.
func directory(k *knack.Skill) string {
	label := listedName(k)
	if knack.CheckName(label) != "" {
		return ""
	}
	prefix, name, found := strings.Cut(k.Name, ":")
	switch {
	case k.Name == label:
		return "skill://" + label + "/"
	case found && knack.CheckName(prefix) == "" && name == label:
		return "skill://" + prefix + "/" + label + "/"
	case knack.CheckName(k.Name) == "":
		return "skill://" + k.Name + "/" + label + "/"
	}
	return ""
}

func (o *snapshot) uri(k *knack.Skill) string {
	if dir := o.uris[k]; dir != "" {
		return dir + "SKILL.md"
	}
	return ""
}

// of returns the skill that contains a URI, and the path within it; "" is its directory.
func (o *snapshot) of(uri string) (k *knack.Skill, rel string) {
	for at := len(uri); at > len("skill://"); {
		at = strings.LastIndexByte(uri[:at], '/')
		if at < len("skill://") {
			return nil, ""
		}
		if k := o.byURI[uri[:at+1]]; k != nil {
			return k, uri[at+1:]
		}
	}
	return nil, ""
}

func skillTool(listing string) *sdk.Tool {
	closed := false
	return &sdk.Tool{
		Name: "skill", Title: "Skills",
		Description: "Load a skill: instructions for one kind of task. Before you start a task, " +
			"look through " +
			"the skills below. If one fits, call this tool with its name first, and follow the text that it returns.\n\n" +
			"- skill: a name; args: what it should work on\n" +
			"- find: words of the task, without a name: returns skills that fit, also those that are not listed\n" +
			"- describe: true: returns the whole description of the skill, and does not load it\n\n" + listing,
		InputSchema: map[string]any{"type": "object", "properties": map[string]any{
			"skill":    map[string]any{"type": "string", "description": "the name of a skill"},
			"args":     map[string]any{"type": "string", "description": "what the skill should work on"},
			"find":     map[string]any{"type": "string", "description": "words of the task"},
			"describe": map[string]any{"type": "boolean", "description": "only describe the skill"},
		}},
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed},
	}
}

// invoke returns the text of a skill.
func (s *Server) invoke(ctx context.Context, o *snapshot, name, args string) (string, error) {
	k := o.catalog.Skill(strings.TrimPrefix(strings.TrimSpace(name), "/"))
	if k != nil && !slices.Contains(o.skills, k) {
		return "", fmt.Errorf("the skill %s is not offered", plain.Line(name))
	}
	if k != nil {
		if err := s.engine.Project().VerifySkill(k); err != nil {
			return "", err
		}
	}
	p := s.engine.Project()
	a, err := o.catalog.Invoke(ctx, knack.Invocation{Name: name, Args: args, By: knack.ByModel, View: o.view,
		Vars: map[string]string{"CLAUDE_PROJECT_DIR": p.Root()}})
	if err != nil {
		return "", err
	}
	text := a.Prompt
	if asks, err := a.Skill.Asks(ctx); err == nil && len(asks.Commands) > 0 {
		text += fmt.Sprintf("\n\n[The text above has %s in it (after an exclamation mark, in backquotes). "+
			"They were not run: this server runs nothing. Run what you need yourself, if the user allows it.]",
			plain.Count(len(asks.Commands), "command"))
	}
	return text, nil
}

// maxFound is the maximum number of skills that one call finds.
const maxFound = 10

func (s *Server) answer(ctx context.Context, in skillInput) (string, error) {
	o := s.now()
	switch {
	case in.Find != "" && in.Skill == "":
		found, err := s.engine.Project().Finder().Find(ctx, o.catalog, in.Find, maxFound,
			func(k *knack.Skill) bool { return slices.Contains(o.skills, k) })
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "No skill matches these words.", nil
		}
		var b strings.Builder
		b.WriteString("Skills that match these words, the best first. Call skill with a name to load one.\n")
		for _, m := range found {
			b.WriteString("- " + plain.Fold(m.Skill.Name) + ": " + plain.Fold(m.Skill.Summary()) + "\n")
		}
		return b.String(), nil
	case in.Skill == "":
		return "", fmt.Errorf("give the name of a skill, or words to find one")
	case in.Describe:
		if k := o.catalog.Skill(in.Skill); k != nil && !slices.Contains(o.skills, k) {
			return "", fmt.Errorf("the skill %s is not offered", plain.Line(in.Skill))
		}
		return o.catalog.Describe(knack.Invocation{Name: in.Skill, By: knack.ByModel, View: o.view})
	}
	return s.invoke(ctx, o, in.Skill, in.Args)
}

func (s *Server) getPrompt(ctx context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
	text, err := s.invoke(ctx, s.now(), r.Params.Name, r.Params.Arguments["arguments"])
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}, nil
}
