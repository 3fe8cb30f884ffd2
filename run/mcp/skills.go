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
	"iter"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
)

// Methods and names of the protocol's skills extension, for clients and servers. The SDK has no types
// for it yet.
const (
	skillsExtension = "io.modelcontextprotocol/skills"

	SkillsExtension     = skillsExtension
	MethodListSkills    = "skills/list"
	MethodGetSkill      = "skills/get"
	MethodReadDirectory = "resources/directory/read"
)

// A ListedSkill is a skill as a server lists it: the URI of its SKILL.md, the frontmatter as JSON, and
// all its files.
type ListedSkill struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   SkillFiles      `json:"resources"`
}

// SkillFiles are the files of a skill. Dynamic means that they are not known in advance.
type SkillFiles struct {
	Files   []SkillFile
	Dynamic bool
}

// A SkillFile is one file of a skill.
type SkillFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // sha256:…
	Size   int64  `json:"size"`
}

func (f SkillFiles) MarshalJSON() ([]byte, error) {
	if f.Dynamic {
		return []byte(`"dynamic"`), nil
	}
	if f.Files == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(f.Files)
}

func (f *SkillFiles) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		if word != "dynamic" {
			return fmt.Errorf("resources are %q: a list, or \"dynamic\"", clip(word, 40))
		}
		f.Dynamic = true
		return nil
	}
	return json.Unmarshal(data, &f.Files)
}

// Cache reports how long a result may be cached. It is left out for protocol versions that do not have
// it.
type Cache struct {
	ResultType string `json:"resultType,omitempty"`
	TTL        *int   `json:"ttlMs,omitempty"`
	Scope      string `json:"cacheScope,omitempty"`
}

type (
	ListSkillsParams struct {
		sdk.ParamsBase
		Cursor string `json:"cursor,omitempty"`
	}
	ListSkillsResult struct {
		sdk.ResultBase
		Cache
		Skills     []ListedSkill `json:"skills"`
		NextCursor string        `json:"nextCursor,omitempty"`
	}
	GetSkillParams struct {
		sdk.ParamsBase
		URI string `json:"uri"`
	}
	GetSkillResult struct {
		sdk.ResultBase
		Cache
		Skill ListedSkill `json:"skill"`
	}
	ReadDirectoryParams struct {
		sdk.ParamsBase
		URI    string `json:"uri"`
		Cursor string `json:"cursor,omitempty"`
	}
	ReadDirectoryResult struct {
		sdk.ResultBase
		Cache
		Resources  []*sdk.Resource `json:"resources"`
		NextCursor string          `json:"nextCursor,omitempty"`
	}
)

func addSkillMethods(c *sdk.Client) {
	sdk.AddSendingCustomMethod[*ListSkillsParams, *ListSkillsResult](c, MethodListSkills)
	sdk.AddSendingCustomMethod[*GetSkillParams, *GetSkillResult](c, MethodGetSkill)
}

// Limits of skills; at least what the extension requires a host to accept.
const (
	maxSkills     = 500
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20 // of all files of one skill
	maxCached     = 16 << 20 // of cached files
)

// Skills returns a Source of a server's skills as they were last listed: reading the Source sends no
// request. Sources of the same server are equal.
func (c *Client) Skills(server string) knack.Source { return skillSource{c.find(server)} }

// SkillLists returns, by server name, how often the list of skills has changed. Servers without skills
// are left out.
func (c *Client) SkillLists() map[string]int {
	all := map[string]int{}
	for _, p := range c.peers {
		p.mu.Lock()
		if p.skillLists > 0 {
			all[p.server.Name] = p.skillLists
		}
		p.mu.Unlock()
	}
	return all
}

type skillSource struct{ p *peer }

func (s skillSource) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) {
		if s.p == nil {
			return
		}
		s.p.mu.Lock()
		skills, problems := s.p.skills, s.p.skillProblems
		if s.p.state == Stopped {
			skills, problems = nil, nil
		}
		s.p.mu.Unlock()
		for _, x := range problems {
			if !yield(nil, x) {
				return
			}
		}
		for _, k := range skills {
			if !yield(k, nil) {
				return
			}
		}
	}
}

// readSkills lists the skills of the server. It reads no files.
func (p *peer) readSkills(ctx context.Context) {
	session := p.connection()
	if session == nil {
		return
	}
	var caps *sdk.ServerCapabilities
	if r := session.InitializeResult(); r != nil {
		caps = r.Capabilities
	}
	has := false
	if caps != nil {
		_, has = caps.Extensions[skillsExtension]
	}
	var listed []ListedSkill
	var problems []knack.Problem
	if has {
		var complete bool
		var err error
		listed, complete, err = pages(maxSkills, func(cursor string) ([]ListedSkill, string, error) {
			r, err := sdk.CallCustomMethod[*ListSkillsParams, *ListSkillsResult](ctx, session, MethodListSkills,
				&ListSkillsParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.Skills, r.NextCursor, nil
		})
		switch {
		case err != nil && p.connection() != session:
			return // the next connection lists the skills
		case err != nil && !missing(err):
			listed, problems = nil, []knack.Problem{p.problem("skills/list: %v", p.server.explain(err))}
		case err == nil && !complete:
			problems = []knack.Problem{p.problem("%s", notAll("skills", len(listed), maxSkills))}
		}
	}
	data, _ := json.Marshal(listed) // cannot fail: it was decoded from JSON
	sum := sha256.Sum256(append(data, fmt.Sprint(problems)...))
	p.mu.Lock()
	same := sum == p.skillSum || !has && p.skillLists == 0
	failed := len(problems) > 0 && len(listed) == 0
	for _, r := range p.listed {
		r.allow()
	}
	p.mu.Unlock()
	if same {
		return
	}
	if !failed {
		keep(p, "skills", listed)
	}
	setSkills(p, listed, problems, sum)
	p.client.opt.Changed()
}

// setSkills makes listed skills those of the server.
func setSkills(p *peer, listed []ListedSkill, problems []knack.Problem, sum [sha256.Size]byte) {
	var skills []*knack.Skill
	var remote []*remoteSkill
	for _, l := range listed {
		k, r, bad := p.skill(l)
		problems = append(problems, bad...)
		if k != nil {
			skills, remote = append(skills, k), append(remote, r)
		}
	}
	p.mu.Lock()
	p.skills, p.listed, p.skillProblems, p.skillSum = skills, remote, problems, sum
	p.skillLists++
	p.mu.Unlock()
}

// rememberedSkills loads the skills that the server listed last: with their digests, so that what is read later is what
// was listed, or is listed again first.
func rememberedSkills(p *peer) {
	data, err := p.server.stored(p.listFile("skills"))
	var listed []ListedSkill
	if err != nil || json.Unmarshal(data, &listed) != nil || len(listed) == 0 {
		return
	}
	listed = listed[:min(len(listed), maxSkills)]
	data, _ = json.Marshal(listed) // cannot fail: it was decoded from JSON
	setSkills(p, listed, nil, sha256.Sum256(append(data, fmt.Sprint([]knack.Problem(nil))...)))
}

// Verify reads every file of a server's skills and compares it with the list. After the first file
// that differs it reads no more of that skill. It calls each with the name of a skill, the number of
// files that match the list, and the error.
func (c *Client) Verify(ctx context.Context, server string, each func(skill string, files int, err error)) {
	for k, err := range c.Skills(server).Skills(ctx) {
		if k == nil {
			each("", 0, err)
			continue
		}
		files := 0
		_, err := k.Read(ctx)
		if err == nil {
			files++
			var names []string
			names, err = k.List(ctx)
			for _, uri := range names {
				if err != nil {
					break
				}
				if err = c.find(server).skillOf(uri).verify(ctx, uri); err == nil {
					files++
				}
			}
		}
		each(k.Name, files, err)
	}
}

func (r *remoteSkill) verify(ctx context.Context, uri string) error {
	_, err := r.read(ctx, uri)
	return err
}

// A remoteSkill is a skill of a server. What is read of it is compared with the list.
type remoteSkill struct {
	p      *peer
	listed ListedSkill
	root   string // common prefix of the URIs of its files

	mu     sync.Mutex
	failed error // a file differed from the list: read nothing more
}

// allow permits reading files again, because the skill was listed again.
func (r *remoteSkill) allow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = nil
}

// skill makes a Skill from a listed one; nil: it is not usable.
func (p *peer) skill(l ListedSkill) (*knack.Skill, *remoteSkill, []knack.Problem) {
	name := "mcp:" + p.server.Name + ":" + clip(l.URI, 500)
	bad := func(format string, args ...any) []knack.Problem {
		return []knack.Problem{{Code: knack.CodeMCPSkill, Severity: knack.Error, Path: name,
			Message: fmt.Sprintf(format, args...)}}
	}
	var keys struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(l.Frontmatter, &keys); err != nil {
		return nil, nil, bad("its frontmatter is not an object")
	}
	dir, file := path.Split(l.URI)
	switch u, err := url.Parse(l.URI); {
	case err != nil || u.Scheme == "" || len(l.URI) > 1000 || file != "SKILL.md":
		return nil, nil, bad("its URI does not name a SKILL.md")
	case path.Base(dir) != keys.Name:
		return nil, nil, bad("its URI does not end with its name %q", clip(keys.Name, 100))
	}
	var size int64
	if !l.Resources.Dynamic {
		if err := checkFiles(l, dir); err != nil {
			return nil, nil, bad("%v", err)
		}
		size = l.file(l.URI).Size
	}
	head, err := headOf(l.Frontmatter)
	if err != nil {
		return nil, nil, bad("its frontmatter cannot be read: %v", err)
	}
	k, problems := knack.ParseHead(name, head, size, knack.Origin{Kind: knack.MCP, Label: p.server.Name,
		Trust: knack.Remote})
	if k == nil {
		return nil, nil, problems
	}
	k.Name, k.Dir = p.safe+":"+keys.Name, ""
	r := &remoteSkill{p: p, listed: l, root: dir}
	k.Read, k.List = r.main, r.list
	return k, r, problems
}

// checkFiles returns an error if the list of a skill's files is invalid.
func checkFiles(l ListedSkill, root string) error {
	if len(l.Resources.Files) > maxSkillFiles {
		return fmt.Errorf("it has %d files: at most %d are taken", len(l.Resources.Files), maxSkillFiles)
	}
	var total int64
	seen := map[string]bool{}
	for _, f := range l.Resources.Files {
		sum, ok := strings.CutPrefix(f.Digest, "sha256:")
		switch {
		case !strings.HasPrefix(f.URI, root) || strings.Contains(strings.TrimPrefix(f.URI, root), ".."):
			return fmt.Errorf("the file %s is not below its directory", clip(f.URI, 200))
		case seen[f.URI]:
			return fmt.Errorf("the file %s is listed twice", clip(f.URI, 200))
		case !ok || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "":
			return fmt.Errorf("the file %s has no digest: sha256: and 64 hexadecimal digits", clip(f.URI, 200))
		case f.Size < 0:
			return fmt.Errorf("the file %s has a negative size", clip(f.URI, 200))
		}
		seen[f.URI] = true
		if total += f.Size; f.Size > maxSkillBytes || total > maxSkillBytes {
			return fmt.Errorf("its files are larger than %d MiB", maxSkillBytes>>20)
		}
	}
	if !seen[l.URI] {
		return errors.New("the list of its files does not have its SKILL.md")
	}
	return nil
}

func (l *ListedSkill) file(uri string) *SkillFile {
	for i := range l.Resources.Files {
		if l.Resources.Files[i].URI == uri {
			return &l.Resources.Files[i]
		}
	}
	return nil
}

// headOf writes frontmatter as in a file. JSON values are valid YAML.
func headOf(data json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	var b bytes.Buffer
	b.WriteString("---\n")
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name, _ := json.Marshal(key)
		var line bytes.Buffer
		if err := json.Compact(&line, value); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s: %s\n", plainKey(key.(string), name), line.Bytes())
	}
	b.WriteString("---\n")
	return b.Bytes(), nil
}

// plainKey returns a key without quotes, or quoted where YAML requires it.
func plainKey(key string, quoted []byte) string {
	for _, r := range key {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_') {
			return string(quoted)
		}
	}
	if key == "" {
		return string(quoted)
	}
	return key
}

// main reads SKILL.md, verified, with the frontmatter as listed.
func (r *remoteSkill) main(ctx context.Context) ([]byte, error) {
	r, err := current(ctx, r)
	if err != nil {
		return nil, err
	}
	data, err := r.read(ctx, r.listed.URI)
	if err != nil {
		return nil, err
	}
	if err := sameFrontmatter(r.listed.Frontmatter, data); err != nil {
		return nil, r.fail(err)
	}
	return data, nil
}

// current waits until the server of a skill has been tried, and returns the skill as the server lists it now. Before
// that, a skill is what the server listed in an earlier run.
func current(ctx context.Context, r *remoteSkill) (*remoteSkill, error) {
	r.p.client.Start()
	r.p.mu.Lock()
	if r.p.patience.IsZero() { // a call reads a skill more than once
		r.p.patience = time.Now().Add(skillWait)
	}
	within, cancel := context.WithDeadline(ctx, r.p.patience)
	r.p.mu.Unlock()
	defer cancel()
	select {
	case <-r.p.tried:
	case <-within.Done():
	}
	select {
	case <-r.p.tried: // perhaps long ago
	default:
		return nil, cmp.Or(ctx.Err(), fmt.Errorf("the MCP server %s is not connected: it has not answered yet",
			r.p.server.Name))
	}
	if now := r.p.skillOf(r.listed.URI); now != nil {
		return now, nil
	}
	return r, nil
}

// skillWait is how long calls of skills wait for a server that has not answered yet, in all.
const skillWait = 5 * time.Second

// list returns the URIs of the files beside SKILL.md, for read_mcp_resource; there is no directory.
func (r *remoteSkill) list(context.Context) ([]string, error) {
	var names []string
	for _, f := range r.listed.Resources.Files {
		if f.URI != r.listed.URI {
			names = append(names, f.URI)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (r *remoteSkill) fail(err error) error {
	err = fmt.Errorf("the server %s sent something other than it listed: %w", r.p.server.Name, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
	return r.failed
}

// read reads a file and verifies it. After a file that differs from the list, nothing more of the
// skill is read until it is listed again.
func (r *remoteSkill) read(ctx context.Context, uri string) ([]byte, error) {
	r.mu.Lock()
	failed := r.failed
	r.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	want := r.listed.file(uri)
	if want == nil && !r.listed.Resources.Dynamic {
		return nil, r.fail(fmt.Errorf("%s is not listed", clip(uri, 200)))
	}
	if want != nil {
		if data, ok := r.p.cached(want.Digest); ok && int64(len(data)) == want.Size {
			return data, nil
		}
	}
	session, err := r.p.ready(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	res, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, fmt.Errorf("the MCP server %s: %w", r.p.server.Name, r.p.server.explain(err))
	}
	if len(res.Contents) != 1 || res.Contents[0] == nil || res.Contents[0].URI != uri {
		return nil, r.fail(fmt.Errorf("%s: the server sent another resource", clip(uri, 200)))
	}
	data := res.Contents[0].Blob
	if data == nil {
		data = []byte(res.Contents[0].Text)
	}
	if want == nil {
		if len(data) > maxSkillBytes {
			return nil, r.fail(fmt.Errorf("%s is larger than %d MiB", clip(uri, 200), maxSkillBytes>>20))
		}
		return data, nil
	}
	if int64(len(data)) != want.Size {
		return nil, r.fail(fmt.Errorf("%s has %d bytes, not %d", clip(uri, 200), len(data), want.Size))
	}
	sum := sha256.Sum256(data)
	if "sha256:"+hex.EncodeToString(sum[:]) != want.Digest {
		return nil, r.fail(fmt.Errorf("%s has another digest", clip(uri, 200)))
	}
	r.p.cache(want.Digest, data)
	return data, nil
}

func (p *peer) cached(digest string) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	data, ok := p.files[digest]
	return data, ok
}

func (p *peer) cache(digest string, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(data) > maxCached/4 {
		return
	}
	if p.fileBytes += len(data); p.fileBytes > maxCached || p.files == nil {
		p.files, p.fileBytes = map[string][]byte{}, len(data)
	}
	p.files[digest] = data
}

// skillOf returns the skill that contains the file with a URI; nil: none.
func (p *peer) skillOf(uri string) *remoteSkill {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.listed {
		if strings.HasPrefix(uri, r.root) {
			return r
		}
	}
	return nil
}

// sameFrontmatter compares the listed frontmatter with that of the file, key by key.
func sameFrontmatter(listed json.RawMessage, file []byte) error {
	var want map[string]any
	d := json.NewDecoder(bytes.NewReader(listed))
	d.UseNumber()
	if err := d.Decode(&want); err != nil {
		return err
	}
	head := frontmatter.Split(file)
	entries, _ := frontmatter.Parse(head.Head, head.Line)
	got := map[string]any{}
	for _, e := range entries {
		text, err := frontmatter.JSON(e.Value)
		if err != nil {
			return fmt.Errorf("the frontmatter's %s cannot be read", clip(e.Key, 100))
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return err
		}
		got[e.Key] = v
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		v, ok := got[key]
		if !ok && key == "name" {
			continue // a skill without a name is listed with that of its directory, which its URI was compared with
		}
		if !ok || !sameValue(want[key], v) {
			return fmt.Errorf("the frontmatter's %s differs from the list", clip(key, 100))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			return fmt.Errorf("the frontmatter's %s is not in the list", clip(key, 100))
		}
	}
	return nil
}

// sameValue compares two JSON values. A number equals a string of that number, and a date equals its
// midnight, because YAML parsers differ here.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, m, sameValue)
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, sameValue)
	}
	if a == b {
		return true
	}
	x, y := scalar(a), scalar(b)
	if x == "" || y == "" {
		return false
	}
	if _, text := a.(string); text {
		if _, text := b.(string); text {
			return strings.TrimSuffix(x, "T00:00:00.000Z") == strings.TrimSuffix(y, "T00:00:00.000Z")
		}
	}
	n, err := strconv.ParseFloat(x, 64)
	m, merr := strconv.ParseFloat(y, 64)
	return err == nil && merr == nil && n == m || x == y
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}
