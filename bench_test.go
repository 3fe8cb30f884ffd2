package knack

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkLoad reads many skills; bench/load compares it with a lower bound.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 1000} {
		dir := b.TempDir()
		for i := range n {
			name := fmt.Sprintf("skill-%05d", i)
			age(b, writeSkill(b, dir, name, strings.Repeat("Says what it does and when to use it. ",
				8)+"\nlicense: MIT\nallowed-tools: Read, Bash(git status:*)"))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c := Load(context.Background(), Dir(filepath.Clean(dir),
					Origin{Kind: User, Trust: Trusted})); len(c.Skills()) != n {
					b.Fatal(len(c.Skills()))
				}
			}
		})
	}
}

func BenchmarkListing(b *testing.B) {
	var skills []*Skill
	for i := range 1000 {
		skills = append(skills, &Skill{Name: fmt.Sprint(i), ID: fmt.Sprint(i),
			Description: strings.Repeat("Says what it does. ", 20), Origin: Origin{Kind: User, Trust: Trusted}})
	}
	c := Load(context.Background(), list(skills))
	b.ReportAllocs()
	for b.Loop() {
		c.Listing(View{For: ByModel, Window: 200_000})
	}
}

func BenchmarkParse(b *testing.B) {
	head := []byte("---\nname: pdf\ndescription: " + strings.Repeat("Says what it does and when to use it. ", 8) +
		"\nlicense: MIT\nallowed-tools: Read, Bash(git status:*)\n---\n\n" + strings.Repeat("A line of text.\n", 200))
	b.ReportAllocs()
	for b.Loop() {
		new(headReader).parse("pdf/SKILL.md", head, int64(len(head)), Origin{Kind: User})
	}
}
