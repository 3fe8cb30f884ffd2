package secrets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/session"
)

const name = "secrets"

// maxProgram is the size in bytes of the largest program that gets a secret.
const maxProgram = 64 << 20

// Part gives the commands of skills in use their secrets, and masks them in what tools return.
func Part() engine.Part {
	return engine.Part{Name: name, Open: open, SkillKeys: map[string]func(*knack.Skill) error{"env": check}}
}

// check returns what is wrong with metadata.knack.env of a skill.
func check(k *knack.Skill) error {
	_, err := Of(k)
	return err
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	l := &live{conv: c, known: &known{values: map[string]bool{}, session: map[string]string{}, asked: map[string]bool{}}}
	if before, ok := c.Before().(*live); ok { // its commands go on running
		l.known = before.known
	}
	return &engine.Live{Secrets: l.secrets, Values: l.values, Note: l.note, Wrap: l.wrap, Value: l}, nil
}

// live is the part in one session.
type live struct {
	conv *engine.Conv
	*known

	mu   sync.Mutex
	told []string        // lines for the next note
	said map[string]bool // lines that were told

	log sync.Once // what the log of a resumed session says was read
}

// known is what a session, and those that replace it, know.
type known struct {
	kmu     sync.Mutex
	values  map[string]bool   // secrets that commands were given
	session map[string]string // values for this session only, by account
	asked   map[string]bool   // accounts for which the user gave nothing
}

// secrets is the func Secrets of [engine.Live].
func (l *live) secrets(k *knack.Skill) func(context.Context, []permission.Subject) func(context.Context,
	workspace.Command) (workspace.Secrets, error) {
	all, _ := Of(k) // what is wrong is a problem of the check
	if len(all) == 0 {
		return nil
	}
	return func(ctx context.Context, call []permission.Subject) func(context.Context, workspace.Command) (
		workspace.Secrets, error) {
		if l.concerns(k, call) {
			l.ask(ctx, k, all)
		}
		return func(_ context.Context, c workspace.Command) (workspace.Secrets, error) { return l.give(k, all, c), nil }
	}
}

// concerns reports whether a command of a call would get the values of a skill.
func (l *live) concerns(k *knack.Skill, call []permission.Subject) bool {
	ws, ok := l.conv.Here().Workspace.(*workspace.Local)
	return ok && slices.ContainsFunc(call, func(s permission.Subject) bool {
		if s.Kind == permission.KindTool {
			return strings.HasPrefix(s.Text, k.Name+":")
		}
		file, _ := Runs(workspace.Command{Line: s.Text, Dir: ws.Dir()}, folders(k), ws.Home())
		return s.Kind == permission.KindBash && file != ""
	})
}

// give returns what a command gets of the values of a skill: nothing, if it is not one of the skill's programs alone.
func (l *live) give(k *knack.Skill, all []Wanted, c workspace.Command) (s workspace.Secrets) {
	ws, ok := l.conv.Here().Workspace.(*workspace.Local)
	if !ok {
		return s
	}
	file, near := Runs(c, folders(k), ws.Home())
	if file == "" {
		if near {
			l.tell(k, "only a command that runs one file of its folder and nothing else gets its secrets: no pipe, no "+
				"variables, no second program (cd DIR && FILE is fine)")
		}
		return s
	}
	for _, w := range all {
		if !w.Foreign { // such skills were written for what the environment has
			s.Without = append(s.Without, w.Name)
		}
	}
	b, script, err := l.verified(k, file)
	if err != nil {
		l.tell(k, "its secrets were not given: "+err.Error())
		return s
	}
	store := Open(l.conv.Project().Env())
	var hosts, missing []string
	for _, w := range all {
		value, err := l.valueOf(store, b, w)
		switch {
		case err != nil:
			l.tell(k, w.Name+" could not be read from where it is stored: "+err.Error())
			continue
		case value == "" && w.Required:
			missing = append(missing, w.Name)
			continue
		case value == "":
			continue
		case len(w.Hosts) > 0 && !confines(l.conv.Here().Sandbox):
			l.tell(k, w.Name+" was not given: it is for "+strings.Join(w.Hosts, ", ")+" only, and nothing holds commands to "+
				"that here (knack sandbox)")
			continue
		}
		hosts = append(hosts, w.Hosts...)
		s.Env = append(s.Env, w.Name+"="+value)
		if !w.Plain {
			l.kmu.Lock()
			l.known.values[value] = true
			l.kmu.Unlock()
		}
	}
	if len(missing) > 0 {
		l.tell(k, "the user has not given "+strings.Join(missing, ", ")+": knack skill secrets "+k.Name)
	}
	if len(s.Env) == 0 {
		return s
	}
	s.Env = append(s.Env, "PYTHONDONTWRITEBYTECODE=1") // what Python would write there changes the skill
	s.Scripts = []workspace.Script{script}
	if len(hosts) > 0 {
		s.Limits = []workspace.Limit{{Hosts: hosts, Open: true}}
	}
	return s
}

// confines reports whether commands reach only hosts that a sandbox lets them reach.
func confines(box *sandbox.Sandbox) bool { return box != nil && box.Report().Level != sandbox.None }

// verified returns what the values of a skill are bound to, and a file of it as it was then.
func (l *live) verified(k *knack.Skill, file string) (b Binding, script workspace.Script, err error) {
	if _, err := l.conv.Project().Brought.CheckSkill(k); err != nil {
		return b, script, err
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return b, script, err
	}
	data, err := regular.Read(real, maxProgram)
	if err != nil {
		return b, script, err
	}
	b, files, err := bind(k)
	sum := sha256.Sum256(data)
	if err == nil && !strings.Contains(files[real], hex.EncodeToString(sum[:])) {
		err = errors.New(plain.Line(file) + " changes at the moment")
	}
	return b, workspace.Script{Name: file, Path: real, Data: data}, err
}

// valueOf returns the value that the user gave to this content of a skill, or its default; "": there is none.
func (l *live) valueOf(store Store, b Binding, w Wanted) (string, error) {
	l.kmu.Lock()
	value := l.session[b.account(w.Name)]
	l.kmu.Unlock()
	if value != "" {
		return value, nil
	}
	if value, err := store.Get(b, w.Name); value != "" || err != nil {
		return value, err
	}
	return w.Default, nil
}

// values is the func Values of [engine.Live].
func (l *live) values() []string {
	l.log.Do(l.remember)
	l.kmu.Lock()
	defer l.kmu.Unlock()
	for _, p := range l.conv.Project().Brought.Plugins {
		for _, value := range p.Secrets {
			l.known.values[value] = true
		}
	}
	return slices.Sorted(maps.Keys(l.known.values))
}

// remember finds the secrets that commands of a resumed session may have been given before.
func (l *live) remember() {
	store := Open(l.conv.Project().Env())
	if given, _ := store.Given(Binding{}); len(given) == 0 {
		return // most sessions: the log, which may be long, is not read
	}
	done := map[string]bool{}
	for e := range l.conv.Log().All() {
		if e.Activation == nil || done[e.Activation.Skill] {
			continue
		}
		done[e.Activation.Skill] = true
		k := l.conv.Catalog().Skill(e.Activation.Skill)
		if k == nil {
			continue
		}
		all, _ := Of(k)
		if len(all) == 0 {
			continue
		}
		b, err := BindingOf(k)
		if err != nil {
			continue
		}
		for _, w := range all {
			if value, _ := store.Get(b, w.Name); value != "" && !w.Plain {
				l.kmu.Lock()
				l.known.values[value] = true
				l.kmu.Unlock()
			}
		}
	}
}

// tell has the user and the model told once why a command did not get a value.
func (l *live) tell(k *knack.Skill, why string) {
	line := "The skill " + plain.Line(k.Name) + ": " + plain.Line(why)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		l.said = map[string]bool{}
	}
	if !l.said[line] {
		l.said[line] = true
		l.told = append(l.told, line)
	}
}

// note is the func Note of [engine.Live].
func (l *live) note(engine.Asking, session.State) *session.Note {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.told) == 0 {
		return nil
	}
	text := strings.Join(l.told, ".\n") + "."
	people := strings.Join(l.told, "; ")
	l.told = nil
	return &session.Note{People: people, Warns: true, Model: text + " Do not ask for a secret in the conversation."}
}

// ask asks the user for the required values of a skill that are not stored, once in a session.
func (l *live) ask(ctx context.Context, k *knack.Skill, all []Wanted) {
	if !l.conv.Interactive() {
		return
	}
	if _, err := l.conv.Project().Brought.CheckSkill(k); err != nil {
		return
	}
	b, err := BindingOf(k)
	if err != nil {
		return
	}
	store := Open(l.conv.Project().Env())
	var missing []Wanted
	for _, w := range all {
		l.kmu.Lock()
		asked := l.asked[b.account(w.Name)]
		l.kmu.Unlock()
		if value, err := l.valueOf(store, b, w); value == "" && err == nil && !asked {
			missing = append(missing, w)
		}
	}
	if !slices.ContainsFunc(missing, required) {
		return
	}
	if missing = l.askToKeep(ctx, store, k, b, missing); !slices.ContainsFunc(missing, required) {
		return
	}
	answer, err := l.conv.Ask(ctx, Question(k, b, missing))
	if err != nil && !errors.Is(err, engine.ErrCannot) {
		return // it was withdrawn: the next command asks again
	}
	for _, w := range missing {
		value := ""
		if err == nil && !answer.Declined && answer.Values[w.Name] != nil {
			value = answer.Text(w.Name)
		}
		if value == "" {
			l.setAsked(b, w)
			continue
		}
		l.keep(ctx, store, b, w, value)
	}
	l.saw(store, k)
}

func required(w Wanted) bool { return w.Required }

// setAsked notes that the user gave no value.
func (l *live) setAsked(b Binding, w Wanted) {
	l.kmu.Lock()
	defer l.kmu.Unlock()
	l.asked[b.account(w.Name)] = true
}

// saw keeps what the skill's files are now.
func (l *live) saw(store Store, k *knack.Skill) {
	if err := store.Saw(k); err != nil {
		l.conv.Notice(knack.Problem{Code: knack.CodeSecret, Severity: knack.Warn, Message: "it is not kept what the skill " +
			plain.Line(k.Name) + " has now, so that a later change cannot be shown: " + err.Error()})
	}
}

// The answers to the question whether a skill that has changed keeps a value.
const (
	keepValue  = "keep"
	otherValue = "other"
)

// askToKeep asks the user whether a skill that has changed keeps the values that it had. It returns those that are
// still to be asked for.
func (l *live) askToKeep(ctx context.Context, store Store, k *knack.Skill, b Binding, missing []Wanted) []Wanted {
	given, err := store.Given(b)
	if err != nil {
		return missing
	}
	had := map[string]Given{}
	for _, g := range given {
		if g.For != b && slices.ContainsFunc(missing, func(w Wanted) bool { return w.Name == g.Name }) {
			had[g.Name] = g
		}
	}
	if len(had) == 0 {
		return missing
	}
	list := plain.List(slices.Sorted(maps.Keys(had)), 4)
	text := "It is the skill of " + b.Source + "."
	for _, g := range given {
		if had[g.Name] != g {
			continue
		}
		if changed := store.Changed(k, g.For); changed != "" {
			text += "\nSince then " + changed + "."
			break
		}
	}
	a, err := l.conv.Ask(ctx, engine.Question{Title: "The skill " + k.Name + " has changed since you gave it " + list,
		Text: text, Asker: engine.AskerSecrets, Options: []engine.Option{
			{ID: keepValue, Label: "it keeps the value", Help: "also for its new files"},
			{ID: otherValue, Label: "give it another one"},
			{ID: engine.OptionNo, Label: "no, it gets none"}}})
	switch {
	case err != nil && !errors.Is(err, engine.ErrCannot):
		return nil // it was withdrawn: the next command asks again
	case err == nil && a.Option == otherValue && !a.Declined:
		return missing
	case err == nil && a.Option == keepValue && !a.Declined:
		return l.keepOld(store, k, b, missing, had)
	}
	for _, w := range missing {
		l.setAsked(b, w)
	}
	return nil
}

// keepOld stores values for the new content of a skill, where they were. It returns those that it had not.
func (l *live) keepOld(store Store, k *knack.Skill, b Binding, missing []Wanted, had map[string]Given) (left []Wanted) {
	for _, w := range missing {
		g, ok := had[w.Name]
		if !ok {
			left = append(left, w)
			continue
		}
		if err := store.Keep(g, b, w, false); err != nil {
			l.tell(k, w.Name+" could not be kept: "+err.Error())
		}
	}
	l.saw(store, k)
	return left
}

// keep stores a value that the user gave: where no keyring takes it, as the user says.
func (l *live) keep(ctx context.Context, store Store, b Binding, w Wanted, value string) {
	err := store.Put(b, w, value, w.Plain)
	if errors.Is(err, engine.ErrNoKeyring) {
		answer, asked := l.conv.Ask(ctx, engine.Question{Title: "This machine has no keyring for " + w.Name,
			Asker: engine.AskerSecrets, Options: []engine.Option{
				{ID: "session", Label: "Keep it for this session only"},
				{ID: "file", Label: "Write it to a file", Help: "that only you can read"}}})
		if asked == nil && !answer.Declined && answer.Option == "file" {
			err = store.Put(b, w, value, true)
		}
	}
	if err != nil && !errors.Is(err, ErrShort) {
		l.kmu.Lock()
		l.session[b.account(w.Name)] = value
		l.kmu.Unlock()
	}
	if err != nil && !errors.Is(err, engine.ErrNoKeyring) {
		l.conv.Notice(knack.Problem{Code: knack.CodeSecret, Severity: knack.Warn,
			Message: fmt.Sprintf("%s of the skill %s was not stored: %v", w.Name, plain.Line(b.Skill), err),
			Hint:    "knack skill secrets " + plain.Line(b.Skill)})
	}
}

// Question asks for values of a skill.
func Question(k *knack.Skill, b Binding, missing []Wanted) engine.Question {
	q := engine.Question{Title: "The skill " + k.Name + " wants " + names(missing), Asker: engine.AskerSecrets,
		Text: "It is the skill of " + b.Source + ". Only commands that run its own files get what you type here."}
	for _, w := range missing {
		f := engine.Field{Name: w.Name, Label: w.Name, Help: w.Description, Type: engine.FieldSecret, Required: w.Required}
		if w.Plain {
			f.Type, f.Default = engine.FieldText, w.Default
		}
		if len(w.Hosts) > 0 {
			f.Help = strings.TrimPrefix(f.Help+" (such a command reaches only "+strings.Join(w.Hosts, ", ")+")", " ")
		}
		q.Fields = append(q.Fields, f)
	}
	q.Command = "knack skill secrets " + k.Name
	if len(missing) == 1 {
		q.Command += " " + missing[0].Name
	}
	return q
}

func names(all []Wanted) string {
	var list []string
	for _, w := range all {
		list = append(list, w.Name)
	}
	return plain.List(list, 4)
}
