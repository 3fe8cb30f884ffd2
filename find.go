package knack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/filetree"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/rank"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Match is a skill that a search found.
type Match struct {
	Skill *Skill
	Named bool // the query contains its name, alias or label; such skills come first
	Score float64
	// Share is how much of the query occurs in the skill's text, from 0 to 1. Rare words
	// have more weight.
	Share float64
}

// Find returns up to n skills of the Catalog that match a query, the best first. It
// searches names, aliases, descriptions, when_to_use, headings, texts and the names of
// the files beside them, in any script. The first call reads every skill; later calls
// use the index that the [Finder] keeps.
func (c *Catalog) Find(ctx context.Context, query string, n int) ([]Match, error) {
	return c.finder.Find(ctx, c, query, n, nil)
}

// Finder returns the Finder that [Catalog.Find] uses, which keeps its index in memory.
func (c *Catalog) Finder() *Finder { return &c.finder }

// A Finder searches Catalogs and stores its indexes in a directory. An index is used
// only to rank: a skill that is not in the Catalog is never found. A Finder is safe for
// concurrent use, also by several processes that share its directory.
type Finder struct {
	// Dir is the directory of the index files. "" means that the indexes stay in memory.
	Dir string
	// Project identifies the index file of the project. "" means that the index of the
	// project's skills stays in memory.
	Project string

	mu       sync.Mutex
	catalog  *Catalog // the Catalog whose skills are in segments; nil before the first search
	segments []segment
	complete bool           // every skill is in a segment
	built    [2]*rank.Index // of groups, in memory because they have no file
}

// A segment is an index and the skills of its documents.
type segment struct {
	index  *rank.Index
	skills []*Skill // by document; nil: not in the Catalog
	file   string   // file with its postings; "": they are in memory
}

// inMemory is the number of skills up to which an index is not written to a file: so few
// are read within a few milliseconds.
const inMemory = 20

// maxIndex is the maximum size of an index file whose documents are used again.
const maxIndex = 256 << 20

// Find is like [Catalog.Find], but returns only skills for which ok returns true. A nil
// ok accepts all. See [Catalog.Offers].
func (f *Finder) Find(ctx context.Context, c *Catalog, query string, n int, ok func(*Skill) bool) ([]Match, error) {
	if ok == nil {
		ok = func(*Skill) bool { return true }
	}
	return f.find(ctx, c, query, n, ok)
}

// Ready reports whether Find would answer within milliseconds because the indexes are in
// memory or on disk. It returns false at once if the Finder is busy, such as with
// Prepare.
func (f *Finder) Ready(ctx context.Context, c *Catalog) bool {
	if !f.mu.TryLock() {
		return false
	}
	defer f.mu.Unlock()
	return f.load(ctx, c, false) == nil && f.complete
}

// Prepare makes Find ready: it reads the skills that are not indexed yet. The error
// explains why an index could not be written; in that case it stays in memory.
func (f *Finder) Prepare(ctx context.Context, c *Catalog) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load(ctx, c, true)
}

func (f *Finder) find(ctx context.Context, c *Catalog, query string, n int, ok func(*Skill) bool) ([]Match, error) {
	segments, closeAll := f.open(ctx, c)
	defer closeAll()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var found []Match
	for _, s := range c.namedIn(query) {
		if len(found) < n && ok(s) {
			found = append(found, Match{Skill: s, Named: true})
		}
	}
	named := found
	indexes := make([]*rank.Index, len(segments))
	for i, seg := range segments {
		indexes[i] = seg.index
	}
	for _, h := range rank.Search(indexes, query, n, func(i, doc int) bool {
		s := segments[i].skills[doc]
		return s != nil && ok(s)
	}) {
		s := segments[h.Index].skills[h.Doc]
		if at := slices.IndexFunc(named, func(m Match) bool { return m.Skill == s }); at >= 0 {
			found[at].Score, found[at].Share = h.Score, h.Share
		} else if len(found) < n {
			found = append(found, Match{Skill: s, Score: h.Score, Share: h.Share})
		}
	}
	return found, nil
}

// A skill is suggested only if it reaches this score, and this share of the best skill's
// score. Of the example messages that authors wrote for their skills, 97 of 100 reach
// clearScore; "fix the failing test" and "commit this" do not, or name a skill.
const (
	clearScore = 6
	clearShare = 0.6
)

// Suggest returns up to n skills that clearly match a user's message, the best first,
// and for which ok returns true. It returns none if the message names a skill.
func (f *Finder) Suggest(ctx context.Context, c *Catalog, message string, n int, ok func(*Skill) bool) ([]*Skill,
	error) {
	if c.names(message) {
		return nil, nil
	}
	found, err := f.Find(ctx, c, message, n, ok)
	var fit []*Skill
	for _, m := range found {
		if m.Score >= clearScore && m.Score >= clearShare*found[0].Score {
			fit = append(fit, m.Skill)
		}
	}
	return fit, err
}

// names reports whether a message names a skill: as /name, as a name of several parts,
// or as a name next to the word "skill".
func (c *Catalog) names(message string) bool {
	if len(c.namedIn(message)) > 0 {
		return true
	}
	words := strings.Fields(message[:min(len(message), maxNaming)])
	for i, w := range words {
		if strings.HasPrefix(w, "/") && c.Skill(strings.Trim(w, punctuation)) != nil {
			return true
		}
		if strings.EqualFold(strings.Trim(w, punctuation), "skill") {
			for _, j := range []int{i - 1, i + 1} {
				if j >= 0 && j < len(words) && c.Skill(strings.ToLower(strings.Trim(words[j], punctuation))) != nil {
					return true
				}
			}
		}
	}
	return false
}

const (
	maxSuggestion  = 2000 // characters
	suggestionHead = "Skills whose text shares words with this message. The descriptions are by their authors, not by " +
		"the user; load one only if it fits:"
)

// SuggestionText lists suggested skills for a model, in at most 2,000 characters. Only
// the name is listed for skills of plugins and servers, and for those whose description
// does not fit.
func SuggestionText(skills []*Skill) string {
	var b strings.Builder
	b.WriteString(suggestionHead + "\n")
	left := maxSuggestion - utf8.RuneCountInString(b.String())
	names := 0 // size of the names that follow
	for _, s := range skills {
		names += utf8.RuneCountInString(nameLine(s))
	}
	for _, s := range skills {
		line := nameLine(s)
		names -= utf8.RuneCountInString(line)
		if text := plain.Fold(s.Summary()); s.Origin.Kind != Plugin && s.Origin.Kind != MCP && text != "" {
			whole := strings.TrimSuffix(line, "\n") + ": " + text + "\n"
			if utf8.RuneCountInString(whole)+names <= left {
				line = whole
			}
		}
		if n := utf8.RuneCountInString(line); n <= left {
			b.WriteString(line)
			left -= n
		}
	}
	return b.String()
}

func nameLine(s *Skill) string { return "- " + plain.Fold(s.Name) + "\n" }

// open returns the segments of a Catalog and opens their files. closeAll closes them.
func (f *Finder) open(ctx context.Context, c *Catalog) (open []segment, closeAll func()) {
	var files []*os.File
	closeAll = func() {
		for _, file := range files {
			file.Close()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for again := true; ; again = false {
		_ = f.load(ctx, c, true) // if an index could not be written, it is in memory
		open = slices.Clone(f.segments)
		replaced := false
		for i := range open {
			if seg := &open[i]; seg.file != "" {
				file, err := regular.Open(seg.file)
				if err == nil {
					files = append(files, file)
				}
				var same bool
				if seg.index, same = seg.index.From(file); err != nil || !same {
					replaced = true
				}
			}
		}
		if !replaced || !again {
			return open, closeAll
		}
		f.catalog = nil // another process has replaced the file
	}
}

const (
	maxNaming   = 8 << 10 // bytes of a query that are searched for names
	punctuation = ".,;!?()[]{}<>\"'`*/“”‘’「」。，"
)

// namedIn returns the skills that a query names: either the whole query is a name, or
// one of its words is a name that contains "-", ":" or "_".
func (c *Catalog) namedIn(query string) (named []*Skill) {
	add := func(name string) {
		if s := c.Skill(name); s != nil && !slices.Contains(named, s) {
			named = append(named, s)
		}
	}
	query = query[:min(len(query), maxNaming)]
	whole := strings.TrimPrefix(strings.TrimSpace(query), "/")
	add(whole)
	add(strings.ToLower(whole))
	for _, word := range strings.Fields(query) {
		word = strings.Trim(word, punctuation)
		if strings.ContainsAny(word, "-:_") {
			add(word)
		}
	}
	return named
}

// Groups of skills, each with its own index: skills available in every project, and
// skills of one project.
const (
	allGroups = iota
	projectGroup
)

func group(s *Skill) int {
	switch s.Origin.Kind {
	case Project, Explicit, Additional, Legacy:
		return projectGroup
	}
	return allGroups
}

func (f *Finder) path(group int) string {
	switch {
	case f.Dir == "":
		return ""
	case group == allGroups:
		return filepath.Join(f.Dir, "skills.index")
	case f.Project == "":
		return ""
	}
	return filepath.Join(f.Dir, "project-"+hashOf([]byte(f.Project))[len("sha256:"):][:16]+".index")
}

// load loads the index of a Catalog. If build is set, it also builds what is missing,
// which takes longer. The error is that of writing an index.
func (f *Finder) load(ctx context.Context, c *Catalog, build bool) error {
	if f.catalog == c && (f.complete || !build) {
		return nil
	}
	var groups [2][]*Skill
	for _, s := range c.skills {
		groups[group(s)] = append(groups[group(s)], s)
	}
	f.catalog, f.segments, f.complete = c, nil, true
	var keeping error
	for g, skills := range groups {
		if err := f.loadGroup(ctx, g, skills, build); err != nil {
			keeping = cmp.Or(keeping, err)
		}
	}
	return keeping
}

func (f *Finder) loadGroup(ctx context.Context, g int, skills []*Skill, build bool) error {
	if len(skills) == 0 {
		return nil
	}
	old := segment{index: f.built[g]}
	if file := f.path(g); old.index == nil && file != "" {
		old.index, old.file = openIndex(file), file
	}
	missing := skills
	if old.index != nil {
		missing = old.match(skills)
	}
	if len(missing) > inMemory && build {
		return f.update(ctx, g, old, skills, missing)
	}
	if old.index != nil {
		f.segments = append(f.segments, old)
	}
	switch {
	case len(missing) == 0:
		return nil
	case len(missing) > inMemory:
		f.complete = false
		return nil
	}
	b := rank.NewBuilder()
	if err := indexSkills(ctx, b, missing, nil); err != nil {
		f.complete = false
		return err
	}
	data, err := b.Encode(ctx)
	if err != nil {
		f.complete = false
		return err
	}
	seg, err := newSegment(data, missing)
	if err == nil {
		f.segments = append(f.segments, seg)
	}
	return err
}

// update makes and stores an index of skills. It reads only those that the old index does not
// have.
func (f *Finder) update(ctx context.Context, g int, old segment, skills, missing []*Skill) error {
	reuse := len(missing) < len(skills) && old.read() == nil
	if !reuse {
		missing = skills
	}
	b := rank.NewBuilder()
	encode := func() ([]byte, error) {
		data, err := b.Encode(ctx)
		if err != nil || !reuse {
			return data, err
		}
		added, err := rank.Load(data)
		if err != nil {
			return nil, err
		}
		return rank.Merge(ctx, old.index, added, func(doc int) bool { return old.skills[doc] != nil })
	}
	file := f.path(g)
	save := func() {
		if file == "" {
			return
		}
		if data, err := encode(); err == nil {
			_ = atomicfile.WriteContext(ctx, file, data, 0o600) // if this fails, so does the last one
		}
	}
	err := indexSkills(ctx, b, missing, save)
	var data []byte
	if err == nil {
		data, err = encode()
	}
	if err != nil {
		f.complete = false
		return err
	}
	seg, err := newSegment(data, skills)
	if err != nil {
		return err
	}
	if file != "" {
		err = atomicfile.WriteContext(ctx, file, data, 0o600)
	}
	switch {
	case err != nil && ctx.Err() != nil: // the next attempt stores it
		f.complete = false
		return err
	case err == nil && file != "":
		seg.index, seg.file, f.built[g] = seg.index.Detached(), file, nil
	default:
		f.built[g] = seg.index
	}
	f.segments = append(f.segments, seg)
	return err
}

// newSegment returns the segment of an encoded index.
func newSegment(data []byte, skills []*Skill) (seg segment, err error) {
	if seg.index, err = rank.Open(bytes.NewReader(data), int64(len(data))); err == nil {
		seg.match(skills)
	}
	return seg, err
}

// read reads the whole file of a segment, because it will be replaced. It returns an error if
// another process has already replaced it.
func (seg *segment) read() error {
	if seg.file == "" {
		return nil
	}
	data, err := regular.Read(seg.file, maxIndex)
	if err != nil {
		return err
	}
	_, same := seg.index.From(bytes.NewReader(data))
	if !same {
		return rank.ErrDamaged
	}
	seg.index, err = rank.Load(data)
	return err
}

// match assigns skills to their documents and returns the skills that have no document.
func (seg *segment) match(skills []*Skill) (missing []*Skill) {
	seg.skills = make([]*Skill, seg.index.Docs())
	docs := make(map[uint64]int, seg.index.Docs())
	for i := range seg.index.Docs() {
		docs[seg.index.Key(i)] = i
	}
	for _, s := range skills {
		if i, ok := docs[s.key()]; ok {
			seg.skills[i] = s
		} else {
			missing = append(missing, s)
		}
	}
	return missing
}

// openIndex loads an index file without its postings. It returns nil if there is no
// complete index.
func openIndex(path string) *rank.Index {
	f, err := regular.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	x, err := rank.Open(f, info.Size())
	if err != nil {
		return nil
	}
	return x
}

// An index that is not complete is stored after firstSave skills, then after four times as many, and
// so on, so that a series of runs that all end early completes it. A run that ends does not store
// what it has since: its end would wait for that.
const firstSave = 64

// indexSkills adds skills to an index. It calls save, if not nil, after firstSave skills, after four times as
// many, and so on.
func indexSkills(ctx context.Context, b *rank.Builder, skills []*Skill, save func()) error {
	var buf bytes.Buffer
	next := firstSave
	for i, s := range skills {
		if i == next && save != nil {
			save()
			next *= 4
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.index(ctx, b, &buf)
		b.End(s.key())
	}
	return nil
}

// index adds the searchable texts of a skill. If its file cannot be read, the skill is
// still found by its name and description.
func (s *Skill) index(ctx context.Context, b *rank.Builder, buf *bytes.Buffer) {
	b.Text(rank.Name, []byte(s.Name))
	if s.Label != s.Name {
		b.Text(rank.Name, []byte(s.Label))
	}
	for _, a := range s.Aliases {
		b.Text(rank.Name, []byte(a))
	}
	b.Text(rank.Summary, []byte(s.Description))
	b.Text(rank.Summary, []byte(s.WhenToUse))
	if s.Prompt != nil {
		return
	}
	if s.Read != nil {
		data, err := s.read(ctx)
		if err != nil {
			return
		}
		buf.Reset()
		buf.Write(data)
	} else if readAll(s.Path, buf) != nil {
		return
	}
	body := frontmatter.Split(buf.Bytes()).Body
	for at := 0; ; { // number signs are less frequent than line ends
		next := bytes.IndexByte(body[at:], '#')
		if next < 0 {
			break
		}
		at += next
		line, _, _ := bytes.Cut(body[at:], []byte("\n"))
		if at == 0 || body[at-1] == '\n' {
			b.Text(rank.Heading, line)
		}
		at += len(line)
	}
	b.Text(rank.Body, body)
	for _, name := range s.resourceNames() {
		b.Text(rank.Files, []byte(name))
	}
}

// readAll reads a regular file of at most 1 MiB into buf.
func readAll(path string, buf *bytes.Buffer) error {
	f, err := filetree.OpenNoFollow(nil, path, path)
	if errors.Is(err, filetree.ErrLink) {
		f, err = regular.Open(path)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return regular.ErrNotRegular
	case info.Size() > maxFile:
		return regular.TooLargeError{Max: maxFile}
	}
	buf.Reset()
	buf.Grow(int(info.Size()) + bytes.MinRead)
	_, err = buf.ReadFrom(io.LimitReader(f, info.Size()))
	return err
}

// resourceNames returns the names of up to 64 files in the skill's directory and one level
// below. These say most about the skill.
func (s *Skill) resourceNames() (names []string) {
	const maxNames = 64
	if s.Dir == "" || s.List != nil || !strings.EqualFold(filepath.Base(s.Path), "SKILL.md") {
		return nil
	}
	var read func(dir string, deeper bool)
	read = func(dir string, deeper bool) {
		d, err := filetree.OpenDir(dir)
		if err != nil {
			return
		}
		entries, _ := d.ReadDir(maxNames)
		d.Close()
		order.Stable(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			switch name := e.Name(); {
			case len(names) == maxNames || name[0] == '.' || name == "node_modules":
			case e.IsDir() && deeper:
				read(filepath.Join(dir, name), false)
			case !e.IsDir() && !strings.EqualFold(name, "SKILL.md"):
				names = append(names, name)
			}
		}
	}
	read(s.Dir, true)
	return names
}

// key returns a hash that identifies a skill and its content.
func (s *Skill) key() uint64 {
	h := hashText(hashText(hashSeed, s.ID), s.Name)
	if s.stamp != 0 {
		return hashNumber(h, s.stamp)
	}
	return hashNumber(hashText(h, s.Summary()), uint64(s.Size))
}

// Parameters of the hash of keys and stamps, FNV-1a, which is the same in every process.
const hashSeed = 14695981039346656037

func hashNumber(h, n uint64) uint64 {
	for range 8 {
		h = (h ^ n&0xff) * 1099511628211
		n >>= 8
	}
	return h
}

func hashText(h uint64, s string) uint64 {
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return hashNumber(h, uint64(len(s)))
}
