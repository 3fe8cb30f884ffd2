// Package knacktest checks that a Source keeps its promises, as testing/fstest
// does for file systems.
//
// Most programs start with package engine.
package knacktest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/knack-agent/knack"
)

// TestSource reads a Source, several times and in every way that the package
// knack does, and returns what it does wrong, joined; nil if nothing. It must
// yield at least the skills that are named.
//
// It checks that a yield is a skill or an error, not both or neither; that
// errors have a text; that Problems have a code, a severity and a message; that
// a skill has a name, an ID that no other has, an origin with a kind, and a
// text that can be read; that two readings, and readings at the same time, give
// the same; that a reader may stop; and that a reading whose context has ended
// says so.
func TestSource(src knack.Source, names ...string) error {
	ctx := context.Background()
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	first := read(src, fail)
	ids := map[string]string{}
	found := map[string]bool{}
	for _, s := range first.skills {
		found[s.Name] = true
		switch {
		case s.Name == "":
			fail("a skill without a name: %s", s.ID)
		case s.ID == "":
			fail("%s: no ID", s.Name)
		case s.Origin.Kind == "":
			fail("%s: its origin has no kind", s.Name)
		}
		if other, ok := ids[s.ID]; ok {
			fail("%s and %s have the same ID %s", other, s.Name, s.ID)
		}
		ids[s.ID] = s.Name
		if _, err := s.Body(ctx); err != nil {
			fail("%s: its text cannot be read: %w", s.Name, err)
		}
		if _, err := s.Resources(ctx); err != nil {
			fail("%s: its files cannot be listed: %w", s.Name, err)
		}
	}
	for _, name := range names {
		if !found[name] {
			fail("%s was not found", name)
		}
	}

	again := make([]reading, 4)
	var wg sync.WaitGroup
	for i := range again {
		wg.Go(func() { again[i] = read(src, func(string, ...any) {}) })
	}
	wg.Wait()
	for _, r := range again {
		if !reflect.DeepEqual(r.names(), first.names()) {
			fail("another reading gave %v, the first %v", r.names(), first.names())
			break
		}
		if !reflect.DeepEqual(r.errors, first.errors) {
			fail("another reading gave the problems %q, the first %q", r.errors, first.errors)
			break
		}
	}

	if len(first.skills)+len(first.errors) > 1 {
		for range src.Skills(ctx) {
			break // a Source that goes on panics here
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	reported := len(first.skills) == 0
	for _, err := range src.Skills(ended) {
		reported = reported || errors.Is(err, context.Canceled)
	}
	if !reported {
		fail("a reading whose context has ended does not yield the context's error")
	}
	return errors.Join(errs...)
}

type reading struct {
	skills []*knack.Skill
	errors []string
}

func (r reading) names() (names []string) {
	for _, s := range r.skills {
		names = append(names, s.Name+" "+s.ID)
	}
	return names
}

func read(src knack.Source, fail func(string, ...any)) (r reading) {
	for s, err := range src.Skills(context.Background()) {
		if (s == nil) == (err == nil) {
			fail("a yield must be a skill or an error: %v, %v", s, err)
		}
		if s != nil {
			r.skills = append(r.skills, s)
		}
		if err != nil {
			r.errors = append(r.errors, err.Error())
			if p := (knack.Problem{}); errors.As(err, &p) && (p.Code == "" || p.Message == "" || p.Severity != knack.Info &&
				p.Severity != knack.Warn && p.Severity != knack.Error) {
				fail("a problem lacks its code, severity or message: %+v", p)
			} else if err.Error() == "" {
				fail("an error without a text")
			}
		}
	}
	return r
}
