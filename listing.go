package knack

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/plain"
)

// Numbers of spec skills §3, in characters.
const (
	maxEntry      = 1536
	minText       = 250
	unknownWindow = 15000
	share         = 0.01
)

// A View says who asks a Catalog for a listing, and in what state. The same
// View of the same Catalog gives the same bytes.
type View struct {
	For     Caller
	Window  int      // the model's context window in tokens; 0 unknown
	Touched []string // paths that tools touched, absolute
	Dir     string   // the project's root: what paths: of skills without a directory are relative to

	// Budget is what the listing may take: up to 1 a share of the window
	// (0: 0.01), above 1 characters. A share of an unknown window is 15,000
	// characters.
	Budget   float64
	MaxChars int // of one entry; 0: 1,536
	// Used names skills in the order of their use, the most used first.
	Used []string
	// Overrides are name-only, user-only or off, by name; anything else is on.
	// Managed skills cannot be off.
	Overrides map[string]State
	// Index lists skills with the place of their file, for a model that reads
	// it there instead of calling a tool.
	Index bool
}

// override is Active where nothing is overridden.
func (v View) override(s *Skill) State {
	switch o := v.Overrides[s.Name]; o {
	case Off:
		if s.Origin.Kind == Managed {
			return Active
		}
		return o
	case NameOnly, UserOnly:
		return o
	}
	return Active
}

// chars is the budget in characters.
func (v View) chars() int {
	part := v.Budget
	switch {
	case part > 1:
		return int(part)
	case v.Window <= 0:
		return unknownWindow
	case part <= 0:
		part = share
	}
	return int(part * float64(v.Window) * 4)
}

// A Listing is the text that tells a model which skills there are. Text is
// empty if there are none.
type Listing struct {
	Text    string
	Entries []Line
	Budget  int // characters
	Chars   int // of Text
	Tokens  int // of Text, estimated
}

// A Cut says why an entry is not whole.
type Cut string

const (
	Whole       Cut = ""
	CutEntry    Cut = "entry"    // longer than one entry may be
	CutShare    Cut = "share"    // the budget was shared out
	CutFloor    Cut = "floor"    // its share would be too little to be of use: 250 characters were left
	CutText     Cut = "text"     // others are used more, and there was no room: the name alone is left
	CutOverride Cut = "override" // name-only
)

// A Line is one entry of a Listing.
type Line struct {
	Skill *Skill
	Text  string // the entry, without a newline
	Full  int    // characters of the whole entry
	Chars int    // of Text
	Cut   Cut
}

// An item is a Line in the making.
type item struct {
	skill  *Skill
	name   string
	text   string // what the budget may cut
	suffix string
	keep   int // characters of text
	runes  int // of text
	fixed  int // of what goes with text: the separator and suffix
	cut    Cut
	whole  bool // never cut
}

// The one line that tells the model of cuts, and how to read on.
const (
	toolNote  = "Some descriptions are cut or left out: call the Skill tool with describe to read one in full before you decide against a skill."
	indexNote = "Some descriptions are cut or left out: read the file at the location to learn more."
	modeHead  = "Mode Commands:"
	otherHead = "Skills:"
)

// Listing lists what a caller may invoke. If that takes more room than the
// Budget, texts are cut, names never: bundled skills keep theirs, and the rest
// is shared evenly. Listing.Entries tells what was cut, and the model is told
// in one line.
func (c *Catalog) Listing(v View) Listing {
	var modes, others []item
	for _, s := range c.skills {
		if v.For == ByModel && !s.Offered() || v.For == ByUser && s.NotUser || c.unavailable(s, v, v.For) != "" {
			continue
		}
		e := newItem(s, v)
		if s.Mode {
			modes = append(modes, e)
		} else {
			others = append(others, e)
		}
	}
	entries := slices.Concat(modes, others)
	if len(entries) == 0 {
		return Listing{}
	}
	l := Listing{Budget: v.chars()}
	most := cmp.Or(max(v.MaxChars, 0), maxEntry)
	for i := range entries {
		e := &entries[i]
		if room := max(0, most-utf8.RuneCountInString(e.name)-e.fixed); !e.whole && e.keep > room {
			e.keep, e.cut = room, CutEntry
		}
	}
	around := func(cut bool) int {
		head, middle, tail := frame(v, len(modes), len(others), cut)
		return utf8.RuneCountInString(head + middle + tail)
	}
	isCut := func() bool { return slices.ContainsFunc(entries, func(e item) bool { return e.cut != Whole }) }
	if around(isCut())+size(entries) > l.Budget {
		fit(entries, l.Budget-around(true), v.Used)
	}
	var b strings.Builder
	head, middle, tail := frame(v, len(modes), len(others), isCut())
	b.WriteString(head)
	for i, e := range entries {
		if i == len(modes) {
			b.WriteString(middle)
		}
		line := e.line(v)
		b.WriteString(line)
		b.WriteByte('\n')
		l.Entries = append(l.Entries, Line{Skill: e.skill, Text: line, Cut: e.cut, Chars: utf8.RuneCountInString(line),
			Full: utf8.RuneCountInString(e.name) + e.fixed + e.runes})
	}
	b.WriteString(tail)
	l.Text = b.String()
	l.Chars = utf8.RuneCountInString(l.Text)
	l.Tokens = tokens(len(l.Text))
	return l
}

func newItem(s *Skill, v View) item {
	e := item{skill: s, text: plain.Fold(s.Summary()), whole: s.Origin.Kind == Bundled || s.Origin.Kind == BuiltinPlugin}
	if v.Index {
		e.name = "<skill><name>" + xml(s.Name) + "</name><location>" + xml(location(s)) + "</location></skill>"
		e.text = xml(s.Summary())
	} else {
		e.name = "- " + plain.Fold(s.Name)
		switch s.Origin.Kind {
		case Plugin, MCP:
			e.suffix = fmt.Sprintf(" (%s:%s)", s.Origin.Kind, plain.Fold(s.Origin.Label))
		}
	}
	e.runes = utf8.RuneCountInString(e.text)
	e.keep = e.runes
	if e.runes > 0 {
		e.fixed = utf8.RuneCountInString(e.suffix) + len(": ")
		if v.Index {
			e.fixed = len("<description></description>")
		}
	}
	if v.override(s) == NameOnly {
		e.keep = 0
		if e.runes > 0 {
			e.cut = CutOverride
		}
	}
	return e
}

// location is where a model can read a skill's file.
func location(s *Skill) string {
	if s.Path == "" {
		return s.ID
	}
	return filepath.ToSlash(s.Path)
}

// xml is one line of text within an element.
func xml(s string) string {
	s = strings.NewReplacer("&lt;", "<", "&gt;", ">").Replace(plain.Fold(s)) // Fold's own are done here
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace(s)
}

// size counts the entries with their newlines.
func size(entries []item) int {
	n := 0
	for i := range entries {
		n += entries[i].size()
	}
	return n
}

func (e *item) size() int {
	n := utf8.RuneCountInString(e.name) + len("\n")
	if e.keep > 0 {
		n += e.fixed + e.keep
	}
	return n
}

// fit cuts texts so that the entries take no more than room characters, if
// names alone do not.
func fit(entries []item, room int, used []string) {
	var free []*item // whose text may be cut
	names := room    // what is left beside names
	for i := range entries {
		e := &entries[i]
		switch {
		case e.keep == 0 || e.whole:
			names -= e.size()
		default:
			free = append(free, e)
			names -= utf8.RuneCountInString(e.name) + len("\n")
		}
	}
	text := names
	for _, e := range free {
		text -= e.fixed
	}
	// The share: the shortest give back what they do not need.
	byLength := slices.Clone(free)
	slices.SortStableFunc(byLength, func(a, b *item) int { return a.keep - b.keep })
	for i, e := range byLength {
		share := text / (len(byLength) - i)
		if e.keep <= share {
			text -= e.keep
			continue
		}
		if share < minText {
			floor(free, names, used)
			return
		}
		for _, e := range byLength[i:] {
			if e.keep > share {
				e.keep, e.cut = share, CutShare
			}
		}
		return
	}
}

// floor gives 250 characters in the order of use, then of the listing, as long
// as there is room.
func floor(free []*item, room int, used []string) {
	rank := make(map[string]int, len(used))
	for i := len(used) - 1; i >= 0; i-- {
		rank[used[i]] = i - len(used)
	}
	byUse := slices.Clone(free)
	slices.SortStableFunc(byUse, func(a, b *item) int { return rank[a.skill.Name] - rank[b.skill.Name] })
	for _, e := range byUse {
		keep := min(e.keep, minText)
		if e.fixed+keep > room {
			e.keep, e.cut = 0, CutText
			continue
		}
		room -= e.fixed + keep
		if keep < e.keep {
			e.keep, e.cut = keep, CutFloor
		}
	}
}

func (e *item) line(v View) string {
	text := e.text
	if e.keep < e.runes {
		text = cutTo(text, e.keep)
	}
	switch {
	case text == "":
		return e.name
	case v.Index:
		at := strings.Index(e.name, "<location>")
		return e.name[:at] + "<description>" + text + "</description>" + e.name[at:]
	}
	return e.name + ": " + text + e.suffix
}

// cutTo keeps n characters of a text, the last of them an ellipsis.
func cutTo(s string, n int) string {
	if n <= 0 {
		return ""
	}
	for i := range s {
		if n--; n == 0 {
			s = s[:i]
			if amp := strings.LastIndexByte(s, '&'); amp >= 0 && entity(s[amp:]) {
				s = s[:amp] // an escaped character stays whole or goes
			}
			return strings.TrimRight(s, " ") + "…"
		}
	}
	return s
}

// entity says whether a text is the beginning of an entity that we write.
func entity(s string) bool {
	for _, e := range []string{"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"} {
		if len(s) < len(e) && strings.HasPrefix(e, s) {
			return true
		}
	}
	return false
}

// frame is all of a listing but its entries: what stands before them, between
// modes and others, and after them.
func frame(v View, modes, others int, cut bool) (head, middle, tail string) {
	switch {
	case v.Index:
		head, tail = indexHead+"\n<available_skills>\n", "</available_skills>\n"
		if cut {
			tail += indexNote + "\n"
		}
		return head, "", tail
	case cut:
		tail = "\n" + toolNote + "\n"
	}
	if modes > 0 {
		head = modeHead + "\n"
		if others > 0 {
			middle = "\n" + otherHead + "\n"
		}
	}
	return head, middle, tail
}

const indexHead = `The skills below hold instructions for particular tasks. When a task matches a skill's description, read the file at its location before you begin, and follow it. Relative paths in a skill are resolved against the directory of its file.`

// Changes are what a model that saw one listing has to be told to know another.
type Changes struct {
	Added, Changed []Line
	Removed        []string // names
}

// Told is a fingerprint, by name, of what the listing says of each skill. That
// a text was cut for want of room is not in it.
func (l Listing) Told() map[string]string {
	told := make(map[string]string, len(l.Entries))
	for _, e := range l.Entries {
		sum := sha256.Sum256([]byte(e.Skill.ID + "\x00" + e.Skill.Summary()))
		told[e.Skill.Name] = hex.EncodeToString(sum[:6])
	}
	return told
}

// Since compares the listing with what a model was told before: the Told of an
// older one.
func (l Listing) Since(told map[string]string) Changes {
	var ch Changes
	now := l.Told()
	for _, e := range l.Entries {
		switch name := e.Skill.Name; told[name] {
		case now[name]:
		case "":
			ch.Added = append(ch.Added, e)
		default:
			ch.Changed = append(ch.Changed, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(told)) {
		if now[name] == "" {
			ch.Removed = append(ch.Removed, name)
		}
	}
	return ch
}

// Empty says that there is nothing to tell.
func (ch Changes) Empty() bool { return len(ch.Added)+len(ch.Changed)+len(ch.Removed) == 0 }

// Text tells a model of the changes; "" if there are none.
func (ch Changes) Text() string {
	var b strings.Builder
	list := func(head string, lines []Line) {
		if len(lines) > 0 {
			b.WriteString(head + "\n")
			for _, l := range lines {
				b.WriteString(l.Text + "\n")
			}
		}
	}
	list("These skills are available from now on:", ch.Added)
	list("The descriptions of these skills have changed:", ch.Changed)
	if len(ch.Removed) > 0 {
		b.WriteString("These skills are no longer available:\n")
		for _, name := range ch.Removed {
			b.WriteString("- " + plain.Fold(name) + "\n")
		}
	}
	return b.String()
}
