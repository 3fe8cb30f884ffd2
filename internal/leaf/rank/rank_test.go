package rank

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// texts are documents: name, summary, body.
var texts = [][3]string{
	{"pdf", "Fill in forms and read text in PDF files", "Use pypdf to extract pages and merge documents."},
	{"spreadsheet-editor", "Edit XLSX workbooks", "# Formulas\nRecalculate with LibreOffice before saving."},
	{"git-commit", "Write a commit message in the style of the repository", "Run git diff first."},
	{"golang-testing", "Table tests for Go code", "Use t.Run, go test -race and testify where the repository has it."},
	{"weekly-report", "把每周的工作整理成周报", "收集提交记录，按照项目分组。"},
	{"kubernetes-debug", "Find out why a pod does not start",
		"kubectl describe shows the events. CrashLoopBackOff means that the container exits."},
}

func indexOf(t testing.TB, docs [][3]string) *Index {
	t.Helper()
	b := NewBuilder()
	for i, d := range docs {
		b.Text(Name, []byte(d[0]))
		b.Text(Summary, []byte(d[1]))
		b.Text(Body, []byte(d[2]))
		b.End(uint64(i))
	}
	data := encoded(t, b)
	x, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func encoded(t testing.TB, b *Builder) []byte {
	t.Helper()
	data, err := b.Encode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func merged(t testing.TB, old, added *Index, keep func(doc int) bool) []byte {
	t.Helper()
	data, err := Merge(t.Context(), old, added, keep)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSearch(t *testing.T) {
	x := indexOf(t, texts)
	for query, want := range map[string]string{
		"merge two pdf documents":            "pdf",
		"merging documents":                  "pdf",                // endings
		"edit my spreadsheet":                "spreadsheet-editor", // part of the name
		"spreadsheeteditor":                  "spreadsheet-editor", // written as one
		"spread sheet":                       "spreadsheet-editor", // written as two
		"recalculte formulas":                "spreadsheet-editor", // misspelt
		"commit":                             "git-commit",
		"tests in Go":                        "golang-testing",
		"帮我写这周的周报":                           "weekly-report",
		"why is my k8s container broken":     "kubernetes-debug",
		"crash loop back off":                "kubernetes-debug", // the parts of CamelCase
		"CRASHLOOPBACKOFF":                   "kubernetes-debug",
		"résumé of the commit":               "git-commit",
		"```go\nfunc TestX(t *T)\n``` fails": "golang-testing",
	} {
		hits := Search([]*Index{x}, query, 3, nil)
		if len(hits) == 0 || texts[hits[0].Doc][0] != want {
			t.Errorf("%q: %v, want %s first", query, hits, want)
		}
	}
	for _, query := range []string{"", "the of and", "\x00\x01\x02\x7f", "\xff\xfe", "zzzzqqqq",
		strings.Repeat("-", 100)} {
		if hits := Search([]*Index{x}, query, 3, nil); len(hits) > 0 {
			t.Errorf("%q: %v, want nothing", query, hits)
		}
	}
	only := func(_, doc int) bool { return doc != 0 }
	for _, h := range Search([]*Index{x}, "pdf repository", 10, only) {
		if h.Doc == 0 {
			t.Error("a filtered document was found")
		}
		if h.Share <= 0 || h.Share > 1 {
			t.Errorf("share %v", h.Share)
		}
	}
	if hits := Search([]*Index{x}, "the repository", 1, nil); len(hits) != 1 {
		t.Errorf("%v, want one hit", hits)
	}
}

// Two indexes rank like one.
func TestSearchSeveral(t *testing.T) {
	one := Search([]*Index{indexOf(t, texts)}, "repository tests of PDF files", 10, nil)
	two := Search([]*Index{indexOf(t, texts[:2]), indexOf(t, texts[2:])}, "repository tests of PDF files", 10, nil)
	if len(one) == 0 || len(one) != len(two) {
		t.Fatalf("%v and %v", one, two)
	}
	for i, h := range two {
		if h.Doc+2*h.Index != one[i].Doc || h.Score != one[i].Score {
			t.Errorf("%d: %v and %v", i, one[i], h)
		}
	}
}

// The same documents yield the same bytes, and a decoded index equals the built one.
func TestEncode(t *testing.T) {
	build := func() []byte {
		b := NewBuilder()
		for i, d := range texts {
			b.Text(Body, []byte(strings.Join(d[:], " ")))
			b.End(uint64(i) << 40)
		}
		return encoded(t, b)
	}
	data := build()
	if !bytes.Equal(data, build()) {
		t.Error("two builds differ")
	}
	x, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil || x.Docs() != len(texts) || x.Key(3) != 3<<40 {
		t.Fatalf("%v %v", x, err)
	}
}

// An index that was merged is the same as one that was built of its documents.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	encode := func(docs []int) []byte {
		b := NewBuilder()
		for _, doc := range docs {
			for f := range fields {
				b.Text(f, fmt.Appendf(nil, "word%d other%d doc%d %s", doc%7, doc%11, doc, texts[doc%len(texts)][2]))
			}
			b.End(uint64(doc))
		}
		return encoded(t, b)
	}
	load := func(data []byte) *Index {
		x, err := Load(data)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for range 10 {
		var old, added, all []int
		for doc := range 300 {
			switch r.IntN(3) {
			case 0:
				old = append(old, doc)
			case 1:
				added = append(added, doc)
			}
		}
		keep := map[int]bool{}
		for i, doc := range old {
			if r.IntN(3) > 0 {
				keep[i] = true
				all = append(all, doc)
			}
		}
		got := merged(t, load(encode(old)), load(encode(added)), func(doc int) bool { return keep[doc] })
		if want := encode(append(all, added...)); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, want %d", len(got), len(want))
		}
	}
	// Merging allocates little beside the result.
	x := load(encode([]int{1, 2, 3}))
	few := testing.AllocsPerRun(5, func() { merged(t, x, x, func(int) bool { return true }) })
	var many []int
	for doc := range 2000 {
		many = append(many, doc)
	}
	y := load(encode(many))
	if n := testing.AllocsPerRun(5, func() { merged(t, y, x, func(int) bool { return true }) }); n > few+100 {
		t.Errorf("%v allocations for 2,000 documents, %v for 3", n, few)
	}
	none := func(int) bool { return false }
	if got := merged(t, load(encode(nil)), load(encode(nil)), none); !bytes.Equal(got, encode(nil)) {
		t.Error("of nothing:", len(got))
	}
}

// No damage of a file causes a panic; damage of its head is detected.
func TestDamage(t *testing.T) {
	b := NewBuilder()
	for i, d := range texts {
		b.Text(Body, []byte(d[0]+" "+d[1]+" "+d[2]))
		b.End(uint64(i))
	}
	good := encoded(t, b)
	for n := range good {
		if _, err := Open(bytes.NewReader(good[:n]), int64(n)); err == nil {
			t.Fatalf("an index cut to %d of %d bytes was opened", n, len(good))
		}
	}
	head := len(good) // the first byte whose damage is not detected
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x55
		if _, err := Load(bad); err == nil {
			t.Fatalf("damage at byte %d was not seen", i)
		}
		x, err := Open(bytes.NewReader(bad), int64(len(bad)))
		if err != nil {
			continue
		}
		head = min(head, i)
		for _, d := range texts {
			Search([]*Index{x}, d[1], 5, nil)
		}
	}
	if head < headSize+len(texts)*9 {
		t.Errorf("damage at byte %d was not detected", head)
	}
	if _, err := Open(bytes.NewReader(nil), 0); err == nil {
		t.Error("an empty file was opened")
	}
}

// A query of any size costs no more than one of 8 KiB.
func TestLongQuery(t *testing.T) {
	x := indexOf(t, texts)
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "word%d ", i)
	}
	long := "merge pdf " + b.String()
	if n := len(queryTerms(long)); n > maxTerms {
		t.Errorf("%d terms", n)
	}
	if hits := Search([]*Index{x}, long, 3, nil); len(hits) == 0 || hits[0].Doc != 0 {
		t.Errorf("%v", hits)
	}
	queryTerms(strings.Repeat("界", maxQuery)) // cut between characters
	// Control characters separate words, and invalid UTF-8 does no harm.
	for _, query := range []string{"\x00merge\x1b[31m\x07pdf\x9b", "\xff\xfemerge\u202e pdf\xf0\x9f"} {
		if hits := Search([]*Index{x}, query, 3, nil); len(hits) == 0 || hits[0].Doc != 0 {
			t.Errorf("%q: %v", query, hits)
		}
	}
	Search([]*Index{x}, strings.Repeat("\x01", 1<<20), 3, nil)
}

// The allocations of a search do not depend on the number of matches.
func TestSearchAllocates(t *testing.T) {
	var docs [][3]string
	for i := range 2000 {
		docs = append(docs, texts[i%len(texts)])
	}
	small, large := indexOf(t, texts), indexOf(t, docs)
	count := func(x *Index) float64 {
		return testing.AllocsPerRun(20, func() { Search([]*Index{x}, "merge two pdf documents", 5, nil) })
	}
	if a, b := count(small), count(large); b > a+8 {
		t.Errorf("%v allocations over %d documents, %v over %d", a, len(texts), b, len(docs))
	}
}

func TestTerms(t *testing.T) {
	for word, want := range map[string]string{
		"getUserName":                 "user name getusernam",
		"XMLParser":                   "xml parser xmlparser",
		"iPhone":                      "iphon",
		"python3":                     "python3 python",
		"GPT4":                        "gpt4 gpt",
		"the":                         "",
		"Überprüfung":                 "uberprufung",
		"1234567890":                  "",
		"C":                           "c",
		strings.Repeat("a", maxRun+1): "",
	} {
		var got []string
		terms(word, func(s string) { got = append(got, s) })
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%q: %q, want %q", word, g, want)
		}
	}
	var runs []string
	text := []byte("C++ and C#, don't café 東京タワー x.y ต้นไม้")
	for at := 0; ; {
		r, ok := nextRun(text, at)
		if !ok {
			break
		}
		runs = append(runs, string(text[r.start:r.end]))
		at = r.end
	}
	if got, want := strings.Join(runs, "|"), "C++|and|C#|don|t|café|東京タワー|x|y|ต้นไม้"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A splitter finds the same runs as nextRun, wherever they lie. Found by fuzzing: the index and queries differed in
// words such as "c###".
func TestSplit(t *testing.T) {
	pieces := []string{"word", "a", "C++", "C#x", "F##", "c###", "ab++c", "é", "naïve", "東京タワー", "—", "… ", " ", "\n",
		"\x00", "\xff", "\x80\x80", "0123456789abcdef", "x_y-z", "ＡＢ", "한국어", "~{|}@[`/:", strings.Repeat("long", 30),
		strings.Repeat(" ", 70)}
	r := rand.New(rand.NewPCG(1, 2))
	b := NewBuilder()
	for range 3000 {
		var text []byte
		for range r.IntN(30) {
			text = append(text, pieces[r.IntN(len(pieces))]...)
		}
		text = append(bytes.Repeat([]byte{" x\xe4"[r.IntN(3)]}, r.IntN(2)*(splitAtOnce-r.IntN(100))), text...)
		checkSplit(t, &b.split, text)
	}
}

// The cases without tables agree with the tables.
func TestWordRune(t *testing.T) {
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if wordRune(r) != wordTables(r) {
			t.Fatalf("%U", r)
		}
	}
}

func checkSplit(t *testing.T, s *splitter, text []byte) {
	t.Helper()
	var want []run
	for at := 0; ; {
		r, ok := nextRun(text, at)
		if !ok {
			break
		}
		at = r.end
		if !r.pairs {
			want = append(want, r)
			continue
		}
		start := r.start
		pairsOf(text[r.start:r.end], func(pair []byte) {
			want = append(want, run{start, start + len(pair), true})
			_, n := utf8.DecodeRune(pair)
			start += n
		})
	}
	for tokens := range s.tokens(text) {
		for _, got := range tokens {
			if len(want) == 0 || (run{int(got.start), int(got.end), got.pair}) != want[0] {
				t.Fatalf("%q: %v, want %v", text, got, want)
			}
			want = want[1:]
			if h, _ := hashRun(text[got.start:got.end], int(got.end-got.start)); got.hash != h {
				t.Fatalf("%q: the hash of %v depends on what follows", text, got)
			}
		}
	}
	if len(want) > 0 {
		t.Fatalf("%q: %v is missing", text, want)
	}
}

func TestStem(t *testing.T) {
	for word, want := range map[string]string{ // examples of Porter's paper
		"caresses": "caress", "ponies": "poni", "cats": "cat", "feed": "feed", "agreed": "agre", "plastered": "plaster",
		"motoring": "motor", "conflated": "conflat", "sized": "size", "hopping": "hop", "falling": "fall", "hissing": "hiss",
		"failing": "fail", "filing": "file", "happy": "happi", "sky": "sky", "relational": "relat", "conditional": "condit",
		"digitizer": "digit", "operator": "oper", "hopefulness": "hope", "formaliti": "formal", "triplicate": "triplic",
		"electrical": "electr", "goodness": "good", "revival": "reviv", "allowance": "allow", "adjustment": "adjust",
		"adoption": "adopt", "effective": "effect", "probate": "probat", "rate": "rate", "cease": "ceas",
		"controll": "control", "roll": "roll",
	} {
		if got := stem(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	b := NewBuilder()
	for i, d := range texts {
		b.Text(Body, []byte(d[1]))
		b.End(uint64(i))
	}
	f.Add(encoded(f, b), "merge pdf files")
	f.Add([]byte(magic), "")
	f.Fuzz(func(t *testing.T, data []byte, query string) {
		if len(data) >= headSize { // past the checksum
			if head := int(uint32(data[8]) | uint32(data[9])<<8); head >= headSize && head <= len(data) {
				sum := checksum(data[:head])
				data[28], data[29], data[30], data[31] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
			}
		}
		if x, err := Open(bytes.NewReader(data), int64(len(data))); err == nil {
			Search([]*Index{x}, query, 5, nil)
			data := merged(t, x, indexOf(t, texts), func(doc int) bool { return doc%2 == 0 })
			if _, err := Load(data); err != nil {
				t.Fatal(err)
			}
		}
		queryTerms(query)
		b := NewBuilder()
		checkSplit(t, &b.split, []byte(query))
		b.Text(Summary, []byte(query))
		b.End(1)
		encoded(t, b)
	})
}
