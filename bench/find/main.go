// Command find measures how well and how fast skills are found, on your own
// skills and prompts.
//
//	go run ./find -skills DIR [-skills DIR] [-prompts FILE] [-n 1000,10000] [-json FILE] [-svg DIR]
//
// The prompts are JSON lines, {"query": "what a user says", "skill": "name"}. Those in
// evals/eval_queries.json beside the skills, {"query": …, "should_trigger": true}, are
// added; queries that should not trigger are near misses, and for these it is measured
// how often the skill is found first, or suggested, nevertheless.
// Without prompts only time and size are measured. If a size needs more skills
// than there are, distractors are added, which are never the right answer. Each is
// made from two skills without prompts: half of the name, description and sections
// of one, and half of the other.
//
// Quality is reported for prompts of all skills, and for the half of the skills
// on which nothing in the program was tuned (-held all: all of them). The baseline
// is BM25 over the same texts.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("find: ")
	var dirs []string
	flag.Func("skills", "`directory` of skills; may be repeated",
		func(s string) error { dirs = append(dirs, s); return nil })
	prompts := flag.String("prompts", "", "file of prompts, JSON lines with query and skill")
	only := flag.String("held", "half", "half: the skills that nothing was tuned on; all: every skill")
	list := flag.String("n", "100,1000,10000", "numbers of skills")
	asJSON := flag.String("json", "", "file for the result as JSON")
	svg := flag.String("svg", "", "directory for a chart")
	flag.Parse()
	var sizes []int
	for word := range strings.SplitSeq(*list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 100000 {
			log.Fatal("-n needs numbers of skills from 1 to 100000")
		}
		sizes = append(sizes, n)
	}
	if len(dirs) == 0 || *only != "half" && *only != "all" {
		flag.Usage()
		os.Exit(2)
	}
	b := &benchmark{heldOut: *only == "half"}
	err := b.read(dirs, *prompts)
	if err == nil {
		err = b.measure(os.Stdout, sizes)
	}
	if err == nil {
		err = bench.WriteJSON(*asJSON, b.result)
	}
	if err == nil && len(b.prompts) > 0 {
		err = bench.WriteSVG(*svg, b.result.chart())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A text is the text of a skill file.
type text struct{ name, description, body string }

func (t text) file() string {
	d, _ := json.Marshal(t.description) // JSON is YAML
	return "---\ndescription: " + string(d) + "\n---\n" + t.body
}

type prompt struct {
	Query string `json:"query"`
	Skill string `json:"skill"`
}

// A result contains all measurements, as written by -json.
type result struct {
	When    time.Time     `json:"when"`
	Machine bench.Machine `json:"machine"`
	Speed   []speed       `json:"speed"`
	Quality []quality     `json:"quality"`
	Seen    []seenResult  `json:"seen"`
	Misses  []missResult  `json:"near_misses,omitempty"`
}

type speed struct {
	Skills   int        `json:"skills"`
	Text     int64      `json:"text_bytes"`
	BuildCPU float64    `json:"build_cpu_ms"`
	Index    int64      `json:"index_bytes"`
	Open     bench.Stat `json:"open_ms"`
	Query    bench.Stat `json:"query_ms"`
	P95      float64    `json:"query_p95_ms"`
}

type quality struct {
	Skills int     `json:"skills"`
	What   string  `json:"what"`
	N      int     `json:"prompts"`
	Hit    float64 `json:"hit_at_1"`
	Recall float64 `json:"recall_at_10"`
	// Gained and Lost count prompts compared with plain BM25: by hit at 1, then by recall.
	Gained, Lost [2]int
}

// A seenResult contains the share of prompts for which the model sees the whole description of the right
// skill.
type seenResult struct {
	Skills int     `json:"skills"`
	What   string  `json:"what"`
	Share  float64 `json:"share"`
	Note   string  `json:"note,omitempty"`
}

// A missResult says how often near misses of a skill bring it up.
type missResult struct {
	Skills    int     `json:"skills"`
	N         int     `json:"queries"`
	First     float64 `json:"found_first"`
	Suggested float64 `json:"suggested"`
}

type benchmark struct {
	heldOut bool
	misses  []prompt // that should not bring up their skill
	texts   []text   // those of skills with prompts first
	targets int
	prompts []prompt
	result  result
}

func (b *benchmark) read(dirs []string, file string) error {
	about := map[string]bool{}
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			var p prompt
			if err := json.Unmarshal(s.Bytes(), &p); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if !b.heldOut || heldOut(p.Skill) {
				b.prompts = append(b.prompts, p)
			}
			about[p.Skill] = true
		}
		if err := s.Err(); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := b.readQueries(dir, about); err != nil {
			return err
		}
	}
	var others []text
	have := map[string]bool{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.EqualFold(d.Name(), "SKILL.md") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			t := text{name: filepath.Base(filepath.Dir(path))}
			if have[strings.ToLower(t.name)] {
				return nil
			}
			have[strings.ToLower(t.name)] = true
			f := frontmatter.Split(data)
			entries, _ := frontmatter.Parse(f.Head, f.Line)
			var when string
			for _, e := range entries {
				switch e.Key {
				case "description":
					t.description = e.Value.Value
				case "when_to_use":
					when = e.Value.Value
				}
			}
			t.description = strings.TrimSpace(t.description + " " + when)
			t.body = string(f.Body)
			if about[t.name] {
				b.texts = append(b.texts, t)
			} else {
				others = append(others, t)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	b.targets = len(b.texts)
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	b.texts = append(b.texts, others...)
	if len(b.texts) == 0 {
		return fmt.Errorf("no SKILL.md below %s", strings.Join(dirs, ", "))
	}
	return nil
}

// readQueries reads the eval_queries.json of the skills below a directory.
func (b *benchmark) readQueries(dir string, about map[string]bool) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "eval_queries.json" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var queries []struct {
			Query  string `json:"query"`
			Should bool   `json:"should_trigger"`
		}
		if err := json.Unmarshal(data, &queries); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		skill := filepath.Base(filepath.Dir(filepath.Dir(path)))
		about[skill] = true
		if b.heldOut && !heldOut(skill) {
			return nil
		}
		for _, q := range queries {
			if q.Should {
				b.prompts = append(b.prompts, prompt{q.Query, skill})
			} else {
				b.misses = append(b.misses, prompt{q.Query, skill})
			}
		}
		return nil
	})
}

// measureMisses measures how often a query that should not bring up a skill does.
func (b *benchmark) measureMisses(ctx context.Context, cat *knack.Catalog, finder *knack.Finder, n int) error {
	r := missResult{Skills: n, N: len(b.misses)}
	for _, p := range b.misses {
		matches, err := finder.Find(ctx, cat, p.Query, 1, nil)
		if err != nil {
			return err
		}
		if len(matches) > 0 && strings.EqualFold(matches[0].Skill.Name, p.Skill) {
			r.First += 1 / float64(r.N)
		}
		skills, err := finder.Suggest(ctx, cat, p.Query, 5, nil)
		if err != nil {
			return err
		}
		for _, s := range skills {
			if strings.EqualFold(s.Name, p.Skill) {
				r.Suggested += 1 / float64(r.N)
			}
		}
	}
	b.result.Misses = append(b.result.Misses, r)
	return nil
}

// heldOut reports whether the prompts of a skill were set aside when the ranking was tuned.
func heldOut(skill string) bool {
	h := fnv.New32a()
	io.WriteString(h, skill+"s1")
	return h.Sum32()>>8%2 == 1
}

// pool returns n skills.
func (b *benchmark) pool(n int) []text {
	all := slices.Clone(b.texts[:min(n, len(b.texts))])
	free := b.texts[b.targets:]
	if len(free) == 0 {
		free = b.texts
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := 0; len(all) < n; i++ {
		x, y := free[r.IntN(len(free))], free[r.IntN(len(free))]
		dx, dy := strings.Fields(x.description), strings.Fields(y.description)
		all = append(all, text{
			name:        fmt.Sprintf("%s-%s-%d", firstHalf(x.name), secondHalf(y.name), i),
			description: strings.Join(dx[:len(dx)/2], " ") + " " + strings.Join(dy[len(dy)/2:], " "),
			body:        half(x.body, r) + half(y.body, r),
		})
	}
	return all
}

func firstHalf(name string) string {
	p := strings.Split(name, "-")
	return strings.Join(p[:(len(p)+1)/2], "-")
}

func secondHalf(name string) string {
	p := strings.Split(name, "-")
	return strings.Join(p[len(p)/2:], "-")
}

// half returns about half of the sections of a text.
func half(body string, r *rand.Rand) string {
	var b strings.Builder
	for _, section := range strings.Split(body, "\n#") {
		if r.IntN(2) == 0 {
			b.WriteString("\n#" + section)
		}
	}
	return b.String()
}

func (b *benchmark) measure(out io.Writer, sizes []int) error {
	b.result.When, b.result.Machine = time.Now().UTC(), bench.ThisMachine()
	fmt.Fprintln(out, b.result.Machine)
	tmp, err := os.MkdirTemp("", "knack-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, n := range sizes {
		if err := b.size(filepath.Join(tmp, strconv.Itoa(n)), n); err != nil {
			return err
		}
	}
	return b.result.write(out)
}

func (b *benchmark) size(dir string, n int) error {
	pool := b.pool(n)
	s := speed{Skills: len(pool)}
	for _, t := range pool {
		path := filepath.Join(dir, "skills", t.name, "SKILL.md")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		data := t.file()
		s.Text += int64(len(data))
		if err := os.WriteFile(path, []byte(data), 0o666); err != nil {
			return err
		}
	}
	ctx := context.Background()
	cat := knack.Load(ctx, knack.Dir(filepath.Join(dir, "skills"), knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	state := filepath.Join(dir, "state")
	finder := &knack.Finder{Dir: state}
	s.BuildCPU = math.Inf(1)
	for range 3 {
		if err := os.RemoveAll(state); err != nil {
			return err
		}
		finder = &knack.Finder{Dir: state}
		before := bench.CPU()
		if err := finder.Prepare(ctx, cat); err != nil {
			return err
		}
		s.BuildCPU = min(s.BuildCPU, ms(bench.CPU()-before))
	}
	if info, err := os.Stat(filepath.Join(state, "skills.index")); err == nil {
		s.Index = info.Size()
	}
	var open, query []float64
	for range 9 {
		finder = &knack.Finder{Dir: state}
		start := time.Now()
		finder.Ready(ctx, cat)
		open = append(open, ms(time.Since(start)))
	}
	s.Open = bench.StatOf(open)
	words := b.prompts
	if len(words) == 0 {
		for _, t := range pool[:min(300, len(pool))] {
			words = append(words, prompt{Query: t.description})
		}
	}
	for _, p := range words {
		best := math.Inf(1)
		for range 3 {
			start := time.Now()
			if _, err := finder.Find(ctx, cat, p.Query, 10, nil); err != nil {
				return err
			}
			best = min(best, ms(time.Since(start)))
		}
		query = append(query, best)
	}
	s.Query = bench.StatOf(query)
	slices.Sort(query)
	s.P95 = query[len(query)*95/100]
	b.result.Speed = append(b.result.Speed, s)
	if len(b.prompts) == 0 {
		return nil
	}
	if err := b.quality(ctx, cat, finder, pool); err != nil {
		return err
	}
	if len(b.misses) > 0 {
		if err := b.measureMisses(ctx, cat, finder, len(pool)); err != nil {
			return err
		}
	}
	return b.measureListing(ctx, cat, finder, pool)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (b *benchmark) quality(ctx context.Context, cat *knack.Catalog, finder *knack.Finder, pool []text) error {
	ways := []struct {
		name string
		find func(query string) ([]string, error)
	}{
		{"BM25, the text", newBM25(pool, 1, 1, 1).find},
		{"BM25, name ×3, description ×2, text ×0.4", newBM25(pool, 3, 2, .4).find},
		{"Find", func(query string) (found []string, err error) {
			matches, err := finder.Find(ctx, cat, query, 10, nil)
			for _, m := range matches {
				found = append(found, m.Skill.Name)
			}
			return found, err
		}},
	}
	ranks := make([][]int, len(ways))
	for i, w := range ways {
		q := quality{Skills: len(pool), What: w.name, N: len(b.prompts)}
		for j, p := range b.prompts {
			found, err := w.find(p.Query)
			if err != nil {
				return err
			}
			rank := slices.IndexFunc(found, func(name string) bool { return strings.EqualFold(name, p.Skill) })
			ranks[i] = append(ranks[i], rank)
			for k, ok := range []bool{rank == 0, rank >= 0} {
				was := ranks[min(i, 1)][j]
				before := []bool{was == 0, was >= 0}[k]
				if ok && !before {
					q.Gained[k]++
				} else if !ok && before {
					q.Lost[k]++
				}
			}
			if rank == 0 {
				q.Hit += 1 / float64(q.N)
			}
			if rank >= 0 {
				q.Recall += 1 / float64(q.N)
			}
		}
		b.result.Quality = append(b.result.Quality, q)
	}
	return nil
}

// window is the context window of the model whose listing is measured, in tokens.
const window = 200_000

// measureListing measures for which prompts the model sees the whole description of the right skill: in
// the listing, or in the suggestions after the prompt.
func (b *benchmark) measureListing(ctx context.Context, cat *knack.Catalog, finder *knack.Finder, pool []text) error {
	whole := map[string]bool{}
	for _, l := range cat.Listing(knack.View{For: knack.ByModel, Window: window}).Entries {
		whole[strings.ToLower(l.Skill.Name)] = l.Cut == knack.Whole
	}
	listing, suggested, listed := 0, 0, 0
	for _, p := range b.prompts {
		name := strings.ToLower(p.Skill)
		skills, err := finder.Suggest(ctx, cat, p.Query, 5, nil)
		if err != nil {
			return err
		}
		note := ""
		if len(skills) > 0 {
			note = knack.SuggestionText(skills)
		}
		in := false
		for _, s := range skills {
			in = in || strings.EqualFold(s.Name, name) && strings.Contains(note, "\n- "+s.Name+": ")
		}
		if whole[name] {
			listing++
		}
		if in {
			suggested++
		}
		if in || whole[name] {
			listed++
		}
	}
	n := float64(len(b.prompts))
	add := func(what string, share float64, note string) {
		b.result.Seen = append(b.result.Seen, seenResult{len(pool), what, share, note})
	}
	add("Knack, listing alone", float64(listing)/n, "")
	add("Knack, with suggestions", float64(listed)/n, fmt.Sprintf("suggestions alone %.2f", float64(suggested)/n))
	claude := claudeCode(cat)
	k := 0
	for _, p := range b.prompts {
		if claude[strings.ToLower(p.Skill)] {
			k++
		}
	}
	add("Claude Code, by its rule", float64(k)/n, "")
	chars := 0
	for _, s := range cat.Skills() {
		chars += len(s.Name) + len(s.Description) + len(s.Path) + 90
	}
	share, note := 1.0, fmt.Sprintf("some %d thousand tokens", chars/4000)
	if chars/4 > window {
		share, note = 0, note+": more than the window, no request is possible"
	}
	add("Pi, by its rule", share, note)
	return nil
}

// claudeCode returns the skills whose whole description is in a listing made by the rule
// observed in Claude Code 2.1: of 8,000 characters for a window of 200,000 tokens, its bundled
// skills take 4,243, and names are always listed; the rest goes to descriptions in the order
// of the listing, each of at most 1,536 characters and either whole or left out.
func claudeCode(cat *knack.Catalog) map[string]bool {
	budget := 8000 - 4243
	for _, s := range cat.Skills() {
		budget -= len("- \n") + len([]rune(s.Name))
	}
	whole := map[string]bool{}
	for _, s := range cat.Skills() {
		n := len([]rune(s.Summary()))
		if n+2 > budget || n > 1536 {
			continue
		}
		budget -= n + 2
		whole[strings.ToLower(s.Name)] = true
	}
	return whole
}

func (r *result) write(out io.Writer) error {
	t := bench.Table{Title: "Time and size", Head: []string{"skills", "text, MB", "build, CPU ms", "index, MB",
		"% of the text", "open, ms", "query, ms", "95%"}}
	for _, s := range r.Speed {
		t.Add(s.Skills, bench.Number(float64(s.Text)/1e6), bench.Number(s.BuildCPU), bench.Number(float64(s.Index)/1e6),
			bench.Number(100*bench.Ratio(float64(s.Index), float64(s.Text))), s.Open, s.Query, bench.Number(s.P95))
	}
	if err := t.Write(out); err != nil || len(r.Quality) == 0 {
		return err
	}
	t = bench.Table{Title: "Quality", Head: []string{"skills", "", "prompts", "hit@1", "recall@10", "gained/lost hits",
		"gained/lost recall"}}
	for _, q := range r.Quality {
		t.Add(q.Skills, q.What, q.N, fmt.Sprintf("%.3f", q.Hit), fmt.Sprintf("%.3f", q.Recall),
			fmt.Sprintf("+%d −%d", q.Gained[0], q.Lost[0]), fmt.Sprintf("+%d −%d", q.Gained[1], q.Lost[1]))
	}
	if err := t.Write(out); err != nil {
		return err
	}
	t = bench.Table{Title: "The right skill's whole description is in front of the model",
		Head: []string{"skills", "", "share of the prompts", ""}}
	for _, s := range r.Seen {
		t.Add(s.Skills, s.What, fmt.Sprintf("%.3f", s.Share), s.Note)
	}
	if err := t.Write(out); err != nil || len(r.Misses) == 0 {
		return err
	}
	t = bench.Table{Title: "Near misses that bring up the skill", Head: []string{"skills", "queries", "found first",
		"suggested"}}
	for _, m := range r.Misses {
		t.Add(m.Skills, m.N, fmt.Sprintf("%.3f", m.First), fmt.Sprintf("%.3f", m.Suggested))
	}
	return t.Write(out)
}

func (r *result) chart() bench.Chart {
	c := bench.Chart{File: "find.svg", Title: "The right skill's whole description is in front of the model",
		Unit: "% of the prompts"}
	for _, s := range r.Seen {
		if group := fmt.Sprintf("%d skills", s.Skills); !slices.Contains(c.Groups, group) {
			c.Groups = append(c.Groups, group)
		}
		i := slices.IndexFunc(c.Series, func(x bench.Series) bool { return x.Name == s.What })
		if i < 0 {
			i = len(c.Series)
			c.Series = append(c.Series, bench.Series{Name: s.What})
		}
		c.Series[i].Values = append(c.Series[i].Values, bench.StatOf([]float64{100 * s.Share}))
	}
	return c
}
