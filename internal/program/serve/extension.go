package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/traceparent"
	"github.com/knack-agent/knack/run/mcp"
)

type skillInput struct {
	Skill    string `json:"skill"`
	Args     string `json:"args"`
	Find     string `json:"find"`
	Describe bool   `json:"describe"`
}

func (s *Server) callSkill(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	ctx = traceparent.With(ctx, traceparent.OfMeta(r.Params.Meta)) // for inline commands
	var in skillInput
	text, err := "", error(nil)
	if len(r.Params.Arguments) > 0 {
		err = json.Unmarshal(r.Params.Arguments, &in)
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) { // the model reads it
			err = fmt.Errorf("%s is a JSON %s", cmp.Or(wrong.Field, "the input"), wrong.Value)
		}
	}
	if err == nil {
		text, err = s.answer(ctx, in)
	}
	res := &sdk.CallToolResult{}
	if err != nil {
		text, res.IsError = err.Error(), true
	}
	res.Content = []sdk.Content{&sdk.TextContent{Text: text}}
	return res, nil
}

// extension registers the methods of the skills extension.
func (s *Server) extension() error {
	return errors.Join(
		sdk.AddReceivingCustomMethod(s.sdk, mcp.MethodListSkills, s.listSkills),
		sdk.AddReceivingCustomMethod(s.sdk, mcp.MethodGetSkill, s.getSkill),
		sdk.AddReceivingCustomMethod(s.sdk, mcp.MethodReadDirectory, s.readDirectory),
	)
}

// cache reports how long a result may be cached, for protocol versions that support this.
func cache(ss *sdk.ServerSession) mcp.Cache {
	if p := ss.InitializeParams(); p != nil && p.ProtocolVersion < "2026-07-28" {
		return mcp.Cache{}
	}
	n := ttl
	return mcp.Cache{ResultType: "complete", TTL: &n, Scope: "private"}
}

func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// page returns the range of n items that starts at a cursor, and the cursor of the
// next page. A cursor is a position: if the list changes between two pages, items
// may be skipped or repeated.
func page(cursor string, n int) (from, to int, next string, err error) {
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 || from > n {
			return 0, 0, "", invalid("unknown cursor")
		}
	}
	to = min(n, from+pageSize)
	if to < n {
		next = strconv.Itoa(to)
	}
	return from, to, next, nil
}

func (s *Server) listSkills(ctx context.Context, ss *sdk.ServerSession, p *mcp.ListSkillsParams) (*mcp.ListSkillsResult,
	error) {
	o := s.now()
	var all []*knack.Skill
	for _, k := range o.skills {
		if o.uri(k) != "" {
			all = append(all, k)
		}
	}
	from, to, next, err := page(p.Cursor, len(all))
	if err != nil {
		return nil, err
	}
	r := &mcp.ListSkillsResult{Cache: cache(ss), Skills: []mcp.ListedSkill{}, NextCursor: next}
	for _, k := range all[from:to] {
		l, err := s.entry(ctx, o, k)
		if err != nil { // changed or removed since it was read, or its files cannot be read
			if ctx.Err() == nil {
				s.leftOut(k, err)
			}
			continue
		}
		r.Skills = append(r.Skills, l)
	}
	return r, nil
}

func (s *Server) getSkill(ctx context.Context, ss *sdk.ServerSession, p *mcp.GetSkillParams) (*mcp.GetSkillResult,
	error) {
	o := s.now()
	k, rel := o.of(p.URI)
	if k == nil || rel != "SKILL.md" {
		return nil, invalid("no such skill: %.200s", p.URI)
	}
	l, err := s.entry(ctx, o, k)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return &mcp.GetSkillResult{Cache: cache(ss), Skill: l}, nil
}

// Limits for one skill, as the extension defines them. A larger skill is not listed file by file.
const (
	maxFiles = 512
	maxBytes = 16 << 20
)

// entry lists a skill with the digests of its files.
func (s *Server) entry(ctx context.Context, o *snapshot, k *knack.Skill) (mcp.ListedSkill, error) {
	l := mcp.ListedSkill{URI: o.uri(k)}
	files, err := s.files(ctx, o, k)
	if err != nil {
		return l, err
	}
	data, err := files.read(ctx, "SKILL.md")
	if err != nil {
		return l, err
	}
	if l.Frontmatter, err = frontmatterOf(k, data); err != nil {
		return l, err
	}
	names := append([]string{"SKILL.md"}, files.names...)
	var total int64
	for _, name := range names {
		digest, size, err := files.digest(ctx, &s.hashes, name)
		if err != nil {
			return l, err
		}
		total += size
		l.Resources.Files = append(l.Resources.Files, mcp.SkillFile{URI: o.uris[k] + name, Digest: digest, Size: size})
	}
	if len(names) > maxFiles || total > maxBytes {
		l.Resources = mcp.SkillFiles{Dynamic: true}
	}
	return l, nil
}

// frontmatterOf returns the frontmatter in data as JSON, with the keys as written and in the same
// order.
func frontmatterOf(k *knack.Skill, data []byte) (json.RawMessage, error) {
	parsed, _ := knack.ParseHead(k.Path, data, int64(len(data)), k.Origin)
	if parsed == nil {
		return nil, errors.New("its frontmatter cannot be read")
	}
	var b bytes.Buffer
	b.WriteByte('{')
	if parsed.Label == "" { // the file has none, but lists need one
		name, _ := json.Marshal(listedName(k))
		b.WriteString(`"name":`)
		b.Write(name)
	}
	for _, f := range parsed.Fields() {
		if f.Key == "name" && parsed.Label == "" {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(f.Key)
		b.Write(key)
		b.WriteByte(':')
		b.Write(f.Value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// skillFiles are the files of a skill that are offered: those in its directory except links, .git, secrets, and what
// rules deny to read, or would ask about.
type skillFiles struct {
	skill *knack.Skill
	root  string // the skill's directory; "": it has none
	names []string
}

func (s *Server) files(ctx context.Context, o *snapshot, k *knack.Skill) (*skillFiles, error) {
	if err := s.engine.Project().VerifySkill(k); err != nil {
		return nil, err
	}
	f := &skillFiles{skill: k, root: k.Dir}
	if k.Base != nil && k.ReadFile == nil {
		dir, err := k.Base(ctx)
		if err != nil {
			return nil, err
		}
		f.root = dir
	}
	names, err := k.Resources(ctx)
	if err != nil || f.root == "" && k.ReadFile == nil {
		return f, err
	}
	place := s.engine.PathContext()
	// Nobody can be asked here, and the mode of the user's own sessions does not count.
	closed := s.engine.Project().Rules().Closed(permission.Default, place, permission.Subject{Tool: "read"})
	for _, name := range names {
		file := filepath.ToSlash(filepath.Join(f.root, filepath.FromSlash(name)))
		if hidden(name) || place.Secret(file) || closed != nil && closed(file) {
			continue
		}
		if k.ReadFile == nil {
			if info, err := f.stat(name); err != nil || !info.Mode().IsRegular() {
				continue
			}
		}
		f.names = append(f.names, name)
	}
	slices.Sort(f.names)
	return f, nil
}

// hidden reports whether a part of a path begins with a dot.
func hidden(name string) bool {
	return !fs.ValidPath(name) || slices.ContainsFunc(strings.Split(name, "/"),
		func(part string) bool { return strings.HasPrefix(part, ".") })
}

// stat returns information about the file itself. A link, in the path or as the file, is an error.
func (f *skillFiles) stat(name string) (fs.FileInfo, error) {
	root, err := regular.Root(f.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return noLink(root, name)
}

func noLink(root *os.Root, name string) (info fs.FileInfo, err error) {
	at := ""
	for _, part := range strings.Split(name, "/") {
		at = path.Join(at, part)
		if info, err = root.Lstat(filepath.FromSlash(at)); err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("a link, which is not followed")}
		}
	}
	return info, nil
}

// read returns the content of an offered file.
func (f *skillFiles) read(ctx context.Context, name string) ([]byte, error) {
	if name == "SKILL.md" && (f.skill.Read != nil || f.root == "") {
		if f.skill.Read != nil {
			return f.skill.Read(ctx)
		}
		return regular.Read(f.skill.Path, maxBytes)
	}
	if name != "SKILL.md" && !slices.Contains(f.names, name) {
		return nil, fs.ErrNotExist
	}
	if name != "SKILL.md" && f.skill.ReadFile != nil {
		data, err := f.skill.ReadFile(ctx, name)
		if len(data) > maxBytes {
			return nil, errTooLarge(name)
		}
		return data, err
	}
	if name == "SKILL.md" {
		name = filepath.Base(f.skill.Path)
	}
	root, err := regular.Root(f.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := noLink(root, name)
	if err != nil {
		return nil, err
	}
	file, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if now, err := file.Stat(); err != nil || !os.SameFile(info, now) || !now.Mode().IsRegular() {
		return nil, errors.New("the file changed while it was opened")
	}
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if len(data) > maxBytes {
		return nil, errTooLarge(name)
	}
	return data, err
}

func errTooLarge(name string) error {
	return fmt.Errorf("%s is larger than %d MiB", name, maxBytes>>20)
}

// hashes caches digests of files. A cached digest is valid while size and modification time are
// unchanged.
type hashes struct {
	mu  sync.Mutex
	all map[string]hashed
}

type hashed struct {
	size   int64
	time   time.Time
	digest string
}

// settled is the minimum age of a file's last change before its digest is cached, because the clocks
// of file systems are coarse.
const settled = 2 * time.Second

func (f *skillFiles) digest(ctx context.Context, h *hashes, name string) (digest string, size int64, err error) {
	key := filepath.Join(f.root, name)
	var info fs.FileInfo
	if name != "SKILL.md" && f.skill.ReadFile == nil {
		if info, err = f.stat(name); err != nil {
			return "", 0, err
		}
		h.mu.Lock()
		was, ok := h.all[key]
		h.mu.Unlock()
		if ok && was.size == info.Size() && was.time.Equal(info.ModTime()) {
			return was.digest, was.size, nil
		}
	}
	data, err := f.read(ctx, name)
	if err != nil {
		return "", 0, err
	}
	sum := sha256.Sum256(data)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	if info != nil && time.Since(info.ModTime()) > settled && info.Size() == int64(len(data)) {
		h.mu.Lock()
		if h.all == nil || len(h.all) > 10_000 {
			h.all = map[string]hashed{}
		}
		h.all[key] = hashed{info.Size(), info.ModTime(), digest}
		h.mu.Unlock()
	}
	return digest, int64(len(data)), nil
}

// readResource reads a file of a skill.
func (s *Server) readResource(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := r.Params.URI
	o := s.now()
	k, rel := o.of(uri)
	if k == nil || rel == "" || hidden(rel) {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	files, err := s.files(ctx, o, k)
	if err != nil {
		return nil, invalid("%v", err)
	}
	data, err := files.read(ctx, rel)
	if err != nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	c := &sdk.ResourceContents{URI: uri, MIMEType: mimeOf(rel)}
	if utf8.Valid(data) {
		c.Text = string(data)
	} else {
		c.Blob = data
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}

func mimeOf(name string) string {
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".md":
		return "text/markdown"
	case ".py", ".sh", ".js", ".ts", ".go", ".txt", ".yaml", ".yml", ".toml", "":
		return "text/plain"
	default:
		if t := mime.TypeByExtension(ext); t != "" {
			return t
		}
	}
	return "application/octet-stream"
}

// readDirectory lists the direct children of a directory of a skill.
func (s *Server) readDirectory(ctx context.Context, ss *sdk.ServerSession,
	p *mcp.ReadDirectoryParams) (*mcp.ReadDirectoryResult, error) {
	o := s.now()
	dir := strings.TrimSuffix(p.URI, "/") + "/"
	k, rel := o.of(dir)
	if k == nil || rel != "" && hidden(strings.TrimSuffix(rel, "/")) {
		return nil, invalid("no such directory: %.200s", p.URI)
	}
	files, err := s.files(ctx, o, k)
	if err != nil {
		return nil, invalid("%v", err)
	}
	names := append([]string{"SKILL.md"}, files.names...)
	seen := map[string]bool{}
	all := []*sdk.Resource{}
	for _, name := range names {
		below, ok := strings.CutPrefix(name, rel)
		if !ok {
			continue
		}
		first, _, deeper := strings.Cut(below, "/")
		if seen[first] {
			continue
		}
		seen[first] = true
		x := &sdk.Resource{Name: first, URI: dir + first, MIMEType: mimeOf(first)}
		if deeper {
			x.MIMEType = "inode/directory"
		} else if _, size, err := files.digest(ctx, &s.hashes, name); err == nil {
			x.Size = size
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil, invalid("no such directory: %.200s", p.URI)
	}
	order.Stable(all, func(a, b *sdk.Resource) int { return strings.Compare(a.Name, b.Name) })
	from, to, next, err := page(p.Cursor, len(all))
	if err != nil {
		return nil, err
	}
	return &mcp.ReadDirectoryResult{Cache: cache(ss), Resources: all[from:to], NextCursor: next}, nil
}
