package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/run/llm"
)

// A Path is a directory that is another one in each run, such as that of a trial.
type Path struct {
	Name string // what it is called in the file: letters
	Dir  string // absolute
}

// request is what a recording keeps of a request: what it says, without what differs from run to run.
type request struct {
	Model    string   `json:"model"`
	Effort   string   `json:"effort,omitempty"`
	Search   string   `json:"search,omitempty"`
	System   string   `json:"system"` // these are hashes of texts
	Tools    string   `json:"tools"`
	Messages []string `json:"messages"`
}

// key identifies a request.
func (q *request) key() string {
	data, err := json.Marshal(q)
	if err != nil {
		panic(err) // it has only strings
	}
	return digest(string(data))
}

// Hash identifies a text, for Options.Skills.
func Hash(text string) string { return digest(text) }

// digest returns the first 16 bytes of a hash: what is compared was written by one user for one case.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// A reading makes the request of one model comparable. It keeps the texts that it has seen.
type reading struct {
	dirs []dir

	mu    sync.Mutex
	known map[known]string  // general forms of texts: a conversation sends the same ones again and again
	texts map[string]string // general forms, by hash
}

type known struct {
	origin origin
	hash   [sha256.Size]byte
}

// dir is a Path with the ways in which texts write it.
type dir struct{ mark, plain, quoted string }

func newReading(paths []Path) *reading {
	n := &reading{known: map[known]string{}, texts: map[string]string{}}
	for _, p := range paths {
		if p.Dir == "" || p.Dir == "/" || !filepath.IsAbs(p.Dir) {
			continue
		}
		for _, d := range []string{p.Dir, real(p.Dir)} {
			mark := "$[" + p.Name + "]"
			if !slices.ContainsFunc(n.dirs, func(o dir) bool { return o.plain == d }) {
				n.dirs = append(n.dirs, dir{mark, d, quoted(d)})
			}
		}
	}
	order.Stable(n.dirs, func(a, b dir) int { return len(b.plain) - len(a.plain) }) // the inner ones first
	return n
}

// real returns a directory without links, as programs that run in it print it.
func real(dir string) string {
	if r, err := filepath.EvalSymlinks(dir); err == nil {
		return r
	}
	return dir
}

// quoted returns a text as it stands inside a JSON string.
func quoted(s string) string {
	data, _ := json.Marshal(s)
	return string(data[1 : len(data)-1])
}

// request returns what a request says.
func (n *reading) request(model string, req *llm.Request) *request {
	q := &request{Model: model, Effort: req.Effort, Messages: []string{},
		System: n.keep(n.general(system, req.System)), Tools: n.keep(tools(req.Tools))}
	if s := req.Search; s != nil {
		q.Search = fmt.Sprintf("%q but %q", s.Allowed, s.Blocked)
	}
	ids := map[string]string{} // of calls, which are numbered in the order of the conversation
	for i := range req.Messages {
		q.Messages = append(q.Messages, n.message(&req.Messages[i], ids))
	}
	return q
}

// tools returns names and schemas, in the order of the names.
func tools(all []llm.ToolSpec) string {
	lines := make([]string, len(all))
	for i, t := range all {
		lines[i] = t.Name + " " + canonical(t.Schema)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// canonical returns JSON with the fields of objects in order; what is no JSON is returned as it is.
func canonical(data json.RawMessage) string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return string(data)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(data)
	}
	return string(out)
}

// message returns the hash of a message. What the model thought is left out: it follows from the requests before, and
// only the provider can read some of it.
func (n *reading) message(m *llm.Message, ids map[string]string) string {
	var b strings.Builder
	origin := input
	part := func(p *llm.Part) {
		switch {
		case p.Thinking != nil:
		case p.Media != nil:
			fmt.Fprintf(&b, "\n[%s %s %s]", p.Media.MIME, p.Media.Name, p.Media.Hash())
		default:
			b.WriteString("\n" + n.general(origin, p.Text))
		}
	}
	id := func(id string) string {
		if ids[id] == "" {
			ids[id] = strconv.Itoa(len(ids) + 1)
		}
		return ids[id]
	}
	b.WriteString(string(m.Role) + ":")
	for i := range m.Parts {
		switch p := &m.Parts[i]; {
		case p.Call != nil:
			fmt.Fprintf(&b, "\ncall %s: %s %s", id(p.Call.ID), p.Call.Name, n.general(result, canonical(p.Call.Input)))
		case p.Result != nil:
			fmt.Fprintf(&b, "\nresult %s of %s:", id(p.Result.ID), p.Result.Name)
			if p.Result.IsError {
				b.WriteString(" error")
			}
			origin = result
			for j := range p.Result.Parts {
				part(&p.Result.Parts[j])
			}
			origin = input
		default:
			part(p)
		}
	}
	return n.keep(b.String())
}

// keep stores a text in its general form, and returns its hash.
func (n *reading) keep(text string) string {
	hash := digest(text)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.texts[hash] = text
	return hash
}

// An origin says who wrote a text.
type origin int

const (
	input  origin = iota // the user, or a skill: what it says counts
	result               // a tool, or the model's call of it: also durations and hashes differ from run to run
	system               // the program
)

// A pattern is something that differs from run to run.
type pattern struct {
	re   *regexp.Regexp
	mark string // what is put in its place
	// may reports whether a line can contain it. It is much faster than re, and few lines contain anything.
	may     func(s sight) bool
	results bool // only in texts of result and system
}

var patterns = sync.OnceValue(func() []pattern {
	const day = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*`
	const month = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?`
	const clock = `\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?`
	re := regexp.MustCompile
	return []pattern{
		{re(`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`), "$[id]",
			func(s sight) bool { return s.hex }, false},
		{re(`\b\d{4}-\d{2}-\d{2}(?:[T ]` + clock + `(?:Z| ?[+-]\d{2}:?\d{2}\b)?)?`), "$[date]",
			func(s sight) bool { return s.iso }, false},
		{re(`\b(?:` + day + `,? )?` + month + `  ?\d{1,2}(?:st|nd|rd|th)?,?(?: (?:at )?` + clock +
			`)?(?: [A-Z]{3,4})?(?: \d{4}\b)?`), "$[date]", func(s sight) bool { return s.month }, false},
		{re(`\b(?:` + day + `, )?\d{1,2} ` + month + ` \d{4}\b(?: ` + clock + `)?(?: [A-Z]{3}\b| [+-]\d{4}\b)?`), "$[date]",
			func(s sight) bool { return s.month }, false},
		{re(`\b(?:localhost|127\.0\.0\.1):\d{4,5}\b`), "localhost:$[port]", func(s sight) bool { return s.colon }, false},
		{re(`\b` + clock + `\b`), "$[time]", func(s sight) bool { return s.clock }, false},
		{re(`\b1[5-9]\d{8}(?:\d{3}){0,3}(?:\.\d+)?\b`), "$[time]", func(s sight) bool { return s.digits }, true},
		{re(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|secs|seconds?)\b`), "$[duration]",
			func(s sight) bool { return s.unit }, true},
		{re(`\b(?:toolu|call|msg|resp|req|sess|session|task)_[A-Za-z0-9_-]{6,}`), "$[id]",
			func(s sight) bool { return s.under }, true},
		{re(`\b[0-9a-f]{7,64}\b`), "$[hash]", func(s sight) bool { return s.hex }, true},
		{re(`\b(?:pid|PID|process)[ :=]+\d+\b`), "pid $[number]", func(s sight) bool { return s.pid }, true},
	}
})

// A sight is what one look at a line finds: whether a pattern can be in it.
type sight struct {
	digit  bool // any; without one there is no pattern
	iso    bool // four digits and a hyphen
	clock  bool // a colon between digits
	colon  bool // a colon before a digit
	digits bool // ten digits in a row
	hex    bool // seven hexadecimal digits in a row, one of them 0 to 9
	unit   bool // a digit, perhaps a blank, and a letter with which a unit of time begins
	under  bool // an underscore
	month  bool // the name of a month
	pid    bool
}

func look(line string) sight {
	var s sight
	digits, hex, numeric := 0, 0, false // how many there are just before i
	for i := range len(line) {
		c := line[i]
		digit := '0' <= c && c <= '9'
		switch {
		case digit:
			s.digit = true
			s.colon = s.colon || i > 0 && line[i-1] == ':'
			s.clock = s.clock || s.colon && i > 1 && line[i-1] == ':' && isDigit(line[i-2])
		case c == '-':
			s.iso = s.iso || digits >= 4
		case c == '_':
			s.under = true
		case digits > 0:
			next := c
			if c == ' ' && i+1 < len(line) {
				next = line[i+1]
			}
			s.unit = s.unit || strings.IndexByte("nmush\xc2\xce", next) >= 0
		}
		if digit {
			digits++
		} else {
			digits = 0
		}
		if digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' {
			hex, numeric = hex+1, numeric || digit
		} else {
			hex, numeric = 0, false
		}
		s.digits = s.digits || digits >= 10
		s.hex = s.hex || hex >= 7 && numeric
		if 'A' <= c && c <= 'S' && i+3 <= len(line) {
			switch line[i : i+3] {
			case "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec":
				s.month = true
			}
		}
	}
	s.pid = s.digit &&
		(strings.Contains(line, "pid") || strings.Contains(line, "PID") || strings.Contains(line, "process"))
	return s
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// temporary matches a file in a directory for temporary files, up to the name below it, which is random.
var temporary = sync.OnceValue(func() *regexp.Regexp {
	const slash = `(?:\\\\?|/)` // in JSON the one of Windows is doubled
	return regexp.MustCompile(`(?:/private)?(?:/var/folders/\w+/\w+/T|/var/tmp|/tmp)/[^\s/"'\x60<>()\\,;:]+|` +
		`(?i:[a-z]:` + slash + `(?:users` + slash + `[^\s\\/]+` + slash + `appdata` + slash + `local` + slash + `)?temp` +
		slash + `[^\s\\/"']+)`)
})

// general returns a text without what differs from run to run.
func (n *reading) general(o origin, text string) string {
	k := known{o, sha256.Sum256([]byte(text))}
	n.mu.Lock()
	out, ok := n.known[k]
	n.mu.Unlock()
	if ok {
		return out
	}
	out = n.generalize(o, text)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[k] = out
	return out
}

func (n *reading) generalize(o origin, text string) string {
	text = n.replacePaths(text)
	if strings.Contains(text, "tmp/") || strings.Contains(text, "/T/") || strings.Contains(text, "emp") {
		text = temporary().ReplaceAllLiteralString(text, "$[tmp]")
	}
	if o == system {
		text = platform().ReplaceAllLiteralString(text, "\nPlatform: $[platform]")
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		s := look(line)
		for _, p := range patterns() {
			if s.digit && p.may(s) && (!p.results || o != input) {
				line = p.re.ReplaceAllStringFunc(line, p.replace)
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

// replace returns what takes the place of a match.
func (p *pattern) replace(found string) string {
	if p.mark == "$[hash]" && (strings.Trim(found, "0123456789") == "" || strings.Trim(found, "abcdef") == "") {
		return found // a number or a word
	}
	return p.mark
}

// platform matches the line of the system text that names the operating system.
var platform = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\nPlatform: \w+`) })

// replacePaths puts the names of directories in their place.
func (n *reading) replacePaths(text string) string {
	for _, d := range n.dirs {
		text = replacePath(text, d.plain, d.mark)
		if d.quoted != d.plain {
			text = replacePath(text, d.quoted, d.mark)
		}
	}
	return text
}

// replacePath replaces a directory where it is a whole name: not /a/b in /a/bc or in /x/a/b.
func replacePath(text, dir, mark string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, dir)
		if i < 0 {
			break
		}
		end := i + len(dir)
		whole := (i == 0 || !inName(text[i-1])) && (end == len(text) || !inName(text[end]))
		if b.WriteString(text[:i]); whole {
			b.WriteString(mark)
		} else {
			b.WriteString(dir)
		}
		text = text[end:]
	}
	if b.Len() == 0 {
		return text
	}
	return b.String() + text
}

// inName reports whether a byte continues the name of a file. A dot does not: it may end a sentence.
func inName(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// restorePaths is the opposite of replacePaths. With json the text is part of a JSON document.
func (n *reading) restorePaths(text string, json bool) string {
	if !strings.Contains(text, "$[") {
		return text
	}
	done := map[string]bool{}
	for _, d := range n.dirs {
		if done[d.mark] { // the same directory without links
			continue
		}
		done[d.mark] = true
		to := d.plain
		if json {
			to = d.quoted
		}
		text = strings.ReplaceAll(text, d.mark, to)
	}
	return text
}
