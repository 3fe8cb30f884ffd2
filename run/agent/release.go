package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A ReleasePolicy decides how long the text of a skill stays in the conversation. What the user typed
// to call the skill always stays. The zero value is Auto. With any policy, the user and the model may
// also release a text explicitly.
type ReleasePolicy struct {
	kind releaseKind
	n    int // for after and answers
}

// A releaseKind is the name of a policy; "" is auto.
type releaseKind string

const (
	releaseEager   releaseKind = "eager"
	releaseNever   releaseKind = "never"
	releaseAfter   releaseKind = "after"   // n user turns
	releaseAnswers releaseKind = "answers" // n answers of the model
	releaseSummary releaseKind = "summary"
	releaseManual  releaseKind = "manual"
)

// Reasons for a release, in the log and for hooks.
const (
	reasonTurnOver   = "its turn ended"
	reasonSummarised = "summarised"
	reasonFull       = "the window was nearly full"
	reasonCacheLost  = "the prompt cache had expired"
	reasonCost       = "keeping it would cost more"
)

// Auto releases a text when that reduces cost: when the savings on all expected requests are more
// than the cost of writing the rest of the prompt to the cache again. It keeps the text of a skill
// called in the turn that just ended, unless the window is nearly full.
var Auto = ReleasePolicy{}

// ParseRelease parses a policy: auto, eager, never, after:N (user turns; "after" alone means
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

// forText returns the policy for one text: the user's, or if the user has set none, the skill's own.
func (p ReleasePolicy) forText(t session.Text) ReleasePolicy {
	if p != Auto {
		return p
	}
	switch n, err := strconv.Atoi(t.Retain); {
	case t.Retain == "turn":
		return ReleasePolicy{kind: releaseEager}
	case t.Retain == "session":
		return ReleasePolicy{kind: releaseNever}
	case err == nil && n > 0:
		return ReleasePolicy{releaseAfter, n}
	}
	return Auto
}

// cacheLife is how long providers usually keep an unused prompt cache.
const cacheLife = 5 * time.Minute

// crowdedShare is the share of the window above which texts are released even if that saves no cost.
const crowdedShare = 0.6

// lookahead is how many more requests are expected for each request since a skill was last called,
// as far as the window has space for them. It was chosen with TestAutoRelease: a smaller value keeps texts
// too long in long sessions, and a larger one releases them too early in short ones.
const lookahead = 2

// releases are the steps that remove the texts of skills from the conversation.
type releases struct {
	*turn
	hooks    *runHooks
	overhead func(session.State) int // see run.overhead
}

// ended runs at the end of a user turn and releases the texts whose policy no longer keeps them.
// It keeps the text of a skill that waits for the user's answer.
func (r *releases) ended(ctx context.Context) error {
	state := r.log.State()
	for _, t := range state.Texts {
		if t.Asking {
			continue
		}
		var err error
		switch p := r.Agent.Release.forText(t); {
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

// expired runs between two requests of a turn and releases the texts that the policy answers:N no
// longer keeps, if that reduces cost.
func (r *releases) expired(ctx context.Context) error {
	state := r.log.State()
	var texts []session.Text
	for _, t := range state.Texts {
		if p := r.Agent.Release.forText(t); p.kind == releaseAnswers && state.Requests-t.Request >= p.n && !t.Asking {
			texts = append(texts, t)
		}
	}
	return r.ifCheaper(ctx, state, texts)
}

// auto runs at the start of a user turn and releases those texts with the policy Auto whose release
// reduces cost. It does not run when a turn ends, because only when the next one starts is it known
// whether the cache has expired.
func (r *releases) auto(ctx context.Context) error {
	state := r.log.State()
	var texts []session.Text
	for _, t := range state.Texts {
		if r.Agent.Release.forText(t) == Auto && !t.Asking && t.Turn < state.Turns {
			texts = append(texts, t)
		}
	}
	if err := r.ifCheaper(ctx, state, texts); err != nil {
		return err
	}
	// The other texts are released only if the window is still nearly full.
	state = r.log.State()
	if used, _ := r.log.Size(r.overhead(state)); !r.nearlyFull(used) {
		return nil
	}
	for _, t := range state.Texts {
		if r.Agent.Release.forText(t) == Auto {
			if err := r.release(ctx, t, reasonFull, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// nearlyFull reports whether the used tokens are more than crowdedShare of the window.
func (r *releases) nearlyFull(used int) bool {
	window := r.Model.Info().Window
	return window > 0 && float64(used) > crowdedShare*float64(window)
}

// ifCheaper releases those of the texts whose release reduces cost.
func (r *releases) ifCheaper(ctx context.Context, state session.State, texts []session.Text) error {
	chosen, why := r.worth(state, texts)
	for _, t := range chosen {
		if err := r.release(ctx, t, why, ""); err != nil {
			return err
		}
	}
	return nil
}

// worth chooses the texts whose release costs less than keeping them: all texts from some index
// on, because releasing one makes the prompt after it differ from the cached one. It also returns the reason.
//
// Releasing the texts from index i on saves, on each of the N expected requests, the price of
// reading their T tokens from the cache. It costs, once, the difference between writing and reading
// the S tokens that follow the first released text and stay. With a read price of 0.1 and a write
// price of 1.25, this breaks even at N = 1.15·S / (0.1·T).
func (r *releases) worth(state session.State, texts []session.Text) ([]session.Text, string) {
	if len(texts) == 0 {
		return nil, ""
	}
	info := r.Model.Info()
	used, _ := r.log.Size(r.overhead(state))
	switch {
	case r.cacheLost(state):
		return texts, reasonCacheLost
	case r.nearlyFull(used):
		return texts, reasonFull
	}
	read, write := 0.1, 1.25 // typical prices relative to input
	if p := info.Price; p.Input > 0 {
		read, write = p.CacheRead/p.Input, p.CacheWrite/p.Input
		if p.CacheRead == 0 {
			read = 1
		}
		write = max(write, 1)
	}
	requestsLeft := r.requestsLeft(state, info, used)
	best, from := 0.0, len(texts)
	total, since := 0, 0
	for i := len(texts) - 1; i >= 0; i-- {
		total += texts[i].Tokens
		since = max(since, state.Requests-texts[i].Request)
		expected := min(requestsLeft, float64(lookahead*since))
		rewritten := max(0, r.log.Behind(texts[i].Entry)-(total-texts[i].Tokens))
		if saved := read*float64(total)*expected - (write-read)*float64(rewritten); saved > best {
			best, from = saved, i
		}
	}
	return texts[from:], reasonCost
}

// cacheLost reports whether the provider no longer has this conversation in its prompt cache. A session that is resumed
// sends the same bytes as before, so that only the time since its last answer counts.
func (r *releases) cacheLost(state session.State) bool {
	model, _ := r.effectiveModel(state)
	return state.LastModel != model.Info().ID || time.Since(state.LastTime) > cacheLife
}

// requestsLeft estimates how many more requests fit into the window before it is nearly full, given how
// fast this session has grown so far.
func (r *releases) requestsLeft(state session.State, info llm.Info, used int) float64 {
	window := cmp.Or(info.Window, unknownWindow)
	growth := max(1, used/max(1, state.Requests-state.Compacted))
	return max(0, crowdedShare*float64(window)-float64(used)) / float64(growth)
}

func (r *releases) release(ctx context.Context, t session.Text, why, summary string) error {
	r.debug("skill", "released", "skill", t.Skill, "tokens", t.Tokens, "why", why)
	_, err := r.record(session.Entry{Type: session.TypeRelease, Release: &session.Release{
		Entry: t.Entry, Skill: t.Skill, Tokens: t.Tokens, Reason: why, Summary: summary, UserOnly: t.UserOnly,
	}})
	if err != nil {
		return err
	}
	return r.hooks.released(ctx, t.Skill, why)
}

const summaryRequest = "The text below is a skill: instructions that were followed in an earlier part of a " +
	"conversation. Write one paragraph of at most 100 words with what still matters for later turns: rules, " +
	"formats, decisions, paths. Write nothing else.\n\n"

// summarise replaces a text with a paragraph written by the fast model. If that fails, the text is
// released without a summary, because the user chose a policy that does not keep it.
func (r *releases) summarise(ctx context.Context, t session.Text) error {
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
				r.ledger.spend(0, answer.Usage, m.Info().Price.Cost(answer.Usage))
			}
		}
	}
	return r.release(ctx, t, reasonSummarised, summary)
}

// ReleaseByHand removes the text of a skill, or all texts for the name "all", from a conversation in
// which no run is active. It returns what it released.
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
