package knack

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// masks remove the quotations of a skill from a message.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`"(\\.|[^"\\])*"`), `"…"`},
	{regexp.MustCompile(`^.*(: an extension|: extensions) of`), `…$1 of`},
	{regexp.MustCompile(`^\S+ (is not|is run|is a path)`), `… $1`},
	{regexp.MustCompile(`(linked files? exists?|is there|the skill is called|which is not allowed|contains ` +
		`only|contains)( |: ).+$`), `$1$2…`},
	{regexp.MustCompile(`read as \S+$`), `read as …`},
	{regexp.MustCompile(`allowed-tools: \S+ grants`), `allowed-tools: … grants`},
}

func masked(message string) string {
	for _, m := range masks {
		message = m.what.ReplaceAllString(message, m.with)
	}
	return message
}

// TestFalseAlarms: of 150 messages that Check prints on a sample of 1,514 public skills, drawn at random, at most 5%
// are false alarms. The table contains the location of each message, the message without quotations, and the verdict
// of somebody who looked at the skill. With $KNACK_SKILL_SAMPLE the sample is drawn again: the table must match what
// Check prints now.
func TestFalseAlarms(t *testing.T) {
	const rows = 150
	data, err := os.ReadFile("testdata/check/judged.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var table []string
	wrong := 0
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		cells := strings.Split(line, "\t")
		if i == 0 {
			continue // the heading
		}
		if len(cells) != 7 || cells[5] != "right" && cells[5] != "wrong" || len(cells[6]) < 10 {
			t.Fatalf("row %d: %q", i, line)
		}
		if cells[5] == "wrong" {
			wrong++
		}
		table = append(table, strings.Join(cells[:5], "\t"))
	}
	if len(table) != rows || wrong*100 > 5*rows {
		t.Errorf("%d of %d messages are false alarms", wrong, len(table))
	}

	root := os.Getenv("KNACK_SKILL_SAMPLE")
	if root == "" {
		t.Skip("KNACK_SKILL_SAMPLE does not name a directory of skills")
	}
	if in := filepath.Join(root, "skills-sample"); isDir(in) {
		root = in
	}
	dirs, err := FindSkills(root)
	if err != nil {
		t.Fatal(err)
	}
	type message struct{ rank, row string }
	var all []message
	for _, dir := range dirs {
		_, problems := Check(t.Context(), dir)
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, p := range problems {
			key := fmt.Sprintf("%s\t%d\t%s\t%s", filepath.ToSlash(rel), p.Line, p.Severity, p.Code)
			sum := sha256.Sum256(fmt.Appendf(nil, "%s\t%d", key, seen[key]))
			seen[key]++
			all = append(all, message{hex.EncodeToString(sum[:]), key + "\t" + masked(p.Message)})
		}
	}
	slices.SortFunc(all, func(a, b message) int { return cmp.Compare(a.rank, b.rank) })
	t.Logf("%d messages on %d skills", len(all), len(dirs))
	for i, m := range all[:rows] {
		if *updateGolden {
			fmt.Println(m.row)
		} else if m.row != table[i] {
			t.Errorf("row %d: drawn %q, the table has %q", i+1, m.row, table[i])
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
