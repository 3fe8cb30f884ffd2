package knack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A run that ends while skills are indexed leaves the index of those that it has read, and the next one reads the rest.
func TestFinderContinues(t *testing.T) {
	const n = firstSave + 200
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads, stopAt := 0, firstSave+70
	var skills []*Skill
	for i := range n {
		skills = append(skills, &Skill{
			ID: fmt.Sprint(i), Name: fmt.Sprint("s", i), Origin: Origin{Kind: User, Trust: Trusted},
			Read: func(context.Context) ([]byte, error) {
				if reads++; reads == stopAt {
					cancel()
				}
				return fmt.Appendf(nil, "---\ndescription: d\n---\nmatter%d", i), nil
			},
		})
	}
	dir := t.TempDir()
	first := Finder{Dir: dir}
	if err := first.loadGroup(ctx, allGroups, skills, true); err == nil || reads < stopAt || reads == n {
		t.Fatalf("%v after %d skills", err, reads)
	}
	reads, stopAt = 0, 0
	second := Finder{Dir: dir, complete: true}
	if err := second.loadGroup(t.Context(), allGroups, skills, false); err != nil || second.complete {
		t.Fatalf("%v: half an index is complete", err)
	}
	second = Finder{Dir: dir}
	if err := second.loadGroup(t.Context(), allGroups, skills, true); err != nil || reads != n-firstSave {
		t.Fatalf("%v, read %d skills, want %d", err, reads, n-firstSave)
	}
	// The result is the same as that of a run that was not interrupted.
	whole := Finder{Dir: t.TempDir()}
	if err := whole.loadGroup(t.Context(), allGroups, skills, true); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(filepath.Join(dir, "skills.index"))
	b, _ := os.ReadFile(filepath.Join(whole.Dir, "skills.index"))
	if len(a) == 0 || string(a) != string(b) {
		t.Errorf("%d and %d bytes that differ", len(a), len(b))
	}
}

// A series of runs that all end early has a complete index in the end.
func TestFinderShortRuns(t *testing.T) {
	const n, each = firstSave - 100, 150
	reads, stop := 0, func() {}
	var skills []*Skill
	for i := range n {
		skills = append(skills, &Skill{
			ID: fmt.Sprint(i), Name: fmt.Sprint("s", i), Origin: Origin{Kind: User, Trust: Trusted},
			Read: func(context.Context) ([]byte, error) {
				if reads++; reads%each == 0 {
					stop()
				}
				return fmt.Appendf(nil, "---\ndescription: d\n---\nmatter%d", i), nil
			},
		})
	}
	dir := t.TempDir()
	for run := 1; ; run++ {
		ctx, cancel := context.WithCancel(t.Context())
		stop = cancel
		f := Finder{Dir: dir}
		err := f.loadGroup(ctx, allGroups, skills, true)
		cancel()
		if err == nil {
			break
		}
		if run > n/each {
			t.Fatalf("run %d: %v after %d reads of %d skills", run, err, reads, n)
		}
	}
	if reads != n {
		t.Errorf("%d reads of %d skills", reads, n)
	}
}
