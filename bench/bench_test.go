package bench

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Launched()
	if len(os.Args) > 1 && os.Args[1] == "say" {
		io.WriteString(os.Stdout, strings.Join(os.Args[2:], " "))
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "fail" {
		io.WriteString(os.Stderr, "it does not work")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func TestStat(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want Stat
		text string
	}{
		{nil, Stat{}, "–"},
		{[]float64{2}, Stat{2, 2, 2, 2, 2, 1}, "2.00 (2.00–2.00)"},
		{[]float64{900, 20, 10, 30, 40}, Stat{30, 20, 40, 10, 900, 5}, "30.0 (20.0–40.0)"},
	} {
		if got := StatOf(c.xs); got != c.want || got.String() != c.text {
			t.Errorf("%v: %+v %s, want %+v %s", c.xs, got, got, c.want, c.text)
		}
	}
}

func TestInTurn(t *testing.T) {
	var order []string
	step := func(name string) func(int) {
		return func(round int) { order = append(order, name+string(rune('1'+round))) }
	}
	InTurn(2, step("a"), step("b"))
	if want := "a0 b0 a1 b1 a2 b2"; strings.Join(order, " ") != want {
		t.Errorf("%v, want %s", order, want)
	}
}

func TestSkillsSeen(t *testing.T) {
	dir := t.TempDir()
	described, err := Skills(dir, 12)
	if err != nil || described < 12*150 {
		t.Fatal(described, err)
	}
	text := ""
	for _, name := range []string{"skill-00000", "skill-00011"} {
		data, err := os.ReadFile(filepath.Join(dir, name, "SKILL.md"))
		if err != nil {
			t.Fatal(err)
		}
		text += string(data)
	}
	names, begun, whole := Seen(text+"skill-00005 AAA00007 says", 12)
	if names != 3 || begun != 3 || whole != 2 {
		t.Errorf("%d names, %d descriptions, %d whole; want 3, 3, 2", names, begun, whole)
	}
}

func TestRun(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u, out, err := Run(t.Context(), t.TempDir(), os.Environ(), self, "say", "a", "b")
	if err != nil || out != "a b" || u.Wall <= 0 || u.Start.IsZero() {
		t.Errorf("%+v %q %v", u, out, err)
	}
	if _, _, err := Run(t.Context(), t.TempDir(), os.Environ(), self, "fail"); err == nil ||
		!strings.Contains(err.Error(), "it does not work") {
		t.Errorf("a failing program: %v", err)
	}
	if _, _, err := Run(t.Context(), t.TempDir(), os.Environ(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a program that is not there: no error")
	}
}

func TestChart(t *testing.T) {
	c := Chart{Title: "Cost & <time>", Unit: "ms", Groups: []string{"0 skills", "9 skills"}, Series: []Series{
		{"knack", []Stat{StatOf([]float64{1, 2, 3}), StatOf([]float64{10})}},
		{"peer", []Stat{{}, StatOf([]float64{20})}},
	}}
	var elements []string
	for d := xml.NewDecoder(strings.NewReader(c.SVG())); ; {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			elements = append(elements, e.Name.Local)
		}
	}
	if n := strings.Count(strings.Join(elements, " "), "path"); n != 3 {
		t.Errorf("%d bars, want 3: %v", n, elements)
	}
}
