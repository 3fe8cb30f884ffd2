package knack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// A run that ends while skills are indexed leaves the index that it stored last, and the next one reads the rest.
func TestFinderContinues(t *testing.T) {
	const saved = 4 * firstSave
	const n = saved + 200
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads, stopAt := 0, saved+70
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
	if err := second.loadGroup(t.Context(), allGroups, skills, true); err != nil || reads != n-saved {
		t.Fatalf("%v, read %d skills, want %d", err, reads, n-saved)
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
	const n, each = 900, firstSave + 10
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
	for runs, err := 0, error(context.Canceled); err != nil; runs++ {
		if runs > n/firstSave { // each stores firstSave more
			t.Fatalf("%d runs: %v", runs, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stop, reads = cancel, 0
		f := Finder{Dir: dir}
		err = f.loadGroup(ctx, allGroups, skills, true)
		cancel()
	}
}

// Whenever indexing is canceled, it leaves the index that was stored before or a whole one, and no temporary file.
func TestFinderCanceled(t *testing.T) {
	var skills []*Skill
	for i := range firstSave + 30 {
		skills = append(skills, &Skill{
			ID: fmt.Sprint(i), Name: fmt.Sprint("s", i), Origin: Origin{Kind: User, Trust: Trusted},
			Read: func(context.Context) ([]byte, error) { return fmt.Appendf(nil, "matter%d", i), nil },
		})
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "skills.index")
	docs := map[int]bool{}
	for checks := 0; ; checks++ {
		_ = os.Remove(file)
		f := Finder{Dir: dir}
		err := f.loadGroup(&canceledAfter{t.Context(), checks}, allGroups, skills, true)
		if entries, _ := filepath.Glob(filepath.Join(dir, ".*")); len(entries) > 0 {
			t.Fatalf("after %d checks: %v", checks, entries)
		}
		n := 0
		if x := openIndex(file); x != nil {
			n = x.Docs()
		}
		docs[n] = true
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || n == len(skills) || len(f.segments) > 0 {
			t.Fatalf("after %d checks: %v, %d skills are stored, %d segments", checks, err, n, len(f.segments))
		}
	}
	if want := map[int]bool{0: true, firstSave: true, len(skills): true}; !maps.Equal(docs, want) {
		t.Errorf("%v, want %v", docs, want)
	}
}

// canceledAfter is a context that is canceled once it was checked some times.
type canceledAfter struct {
	context.Context
	checks int
}

func (c *canceledAfter) Err() error {
	if c.checks--; c.checks < 0 {
		return context.Canceled
	}
	return nil
}
