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

	"github.com/knack-agent/knack/internal/leaf/plain"
)

const (
	maxEntry      = 1536  // characters of one entry
	maxCutEntry   = 250   // characters of one entry once the budget forces cuts
	minText       = 60    // characters of a text; a shorter one is useless
	maxListed     = 2000  // entries
	unknownWindow = 15000 // characters of a listing if the model's window is unknown
	share         = 0.01  // of the model's window
)

// A View describes the caller of a listing and the state of the conversation. The same
// View of the same Catalog yields the same bytes.
type View struct {
	For     Caller
	Window  int      // the model's context window in tokens; 0: unknown
	Touched []string // absolute paths that tools touched
	Dir     string   // the project's root, which paths: of skills without a directory are relative to

	// Budget is the size limit of the listing: a value up to 1 is a share of the window
	// (0: 0.01), a larger one a number of characters. A share of an unknown window is
	// 15,000 characters.
	Budget   float64
	MaxChars int // limit of one entry; 0: 1,536
	// Used contains names of skills, the most used first.
	Used []string
	// Overrides maps names to pinned, required, name-only, user-only or off; any other
	// value means on. Managed skills cannot be off.
	Overrides map[string]SkillState
	// Only, if not nil, restricts the listing to skills with these names, or with these
	// as the part after the last colon. Managed skills are always on.
	Only []string
	// Index adds the location of each skill's file, for a model that reads the file
	// instead of calling a tool.
	Index bool
}

// override returns the override of a skill, or Active.
func (v View) override(s *Skill) SkillState {
	if !v.chosen(s) {
		return Off
	}
	switch o := v.Overrides[s.Name]; o {
	case Off:
		if s.Origin.Kind == Managed {
			return Active
		}
		return o
	case NameOnly, UserOnly, Pinned, Required:
		return o
	}
	return Active
}

// chosen reports whether Only permits a skill.
func (v View) chosen(s *Skill) bool {
	return v.Only == nil || s.Origin.Kind == Managed || slices.ContainsFunc(v.Only, func(name string) bool {
		return s.Name == name || strings.HasSuffix(s.Name, ":"+strings.TrimPrefix(name, ":"))
	})
}

// chars returns the budget in characters.
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

// A Listing is the text that informs a model of the available skills. Text is empty if
// there are none.
type Listing struct {
	Text     string
	Entries  []Line
	Budget   int       // characters
	Chars    int       // of Text
	Tokens   int       // of Text, estimated
	Problems []Problem // pins that do not fit; for a required skill not listed in full, the Severity is Error
}

// Cut reports whether any entry of the listing is shortened or omitted.
func (l Listing) Cut() bool {
	return slices.ContainsFunc(l.Entries, func(e Line) bool { return e.Cut != Whole })
}

// A Cut explains why an entry is shortened.
type Cut string

const (
	Whole       Cut = ""
	CutEntry    Cut = "entry"    // longer than the limit of one entry
	CutShare    Cut = "share"    // the budget was divided among the entries
	CutFloor    Cut = "floor"    // an equal share would be too short: cut to 60 characters
	CutText     Cut = "text"     // no budget is left for its text: only the name is listed
	CutOverride Cut = "override" // name-only
	CutOmitted  Cut = "omitted"  // not listed, because there are more than 2,000 skills
)

// A Line is one entry of a Listing.
type Line struct {
	Skill *Skill
	Text  string // the entry without a newline; for an omitted one, the text for an announcement
	Full  int    // characters of the uncut entry
	Chars int    // of Text; 0 if it is omitted
	Cut   Cut
}

// An item is a Line under construction.
type item struct {
	skill      *Skill
	name       string
	text       string // may be cut to fit the budget
	hint       string // argument hint; kept only if no text has to be cut for it
	suffix     string
	keep       int // characters of text to keep
	runes      int // of text
	fixedRunes int // characters beside text: the separator and suffix
	cut        Cut
	whole      bool       // never cut
	pin        SkillState // Pinned, Required or ""
}

// The line that informs the model of cuts and of how to read the full text.
const (
	toolNote = "Some descriptions are shortened or omitted: call the Skill tool with describe to read one in full " +
		"before you decide against a skill, or with find to search all skills."
	indexNote = "Some descriptions are shortened or omitted: read the file at the location to learn more."
	modeHead  = "Mode Commands:"
	otherHead = "Skills:"
)

// Listing lists the skills that a caller may invoke. If this exceeds the Budget, texts
// are cut: bundled and pinned skills keep theirs, the others share the rest equally.
// Names are omitted only beyond 2,000 skills, the least used ones first. Listing.Entries
// records what was cut, and one line informs the model.
func (c *Catalog) Listing(v View) Listing {
	entries := make([]item, len(c.skills))
	spread(len(c.skills), func() func(int) {
		return func(i int) {
			if s := c.skills[i]; c.Offers(s, v) {
				entries[i] = newItem(s, v)
			}
		}
	})
	entries = slices.DeleteFunc(entries, func(e item) bool { return e.skill == nil })
	isMode := func(e item) bool { return e.skill.Mode }
	modes, others := 0, len(entries)
	if slices.ContainsFunc(entries, isMode) {
		rest := slices.DeleteFunc(slices.Clone(entries), isMode)
		entries = slices.DeleteFunc(entries, func(e item) bool { return !isMode(e) })
		modes, others = len(entries), len(rest)
		entries = append(entries, rest...)
	}
	l := Listing{Budget: v.chars()}
	if len(entries) == 0 {
		l.Budget = 0
		l.Problems = c.pinProblems(v, nil)
		return l
	}
	keepPinned(entries, l.Budget/2)
	maxChars := cmp.Or(max(v.MaxChars, 0), maxEntry)
	for i := range entries {
		e := &entries[i]
		budget := max(0, maxChars-utf8.RuneCountInString(e.name)-e.fixedRunes)
		if !e.whole && e.keep > budget {
			e.keep, e.cut = budget, CutEntry
		}
		if e.keep != e.runes || e.keep+utf8.RuneCountInString(e.hint) > budget {
			e.hint = ""
		}
	}
	omitted := omit(entries, v.Used)
	around := func(cut bool) int {
		head, middle, tail := frameText(v, modes, others, cut, omitted)
		return utf8.RuneCountInString(head + middle + tail)
	}
	isCut := func() bool {
		return slices.ContainsFunc(entries, func(e item) bool { return e.cut != Whole && e.cut != CutOmitted })
	}
	if used := around(isCut()) + size(entries); used > l.Budget {
		cutToBudget(entries, l.Budget-around(true), v)
		for i := range entries {
			entries[i].hint = ""
		}
	} else {
		hints(entries, l.Budget-used)
	}
	var b strings.Builder
	head, middle, tail := frameText(v, modes, others, isCut(), omitted)
	b.WriteString(head)
	l.Entries = make([]Line, 0, len(entries))
	for i, e := range entries {
		if i == modes {
			b.WriteString(middle)
		}
		line := Line{Skill: e.skill, Text: e.line(v), Cut: e.cut,
			Full: utf8.RuneCountInString(e.name+e.hint) + e.fixedRunes + e.runes}
		if e.cut != CutOmitted {
			line.Chars = utf8.RuneCountInString(line.Text)
			b.WriteString(line.Text)
			b.WriteByte('\n')
		}
		l.Entries = append(l.Entries, line)
	}
	b.WriteString(tail)
	l.Text = b.String()
	l.Chars = utf8.RuneCountInString(l.Text)
	l.Tokens = EstimateTokens(l.Text)
	l.Problems = c.pinProblems(v, entries)
	return l
}

// Offers reports whether a skill is in the listing of a View: it is active, not switched
// off, and its caller may invoke it.
func (c *Catalog) Offers(s *Skill, v View) bool {
	return !(v.For == ByModel && !s.Offered() || v.For == ByUser && s.NotUser || c.whyUnavailable(s, v, v.For) != "")
}

func newItem(s *Skill, v View) item {
	e := item{skill: s, whole: s.Origin.Kind == Bundled || s.Origin.Kind == BuiltinPlugin}
	if v.Index {
		e.name = "<skill><name>" + xml(s.Name) + "</name><location>" + xml(location(s)) + "</location></skill>"
		e.text = xml(s.Summary())
	} else {
		e.name, e.text = "- "+plain.Fold(s.Name), plain.Fold(s.Summary())
		e.hint = s.hint()
		switch s.Origin.Kind {
		case Plugin, MCP:
			if label := plain.Fold(s.Origin.Label); label != "" { // an installed skill is part of no plugin
				e.suffix = fmt.Sprintf(" (%s:%s)", s.Origin.Kind, label)
			}
		}
	}
	e.runes = utf8.RuneCountInString(e.text)
	e.keep = e.runes
	if e.runes > 0 {
		e.fixedRunes = utf8.RuneCountInString(e.suffix) + len(": ")
		if v.Index {
			e.fixedRunes = len("<description></description>")
		}
	}
	switch v.override(s) {
	case NameOnly:
		e.keep = 0
		if e.runes > 0 {
			e.cut = CutOverride
		}
	case Pinned, Required:
		e.pin = v.override(s)
	}
	return e
}

// hint returns the part of an entry about the skill's arguments, or "".
func (s *Skill) hint() string {
	const maxHint = 100
	if hint := plain.Fold(s.ArgumentHint); hint != "" {
		return " (arguments: " + clip(hint, maxHint) + ")"
	}
	return ""
}

// keepPinned exempts pinned and required skills from being cut, required ones first, as long as
// together they take at most budget characters.
func keepPinned(entries []item, budget int) {
	for _, state := range []SkillState{Required, Pinned} {
		for i := range entries {
			e := &entries[i]
			if n := e.size(); e.pin == state && !e.whole && n <= budget {
				e.whole = true
				budget -= n
			}
		}
	}
}

// pinProblems reports pinned and required skills that are not listed in full.
func (c *Catalog) pinProblems(v View, entries []item) []Problem {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(v.Overrides)) {
		state := v.Overrides[name]
		if state != Pinned && state != Required {
			continue
		}
		p := Problem{Code: CodeNotListed, Severity: Warn, Hint: "knack skill why " + name}
		if state == Required {
			p.Severity = Error
		}
		i := slices.IndexFunc(entries, func(e item) bool { return e.skill.Name == name })
		switch {
		case i < 0:
			p.Message = fmt.Sprintf("the %s skill %s is not listed: %s", state, name, c.notListed(name, v))
		case entries[i].keep < entries[i].runes || entries[i].cut != Whole:
			p.Path, p.Hint = entries[i].skill.Path, "raise skills.listingBudget, or pin fewer skills"
			p.Message = fmt.Sprintf("the %s skill %s is not listed in full: pinned skills take at most half of the budget",
				state, name)
		default:
			continue
		}
		problems = append(problems, p)
	}
	return problems
}

// notListed explains why a name is not in a listing.
func (c *Catalog) notListed(name string, v View) string {
	for _, e := range c.entries {
		if e.Name() == name {
			return c.reason(Finding{Candidate: e, State: c.State(e, v)}, v)
		}
	}
	return "no skill has this name"
}

// hints drops the argument hints that do not fit in budget characters.
func hints(entries []item, budget int) {
	for i := range entries {
		e := &entries[i]
		if n := utf8.RuneCountInString(e.hint); e.keep == 0 || n > budget {
			e.hint = ""
		} else {
			budget -= n
		}
	}
}

// omit marks the least used of more than 2,000 entries as omitted, and returns how many.
func omit(entries []item, used []string) int {
	more := len(entries) - maxListed
	if more <= 0 {
		return 0
	}
	free := make([]*item, 0, len(entries))
	for i := range entries {
		if !entries[i].whole {
			free = append(free, &entries[i])
		}
	}
	byUse(free, used)
	more = min(more, len(free))
	for _, e := range free[len(free)-more:] {
		e.keep, e.cut = 0, CutOmitted
	}
	return more
}

// location returns where a model can read a skill's file.
func location(s *Skill) string {
	if s.Path == "" {
		return s.ID
	}
	return filepath.ToSlash(s.Path)
}

var (
	unfolded = strings.NewReplacer("&lt;", "<", "&gt;", ">") // undoes the escaping of [plain.Fold]
	escaped  = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")
)

// xml escapes one line of text for use within an element.
func xml(s string) string { return escaped.Replace(unfolded.Replace(plain.Fold(s))) }

// size returns the characters of the entries with their newlines.
func size(entries []item) int {
	n := 0
	for i := range entries {
		n += entries[i].size()
	}
	return n
}

func (e *item) size() int {
	if e.cut == CutOmitted {
		return 0
	}
	n := utf8.RuneCountInString(e.name) + len("\n")
	if e.keep > 0 {
		n += e.fixedRunes + e.keep
	}
	return n
}

// cutToBudget cuts texts so that the entries take at most budget characters, unless the names
// alone take more.
func cutToBudget(entries []item, budget int, v View) {
	var free []*item // entries whose text may be cut
	names := budget  // characters left after the names
	for i := range entries {
		e := &entries[i]
		switch {
		case e.keep == 0 || e.whole:
			names -= e.size()
		default:
			limit := maxCutEntry
			if !v.Index { // a location does not count
				limit = max(0, maxCutEntry-utf8.RuneCountInString(e.name)-e.fixedRunes)
			}
			if e.keep > limit {
				e.keep, e.cut = limit, CutShare
			}
			free = append(free, e)
			names -= utf8.RuneCountInString(e.name) + len("\n")
		}
	}
	text := names
	for _, e := range free {
		text -= e.fixedRunes
	}
	// Equal shares: short texts return what they do not need.
	byLength := slices.Clone(free)
	slices.SortStableFunc(byLength, func(a, b *item) int { return a.keep - b.keep })
	for i, e := range byLength {
		share := text / (len(byLength) - i)
		if e.keep <= share {
			text -= e.keep
			continue
		}
		if share < minText {
			cutToMinimum(free, names, v.Used)
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

// cutToMinimum gives 60 characters to texts in the order of use, then of the listing, until
// budget is used up; the others keep only their names.
func cutToMinimum(free []*item, budget int, used []string) {
	free = slices.Clone(free)
	byUse(free, used)
	for _, e := range free {
		keep := min(e.keep, minText)
		if e.fixedRunes+keep > budget {
			e.keep, e.cut = 0, CutText
			continue
		}
		budget -= e.fixedRunes + keep
		if keep < e.keep {
			e.keep, e.cut = keep, CutFloor
		}
	}
}

// byUse sorts items by use, the most used first. The others keep their order.
func byUse(items []*item, used []string) {
	rank := make(map[string]int, len(used))
	for i := len(used) - 1; i >= 0; i-- {
		rank[used[i]] = i - len(used)
	}
	slices.SortStableFunc(items, func(a, b *item) int { return rank[a.skill.Name] - rank[b.skill.Name] })
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
	return e.name + ": " + text + e.hint + e.suffix
}

// cutTo shortens a text to n characters, the last of them an ellipsis. It cuts after a
// sentence or a word if one ends in the last fifth.
func cutTo(s string, n int) string {
	if n <= 0 {
		return ""
	}
	end, least := -1, 0 // bytes that fit; start of the last fifth
	left := n
	for i := range s {
		if left == n/5+1 {
			least = i
		}
		if left--; left == 0 {
			end = i
			break
		}
	}
	if end < 0 {
		return s
	}
	if at := strings.LastIndexByte(s[:end], '&'); at >= 0 && entity(s[at:end]) {
		end = at // an escaped character is kept or dropped as a whole
	}
	sentence, word := -1, -1
	before := ' '
	for i, r := range s[:end] {
		switch {
		case i < least:
		case r == '。' || r == '！' || r == '？':
			sentence = i + utf8.RuneLen(r)
		case r == ' ' && (before == '.' || before == '!' || before == '?'):
			sentence = i + 1
		case r == ' ':
			word = i
		}
		before = r
	}
	if end < len(s) && s[end] == ' ' {
		word = end
	}
	if sentence >= 0 {
		return s[:sentence] + "…"
	}
	if word >= 0 {
		end = word
	}
	return strings.TrimRight(s[:end], " ") + "…"
}

// entity reports whether a text is the beginning of an entity that xml writes.
func entity(s string) bool {
	for _, e := range []string{"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"} {
		if len(s) < len(e) && strings.HasPrefix(e, s) {
			return true
		}
	}
	return false
}

// frameText returns the text of a listing around its entries: before them, between modes and
// others, and after them.
func frameText(v View, modes, others int, cut bool, omitted int) (head, middle, tail string) {
	more := ""
	if omitted > 0 {
		more = plain.Count(omitted, "more skill") + " not listed here"
		if !v.Index {
			more += ": call the Skill tool with find to search them"
		}
		more += ".\n"
	}
	switch {
	case v.Index:
		head, tail = indexHead+"\n<available_skills>\n", "</available_skills>\n"
		if cut {
			tail += indexNote + "\n"
		}
		return head, "", tail + more
	case cut:
		tail = "\n" + toolNote + "\n"
	case omitted > 0:
		tail = "\n"
	}
	if modes > 0 {
		head = modeHead + "\n"
		if others > 0 {
			middle = "\n" + otherHead + "\n"
		}
	}
	return head, middle, tail + more
}

const indexHead = `The skills below contain instructions for particular tasks. When a task matches a skill's ` +
	`description, read the file at its location before you begin, and follow it. Relative paths in a skill are resolved ` +
	`against the directory of its file.`

// Changes are the differences between a listing and one that a model has seen before.
type Changes struct {
	Added, Changed []Line
	Removed        []string // names
}

// Fingerprints returns a fingerprint, by name, of what the listing says about each
// skill. It does not depend on how far a text was cut.
func (l Listing) Fingerprints() map[string]string {
	const size = 6 // bytes per fingerprint
	prints := make([]byte, 2*size*len(l.Entries))
	spread(len(l.Entries), func() func(int) {
		var buf []byte
		return func(i int) {
			s := l.Entries[i].Skill
			buf = append(append(append(buf[:0], s.ID...), 0), s.Summary()...)
			sum := sha256.Sum256(buf)
			hex.Encode(prints[2*size*i:], sum[:size])
		}
	})
	all := string(prints) // one string for all, since there may be 10,000
	found := make(map[string]string, len(l.Entries))
	for i, e := range l.Entries {
		found[e.Skill.Name] = all[2*size*i:][:2*size]
	}
	return found
}

// Since compares the listing with an older one, given by its Fingerprints.
func (l Listing) Since(announced map[string]string) Changes {
	var ch Changes
	now := l.Fingerprints()
	for _, e := range l.Entries {
		switch name := e.Skill.Name; announced[name] {
		case now[name]:
		case "":
			ch.Added = append(ch.Added, e)
		default:
			ch.Changed = append(ch.Changed, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(announced)) {
		if now[name] == "" {
			ch.Removed = append(ch.Removed, name)
		}
	}
	return ch
}

// Empty reports whether nothing changed.
func (ch Changes) Empty() bool { return len(ch.Added)+len(ch.Changed)+len(ch.Removed) == 0 }

// Announced names the skill as an announcement for people does: with the directory, if it was found below the working
// directory and its name does not say so.
func (l Line) Announced() string {
	if dir := l.Skill.nestedIn(); dir != "" {
		return l.Skill.Name + " (in " + dir + ")"
	}
	return l.Skill.Name
}

// nestedIn returns the directory below the working directory that has the skill, as one line; "": none, or the name
// says so.
func (s *Skill) nestedIn() string {
	if strings.HasPrefix(s.Name, s.Origin.Nested+":") {
		return ""
	}
	return plain.Fold(s.Origin.Nested)
}

// Text describes the changes for a model; it is "" if there are none.
func (ch Changes) Text() string {
	var b strings.Builder
	list := func(head string, lines []Line) {
		if len(lines) > 0 {
			b.WriteString(head + "\n")
			for _, l := range lines {
				b.WriteString(l.Text)
				if dir := l.Skill.nestedIn(); dir != "" {
					b.WriteString(" (in " + dir + ")")
				}
				b.WriteString("\n")
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
