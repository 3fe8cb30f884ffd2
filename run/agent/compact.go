package agent

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

//go:embed prompts/compact.md
var compactText string

// The limits of a compaction: shares of the window, and maximum numbers of tokens.
const (
	reserveShare, maxReserve = 0.08, 16_000
	keepShare, maxKeep       = 0.10, 20_000
	skillsShare, maxSkills   = 0.25, 25_000 // of all skill texts together
	maxSkillTokens           = 5_000        // of one skill text
	minSkillTokens           = 200          // a text cut to less than this would be useless
	typedShare, maxTyped     = 0.20, 40_000 // of what the user typed
	unansweredShare          = 0.5          // results that the model has not answered yet are kept up to this share
	minSavingShare           = 0.10         // an automatic compaction that saves less is not worth its cost
	minSummary               = 100          // tokens of the shortest expected summary
	unknownWindow            = 200_000
)

// ErrNothingToCompact means that a summary would not be shorter than the text it replaces. It is
// returned before a model is called.
var ErrNothingToCompact = errors.New(
	"there is nothing to compact: a summary would not be shorter than the conversation")

// Compact replaces the older part of a conversation with a summary and returns what was recorded.
// The conversation must not be running. instructions, which may be empty, state what the summary
// should focus on. The session's own model writes it. On an error, including cancellation of ctx,
// nothing has changed.
func (a *Agent) Compact(ctx context.Context, log *session.Log, instructions string) (*session.Compaction, error) {
	r := newRun(a, log)
	c, err := r.compactions.compact(ctx, session.TriggerManual, instructions)
	if err == nil {
		err = log.Sync()
	}
	return c, err
}

// Leave moves a conversation, which must not be running, to an entry, and records there, in a note with what it cost, a
// summary of what it leaves behind; it returns the note. instructions are as for Compact. On an error before the
// summary is complete nothing has changed.
func (a *Agent) Leave(ctx context.Context, log *session.Log, to int, instructions string) (*session.Note, error) {
	if to > log.Last() {
		return nil, fmt.Errorf("session %s has no entry %d", log.ID(), to)
	}
	r, left := newRun(a, log), after(log, to)
	if !slices.ContainsFunc(left, matters) {
		return nil, ErrNothingToLeave
	}
	model, _ := r.effectiveModel(log.State())
	window := model.Info().Window
	if window == 0 {
		window = unknownWindow
	}
	_, perByte := log.Size(0)
	c := &session.Compaction{Instructions: instructions}
	summary, err := r.compactions.summary(ctx, model, c, left, nil, window, perByte)
	if err != nil {
		return nil, err
	}
	from := left[len(left)-1].ID
	if err := log.Move(to); err != nil {
		return nil, err
	}
	n := &session.Note{People: fmt.Sprintf("summary of the branch that ended at entry %d:\n%s", from, summary),
		Model: fmt.Sprintf("The conversation went on from here in another way, was brought back to this point, and goes on "+
			"from here. Files that it changed may have stayed changed. A summary of what was left:\n\n<summary>\n%s\n</summary>",
			plain.Within("summary", summary)),
		Spent: []llm.Spend{{Model: model.Info().ID, Usage: c.Usage, Cost: c.Cost}}}
	if _, err := r.record(session.Entry{Type: session.TypeNote, Note: n}); err != nil {
		return nil, err
	}
	return n, log.Sync()
}

// ErrNothingToLeave is the error of [Agent.Leave] if nothing of a conversation comes after the entry.
var ErrNothingToLeave = errors.New("nothing comes after this entry: there is nothing to summarise")

// after returns the entries of the present branch that are not on the way to an entry.
func after(log *session.Log, to int) (left []session.Entry) {
	parents := map[int]int{}
	for e := range log.All() {
		parents[e.ID] = e.Parent
	}
	way := map[int]bool{}
	for ; to > 0 && !way[to]; to = parents[to] {
		way[to] = true
	}
	for e := range log.Walk() {
		if !way[e.ID] {
			left = append(left, e)
		}
	}
	return left
}

// Clear empties the context of a conversation, which must not be running. The session keeps its
// entries, settings and touched files.
func Clear(log *session.Log) (*session.Compaction, error) {
	c := &session.Compaction{Trigger: session.TriggerClear}
	for _, t := range log.State().Texts {
		c.Dropped = append(c.Dropped, t.Skill)
	}
	if _, err := log.Append(session.Entry{Type: session.TypeCompaction, Compaction: c}); err != nil {
		return nil, err
	}
	return c, log.Sync()
}

// compactions are the steps that shorten the conversation.
type compactions struct {
	*turn
	hooks    *runHooks
	overhead func(session.State) int // see run.overhead
	cut      func()                  // is called after each compaction
	failed   bool                    // the conversation could not be compacted
}

// ifNearLimit compacts if the next request would come near the size of the window. If that
// fails, the run continues, because the window is not full yet, and does not try again.
func (r *compactions) ifNearLimit(ctx context.Context) error {
	state := r.log.State()
	model, _ := r.effectiveModel(state)
	window := model.Info().Window
	if r.NoCompact || r.failed || window == 0 || state.Requests == state.Compacted {
		return nil // at least one answer must have come since the last compaction
	}
	size, _ := r.log.Size(r.overhead(state))
	if size <= window-r.share(r.Reserve, window, reserveShare, maxReserve) {
		return nil
	}
	_, err := r.compact(ctx, session.TriggerAuto, "")
	switch {
	case err == nil, errors.Is(err, ErrNothingToCompact):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	r.failed = true
	return r.note("", "the window is nearly full, and the conversation could not be compacted: "+err.Error())
}

// share returns how many tokens of a window a limit of a compaction is; set is what the settings say, 0: nothing.
func (r *compactions) share(set, window int, of float64, most int) int {
	if set > 0 {
		return min(set, window/2)
	}
	return min(int(of*float64(window)), most)
}

// overflow compacts after the provider refused a request as too long, unless that was already done.
// It returns an error if the request cannot be made shorter.
func (r *compactions) overflow(ctx context.Context, cause error, compacted bool) error {
	if compacted {
		return fmt.Errorf("compacted, and still too long: %w", cause)
	}
	if _, err := r.compact(ctx, session.TriggerOverflow, ""); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w (%w)", cause, err)
	}
	r.emit(Event{Retry: &Retrying{Attempt: 1, Err: cause}})
	return nil
}

// compact replaces the older part of the conversation with a summary. Nothing is recorded before
// the summary is complete.
func (r *compactions) compact(ctx context.Context, trigger session.Trigger, instructions string) (*session.Compaction,
	error) {
	state := r.log.State()
	model, _ := r.effectiveModel(state)
	overhead := r.overhead(state)
	size, perByte := r.log.Size(overhead)
	window := model.Info().Window
	if trigger == session.TriggerOverflow && (window == 0 || size < window) {
		window = size // whatever its documented size, this much was too much
	}
	if window == 0 {
		window = unknownWindow
	}
	share := func(of float64, maxTokens int) int { return min(int(of*float64(window)), maxTokens) }
	bytes := func(tokens int) int { return int(float64(tokens) / perByte) }
	keep := r.share(r.Keep, window, keepShare, maxKeep)
	unanswered := bytes(int(unansweredShare * float64(window)))
	old, kept, previous := r.log.Cut(bytes(keep), unanswered)
	if trigger != session.TriggerAuto && !slices.ContainsFunc(old, matters) {
		old, kept, previous = r.log.Cut(0, unanswered) // leave out something, even if it is little
	}
	if !slices.ContainsFunc(old, matters) {
		return nil, ErrNothingToCompact
	}
	c := &session.Compaction{Trigger: trigger, Instructions: instructions, Before: size, Model: model.Info().ID}
	if len(kept) > 0 {
		c.Kept = kept[0].ID
	}
	if state.InTurn && (c.Kept == 0 || state.Began < c.Kept) {
		c.Request = cutMiddle(r.requestText(state.Began), bytes(keep))
	}
	c.Typed = typedTexts(previous, old, state.Began, c.Request, bytes(share(typedShare, maxTyped)))
	r.keepSkills(c, state, slices.Concat(old, kept), share(skillsShare, maxSkills))
	smallest := *c
	smallest.Summary = strings.Repeat("x", bytes(minSummary))
	if r.log.Saves(&smallest) <= 0 {
		return nil, ErrNothingToCompact
	}
	if trigger == session.TriggerAuto && size-r.log.SizeAfter(&smallest, overhead) < int(minSavingShare*float64(window)) {
		return nil, ErrNothingToCompact
	}

	in := hook.Input{Event: hook.PreCompact, Trigger: hook.TriggerAuto, Custom: instructions}
	if trigger == session.TriggerManual {
		in.Trigger = hook.TriggerManual
	}
	out, err := r.hooks.fire(ctx, in)
	switch {
	case err != nil:
		return nil, err
	case out.Block:
		return nil, fmt.Errorf("a PreCompact hook refused it: %s", out.Reason)
	}
	summary := out.Summary // in place of one of the model
	if summary == "" {
		if summary, err = r.summary(ctx, model, c, old, previous, window, perByte); err != nil {
			return nil, err
		}
	}
	c.Summary = summary
	if cutResults(old, kept) {
		c.Summary += "\n\n[The results of the last calls were too long to stay: ask for less at a time.]"
	}
	if r.log.Saves(c) <= 0 {
		return nil, errors.New("nothing was changed: the summary is not shorter than what it would replace")
	}
	c.After = r.log.SizeAfter(c, overhead)
	if _, err := r.record(session.Entry{Type: session.TypeCompaction, Compaction: c}); err != nil {
		return nil, err
	}
	r.cut()
	_, err = r.hooks.fire(ctx, hook.Input{Event: hook.PostCompact, Trigger: in.Trigger, Summary: c.Summary})
	if err != nil {
		return nil, err
	}
	return c, r.hooks.restarted(ctx, model.Info().ID)
}

// cutResults reports whether the last answer's results were left out.
func cutResults(old, kept []session.Entry) bool {
	answers := func(e session.Entry) bool { return e.Answer != nil }
	if slices.ContainsFunc(kept, answers) {
		return false
	}
	for _, e := range slices.Backward(old) {
		if answers(e) {
			return len(callsOf(e.Answer.Message)) > 0
		}
	}
	return false
}

// matters reports whether an entry has content for a summary.
func matters(e session.Entry) bool {
	return e.User != nil || e.Activation != nil || e.Agent != nil || e.Answer != nil && len(e.Answer.Message.Parts) > 0
}

// requestText returns what the user asked for in an entry that begins a user turn, including attachments.
func (r *compactions) requestText(entry int) string {
	if entry == 0 {
		return ""
	}
	e := r.log.After(entry - 1)[0]
	if e.User != nil {
		return llm.JoinText(e.User.Parts, "\n\n")
	}
	return typedIn(e)
}

// typedIn returns what the user typed in an entry; "" if nothing.
func typedIn(e session.Entry) string {
	switch {
	case e.User != nil && e.User.Typed != "":
		return e.User.Typed
	case e.User != nil && len(e.User.Parts) > 0:
		return e.User.Parts[0].Text
	case e.Activation != nil && e.Activation.By == session.ByUser:
		return strings.TrimSpace("/" + e.Activation.Skill + " " + e.Activation.Args)
	}
	return ""
}

// typedTexts returns what the user typed in the part that a summary replaces, without the current
// request, which is kept separately. All of it is kept if it is at most maxBytes long. Otherwise long
// messages lose their middle, and if that is not enough, the oldest are left to the summary.
func typedTexts(previous *session.Compaction, old []session.Entry, turnStart int, request string,
	maxBytes int) (all []string) {
	if previous != nil {
		all = slices.Clone(previous.Typed)
		if previous.Request != "" && previous.Request != request {
			all = append(all, previous.Request)
		}
	}
	for _, e := range old {
		if text := typedIn(e); text != "" && !(e.ID == turnStart && request != "") {
			all = append(all, text)
		}
	}
	sum := func() (n int) {
		for _, text := range all {
			n += len(text)
		}
		return n
	}
	if sum() > maxBytes {
		for i := range all {
			all[i] = cutMiddle(all[i], maxBytes/8)
		}
	}
	for sum() > maxBytes {
		all = all[1:]
	}
	return all
}

// keepSkills chooses which of the skill texts before entry Kept a compaction keeps, the most
// recently used first, and names the skills whose texts it drops. budget is in tokens.
//
// In use are the skills of this user turn (between turns: of the last one), those that wait for the
// user's answer, and those that the release policy keeps. The others are under Auto, which releases
// texts when the prompt cache is lost anyway.
func (r *compactions) keepSkills(c *session.Compaction, state session.State, entries []session.Entry, budget int) {
	used := map[int]int{} // the entry of a text → the entry of its last use
	for _, e := range entries {
		if e.Activation != nil && e.Activation.Present != 0 {
			used[e.Activation.Present] = e.ID
		}
	}
	last := func(t session.Text) int { return max(t.Entry, used[t.Entry]) }
	texts := slices.Clone(state.Texts)
	order.Stable(texts, func(a, b session.Text) int { return last(b) - last(a) })
	seen := map[string]bool{} // skills seen: only the latest text of each is kept
	for _, t := range texts {
		if seen[t.Skill] {
			continue
		}
		seen[t.Skill] = true
		if c.Kept > 0 && t.Entry >= c.Kept {
			continue // it stays in the part that is kept
		}
		prompt := r.log.Prompt(t.Entry)
		k := session.KeptText{Entry: t.Entry, Skill: t.Skill, Tokens: tokens(prompt)}
		maxTokens := min(budget, maxSkillTokens)
		inUse := last(t) >= state.Began || t.Asking || r.Agent.Release.forText(t) != Auto
		if !inUse || maxTokens < min(k.Tokens, minSkillTokens) {
			c.Dropped = append(c.Dropped, t.Skill)
			if t.UserOnly {
				c.UserOnly = append(c.UserOnly, t.Skill)
			}
			continue
		}
		if k.Tokens > maxTokens {
			k.Cut = wholeLines(prompt, 4*maxTokens)
			budget -= maxTokens
		} else {
			budget -= k.Tokens
		}
		c.Skills = append(c.Skills, k)
	}
}

// wholeLines returns where to cut s so that at most maxBytes bytes remain: at the end of a line, if
// that keeps more than half.
func wholeLines(s string, maxBytes int) int {
	for maxBytes > 0 && !utf8.RuneStart(s[maxBytes]) {
		maxBytes--
	}
	if i := strings.LastIndexByte(s[:maxBytes], '\n'); i > maxBytes/2 {
		return i
	}
	return maxBytes
}

// summary asks the run's own model for the summary of the old entries.
//
// The request is a transcript with shortened results, without tools and with a system text of its
// own. So it fits any window, no model can answer it with a call, and it costs about as much as
// sending the whole conversation from the cache. A cheaper model would have to read it uncached as
// well, and what it leaves out is lost for the rest of the session.
func (r *compactions) summary(ctx context.Context, model llm.Model, c *session.Compaction, old []session.Entry,
	previous *session.Compaction, window int, perByte float64) (string, error) {
	answer := min(max(window/8, 500), 8_000)
	if n := model.Info().MaxOutput; n > 0 {
		answer = min(answer, n)
	}
	var head, tail strings.Builder
	if previous != nil && previous.Summary != "" {
		fmt.Fprintf(&head, "<previous-summary>\n%s\n</previous-summary>\n\n",
			plain.Within("previous-summary", previous.Summary))
	}
	if touched := slices.Sorted(maps.Keys(r.log.State().Touched)); len(touched) > 0 {
		fmt.Fprintf(&tail, "\n\nFiles that tools touched: %s", cutMiddle(plain.Fold(strings.Join(touched, ", ")), 2000))
	}
	if c.Instructions != "" {
		fmt.Fprintf(&tail, "\n\nThe user asks you to focus on this:\n%s", cutMiddle(c.Instructions, 4000))
	}
	fmt.Fprintf(&tail, "\n\nWrite the summary, at most %d words.", answer/2)
	maxBytes := int(0.95*float64(window-answer)/perByte) - len(compactText) - head.Len() - tail.Len()
	for try := 0; ; try++ {
		conversation := transcript(old, maxBytes>>try)
		req := &llm.Request{System: compactText, MaxTokens: answer,
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{
				llm.Text(head.String() + "<transcript>\n" + conversation + "\n</transcript>" + tail.String()),
			}}}}
		resp, err := r.request(ctx, model, req)
		if (overflowed(err) || errors.Is(err, llm.ErrNoBody)) && try < 2 {
			continue // the estimate was too low
		}
		if err != nil {
			return "", fmt.Errorf("the summary could not be written: %w", err)
		}
		cost := model.Info().Price.Cost(resp.Usage)
		c.Usage.Add(resp.Usage)
		c.Cost += cost
		r.ledger.spend(0, resp.Usage, cost)
		s := strings.TrimSpace(llm.TextOf(resp.Message.Parts))
		switch {
		case resp.Stop == llm.Refusal:
			return "", errors.New("the model refused to write the summary")
		case s == "":
			return "", errors.New("the model gave an empty summary")
		case resp.Stop == llm.MaxTokens:
			s += "\n\n[The summary was cut here: it had reached its limit.]"
		}
		return s, nil
	}
}

func overflowed(err error) bool {
	var e *llm.Error
	return errors.As(err, &e) && e.Kind == llm.Overflow
}

// longUnexplained is the size in tokens from which a conversation that is refused without a reason, and again, is
// compacted. A shorter one is refused for another reason, and so is one that was just compacted.
const longUnexplained = 16_000

// tooLong reports whether a conversation was refused that may be accepted if it is shorter.
func (r *compactions) tooLong(err error, attempt int) bool {
	if attempt == 0 || !errors.Is(err, llm.ErrNoBody) {
		return overflowed(err)
	}
	state := r.log.State()
	model, _ := r.effectiveModel(state)
	size, _ := r.log.Size(r.overhead(state))
	window := model.Info().Window
	return size > longUnexplained || window > 0 && size > window/2
}

// request sends a request that is not part of the conversation. It repeats the request after
// temporary failures.
func (r *compactions) request(ctx context.Context, m llm.Model, req *llm.Request) (*llm.Response, error) {
	for attempt := 0; ; attempt++ {
		done := r.debugRequest(m, req)
		answer, err := llm.Ask(llm.OnSent(ctx, r.sent), m, req)
		done(answer, err)
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		if err := r.retry(ctx, attempt, err); err != nil {
			return nil, err
		}
	}
}

// transcript writes entries as text of at most about maxBytes bytes. Calls and results are shortened
// first, then the words of the user and the model; if that is not enough, the oldest entries are
// left out.
func transcript(es []session.Entry, maxBytes int) string {
	var pieces []string
	for _, limit := range []struct{ textBytes, dataBytes int }{{20_000, 2000}, {8000, 800}, {2000, 300}, {600, 100}} {
		pieces = pieces[:0]
		n := 0
		for _, e := range es {
			for _, s := range formatEntry(e, limit.textBytes, limit.dataBytes) {
				// No piece can contain the closing tag of the transcript.
				s = plain.Within("transcript", s)
				pieces = append(pieces, s)
				n += len(s) + 1
			}
		}
		if n <= maxBytes {
			return strings.Join(pieces, "\n")
		}
	}
	n, from := 0, len(pieces)
	for from > 0 && n+len(pieces[from-1])+1 <= maxBytes-100 {
		from--
		n += len(pieces[from]) + 1
	}
	return strings.Join(append([]string{fmt.Sprintf("[The %d oldest pieces are left out because of their length.]", from)},
		pieces[from:]...), "\n")
}

// formatEntry formats an entry as text. It limits each text of the user and the model to textBytes, and each
// call and result to dataBytes.
func formatEntry(e session.Entry, textBytes, dataBytes int) (all []string) {
	add := func(label, s string, maxBytes int) {
		if s = strings.TrimSpace(s); s != "" {
			s = strings.ReplaceAll(s, "\n[", "\n [") // no text can look like the start of another piece
			all = append(all, fmt.Sprintf("[%s] %s", label, cutMiddle(s, maxBytes)))
		}
	}
	parts := func(label string, parts []llm.Part, maxBytes int) {
		for _, p := range parts {
			switch {
			case p.Call != nil:
				add("calls "+p.Call.Name, string(p.Call.Input), dataBytes)
			case p.Media != nil:
				add(label, "("+p.Media.MIME+" "+p.Media.Name+")", maxBytes)
			default:
				add(label, p.Text, maxBytes)
			}
		}
	}
	switch {
	case e.User != nil:
		parts("user", e.User.Parts, textBytes)
	case e.Answer != nil:
		parts("agent", e.Answer.Message.Parts, textBytes)
	case e.Result != nil:
		label := "result of " + e.Result.Name
		if e.Result.IsError {
			label = "error of " + e.Result.Name
		}
		parts(label, e.Result.Parts, dataBytes)
	case e.Activation != nil:
		a := e.Activation
		add("the "+string(a.By)+" loads the skill "+a.Skill, cmp.Or(a.Args, "(no arguments)"), textBytes)
		add("text of the skill "+a.Skill, a.Prompt, dataBytes)
		parts("attached", a.Parts, dataBytes)
	case e.Note != nil:
		add("note", e.Note.Model, dataBytes)
	case e.Agent != nil:
		add("agent "+e.Agent.Name, e.Agent.Text(), textBytes)
	}
	return all
}

// cutMiddle replaces the middle of a text that is longer than maxBytes with a notice.
func cutMiddle(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	head, tail := maxBytes*3/4, maxBytes/4
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", strings.ToValidUTF8(s[:head], ""), len(s)-head-tail,
		strings.ToValidUTF8(s[len(s)-tail:], ""))
}
