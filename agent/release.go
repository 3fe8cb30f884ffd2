package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
)

// A ReleasePolicy is a policy for how long the text of a skill stays in the
// conversation. What the user typed to call it always stays. The zero value
// is Auto. Whatever the policy, the user and the model may release by hand.
type ReleasePolicy struct {
	kind releaseKind
	n    int // of after and answers
}

// A releaseKind is a policy by name. "" is auto.
type releaseKind string

const (
	releaseEager   releaseKind = "eager"
	releaseNever   releaseKind = "never"
	releaseAfter   releaseKind = "after"   // n user turns
	releaseAnswers releaseKind = "answers" // n answers of the model
	releaseSummary releaseKind = "summary"
	releaseManual  releaseKind = "manual"
)

// Why a text was released, in the log and to hooks.
const (
	reasonTurnOver   = "its turn is over"
	reasonSummarised = "summarised"
	reasonFull       = "the window fills up"
	reasonCacheLost  = "the cache was lost anyway"
	reasonCost       = "keeping it would cost more"
)

// Auto releases a text when that saves cost: when what is saved on all requests
// to come is more than the cost of writing the rest of the prompt to the cache
// again. It keeps the text of a skill called in the turn that just ended, unless
// the window fills up.
var Auto = ReleasePolicy{}

// ParseRelease reads auto, eager, never, after:N (user turns; after alone is
// after:3), answers:N (model answers), summary or manual.
func ParseRelease(s string) (ReleasePolicy, error) {
	name, count, numbered := strings.Cut(s, ":")
	kind := releaseKind(name)
	switch {
	case numbered && (kind == releaseAfter || kind == releaseAnswers):
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			what := "user turns"
			if kind == releaseAnswers {
				what = "answers"
			}
			return Auto, fmt.Errorf("skills.release: %q: %s: needs a number of %s, 1 or more", s, name, what)
		}
		return ReleasePolicy{kind, n}, nil
	case numbered:
	case kind == releaseAfter:
		return ReleasePolicy{kind, 3}, nil
	case s == "auto" || s == "":
		return Auto, nil
	case slices.Contains([]releaseKind{releaseEager, releaseNever, releaseSummary, releaseManual}, kind):
		return ReleasePolicy{kind: kind}, nil
	}
	return Auto, fmt.Errorf("skills.release: %q: must be one of auto, eager, never, after:N, answers:N, summary, manual",
		s)
}

func (p ReleasePolicy) String() string {
	switch {
	case p.kind == "":
		return "auto"
	case p.n > 0:
		return fmt.Sprintf("%s:%d", p.kind, p.n)
	}
	return string(p.kind)
}

// of is the policy for one text: an author's scope is used where the user has
// no policy.
func (p ReleasePolicy) of(t session.Text) ReleasePolicy {
	if p != Auto {
		return p
	}
	switch n, err := strconv.Atoi(t.Scope); {
	case t.Scope == "turn":
		return ReleasePolicy{kind: releaseEager}
	case t.Scope == "session":
		return ReleasePolicy{kind: releaseNever}
	case err == nil && n > 0:
		return ReleasePolicy{releaseAfter, n}
	}
	return Auto
}

// cacheLife is how long a provider's prompt cache lives without use.
const cacheLife = 5 * time.Minute

// full is the share of the window above which texts are released in any case.
const full = 0.6

// outlook is how many requests are expected for each one since a skill was last
// called, unless the window ends the session before. Measured on the grid of
// TestAutoPays: less keeps texts too long in long sessions, more releases them
// too early in short ones.
const outlook = 2

// expire releases, at the end of a user turn, the texts whose policy names a
// time. A skill that waits for the user's answer keeps its text.
func (r *run) expire(ctx context.Context) error {
	state := r.log.State()
	for _, t := range state.Texts {
		if t.Asking {
			continue
		}
		var err error
		switch p := r.Agent.Release.of(t); {
		case p.kind == releaseEager:
			err = r.release(ctx, t, reasonTurnOver, "")
		case p.kind == releaseAfter && state.Turns-t.Turn+1 >= p.n:
			err = r.release(ctx, t, "after "+plain.Count(p.n, "turn"), "")
		case p.kind == releaseAnswers && state.Requests-t.Request >= p.n:
			err = r.release(ctx, t, "after "+plain.Count(p.n, "answer"), "")
		case p.kind == releaseSummary:
			err = r.summarise(ctx, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outdated releases, between two requests of a turn, the texts that answers:N
// no longer keeps, if that saves cost.
func (r *run) outdated(ctx context.Context) error {
	state := r.log.State()
	var texts []session.Text
	for _, t := range state.Texts {
		if p := r.Agent.Release.of(t); p.kind == releaseAnswers && state.Requests-t.Request >= p.n && !t.Asking {
			texts = append(texts, t)
		}
	}
	return r.saving(ctx, state, texts)
}

// sweep releases the texts under Auto whose release saves cost. It runs at the
// start of a user turn: nothing is sent between a turn's end and the next
// one's start, and by then it is known whether the cache is still there.
func (r *run) sweep(ctx context.Context) error {
	state := r.log.State()
	var texts []session.Text
	for _, t := range state.Texts {
		if r.Agent.Release.of(t) == Auto && !t.Asking && t.Turn < state.Turns {
			texts = append(texts, t)
		}
	}
	if err := r.saving(ctx, state, texts); err != nil {
		return err
	}
	// The others only go if the window fills up without that.
	state = r.log.State()
	if used, _ := r.log.Size(r.overhead(state)); !r.crowded(used) {
		return nil
	}
	for _, t := range state.Texts {
		if r.Agent.Release.of(t) == Auto {
			if err := r.release(ctx, t, reasonFull, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// crowded reports whether so many tokens are much of the window.
func (r *run) crowded(used int) bool {
	window := r.Model.Info().Window
	return window > 0 && float64(used) > full*float64(window)
}

// saving releases those of the texts whose release saves cost.
func (r *run) saving(ctx context.Context, state session.State, texts []session.Text) error {
	chosen, why := r.pays(state, texts)
	for _, t := range chosen {
		if err := r.release(ctx, t, why, ""); err != nil {
			return err
		}
	}
	return nil
}

// pays chooses the texts whose release costs less than keeping them.
//
// Releasing the texts from the i-th on saves their tokens T at the price of a
// cache read on each of the N requests to come, and costs once the difference
// between writing and reading the S tokens behind the first of them that stay.
// With read 0.1 and write 1.25 that breaks even at N = 1.15·S / (0.1·T).
func (r *run) pays(state session.State, texts []session.Text) ([]session.Text, string) {
	info := r.Model.Info()
	used, _ := r.log.Size(r.overhead(state))
	switch {
	case len(texts) == 0:
		return nil, ""
	case r.cold(state):
		return texts, reasonCacheLost
	case r.crowded(used):
		return texts, reasonFull
	}
	read, write := 0.1, 1.25 // what most caches cost
	if p := info.Price; p.Input > 0 {
		read, write = p.CacheRead/p.Input, p.CacheWrite/p.Input
		if p.CacheRead == 0 {
			read = 1
		}
		write = max(write, 1)
	}
	room := r.ahead(state, info, used)
	best, from := 0.0, len(texts)
	total, since := 0, 0
	for i := len(texts) - 1; i >= 0; i-- {
		total += texts[i].Tokens
		since = max(since, state.Requests-texts[i].Request)
		n := min(room, float64(outlook*since))
		behind := max(0, r.log.Behind(texts[i].Entry)-(total-texts[i].Tokens))
		if net := read*float64(total)*n - (write-read)*float64(behind); net > best {
			best, from = net, i
		}
	}
	return texts[from:], reasonCost
}

// cold reports whether the provider's cache of this conversation is gone.
func (r *run) cold(state session.State) bool {
	model, _ := r.effectiveModel(state)
	return r.log.Resumed() || state.LastModel != model.Info().ID || time.Since(state.LastTime) > cacheLife
}

// ahead is how many requests still fit into the window, at the rate at
// which this session grows, until the window counts as full.
func (r *run) ahead(state session.State, info llm.Info, used int) float64 {
	window := cmp.Or(info.Window, unknownWindow)
	growth := max(1, used/max(1, state.Requests-state.Compacted))
	return max(0, full*float64(window)-float64(used)) / float64(growth)
}

func (r *run) release(ctx context.Context, t session.Text, why, summary string) error {
	_, err := r.record(session.Entry{Type: session.TypeRelease, Release: &session.Release{
		Entry: t.Entry, Skill: t.Skill, Tokens: t.Tokens, Reason: why, Summary: summary, UserOnly: t.UserOnly,
	}})
	if err != nil {
		return err
	}
	return r.released(ctx, t.Skill, why)
}

const summaryRequest = "The text below is a skill: instructions that were followed in an earlier part of a " +
	"conversation. Write one paragraph of at most 100 words with what still matters for later turns: rules, " +
	"formats, decisions, paths. Write nothing else.\n\n"

// summarise replaces a text by a paragraph from the fast model. If that fails,
// the text is released without one: the user asked for the space.
func (r *run) summarise(ctx context.Context, t session.Text) error {
	summary := ""
	if r.Resolve != nil {
		if m, err := r.Resolve("fast"); err == nil {
			req := &llm.Request{MaxTokens: 300, Messages: []llm.Message{{
				Role: llm.User, Parts: []llm.Part{llm.Text(summaryRequest + r.log.Prompt(t.Entry))},
			}}}
			done := r.debugRequest(m, req)
			answer, err := llm.Ask(ctx, m, req)
			if done(answer, err); err == nil {
				summary = strings.TrimSpace(llm.TextOf(answer.Message.Parts))
				r.spend(0, answer.Usage, m.Info().Price.Cost(answer.Usage))
			}
		}
	}
	return r.release(ctx, t, reasonSummarised, summary)
}

// ReleaseByHand takes the text of a skill, or of all with the name "all", out
// of a conversation that does not run. It returns what it released.
func ReleaseByHand(log *session.Log, name, why string) ([]session.Release, error) {
	var done []session.Release
	state := log.State()
	for _, t := range state.Texts {
		if name != "all" && t.Skill != name {
			continue
		}
		rel := session.Release{Entry: t.Entry, Skill: t.Skill, Tokens: t.Tokens, Reason: why, UserOnly: t.UserOnly}
		if _, err := log.Append(session.Entry{Type: session.TypeRelease, Release: &rel}); err != nil {
			return done, err
		}
		done = append(done, rel)
	}
	return done, nil
}
