// Package steps is the part that puts the steps of a skill on the todo list when the skill comes into use, and says
// once, at the end of the turn, which of them are neither done nor dropped.
//
// A skill has steps in metadata.knack.steps, a list of texts, or else in a task list ("- [ ] …") below a heading that
// is only the word Steps.
package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/fences"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm/offline"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// Limits of what a skill puts on the list.
const (
	maxSteps = 50
	maxStep  = 300 // characters
)

// Of returns the steps of a skill. What is wrong with metadata.knack.steps is the error.
func Of(ctx context.Context, k *knack.Skill) (all []string, err error) {
	if value := k.Own("steps"); value != nil {
		if json.Unmarshal(value, &all) != nil {
			return nil, errors.New("it must be a list of texts")
		}
	} else if body, bad := k.Body(ctx); bad == nil {
		all = inText(body)
	}
	for i, text := range all {
		all[i] = strings.Join(strings.Fields(plain.Line(text)), " ")
		switch n := len([]rune(all[i])); {
		case n == 0:
			return nil, fmt.Errorf("step %d has no text", i+1)
		case n > maxStep:
			return nil, fmt.Errorf("step %d is longer than %d characters", i+1, maxStep)
		}
	}
	if len(all) > maxSteps {
		return nil, fmt.Errorf("there are more than %d steps", maxSteps)
	}
	return all, nil
}

// inText returns the items of task lists in the sections of a text with the heading Steps.
func inText(body string) (all []string) {
	heading := regexp.MustCompile(`^(#{1,6})\s+(.*?)\s*#*$`)
	item := regexp.MustCompile(`^\s{0,3}(?:[-*+]|[0-9]+[.)])\s+\[[ ]\]\s+(.+)$`)
	level, fence := 0, ""
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		if fence != "" {
			if fences.Closes(line, fence) {
				fence = ""
			}
			continue
		}
		if fence = fences.Opens(line); fence != "" {
			continue
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			switch {
			case strings.EqualFold(strings.TrimSuffix(m[2], ":"), "steps"):
				level = len(m[1])
			case len(m[1]) <= level:
				level = 0
			}
			continue
		}
		if m := item.FindStringSubmatch(line); m != nil && level > 0 {
			all = append(all, m[1])
		}
	}
	return all
}

// check returns what is wrong with metadata.knack.steps of a skill.
func check(k *knack.Skill) error {
	_, err := Of(context.Background(), k)
	return err
}

// Part puts the steps of skills on the todo list.
func Part() engine.Part {
	return engine.Part{Name: "steps", SkillKeys: map[string]func(*knack.Skill) error{"steps": check}, Open: open}
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	l := &live{conv: c, looked: c.Log().Last()}
	return &engine.Live{Placed: l.placed, Note: l.note, GoOn: l.goOn}, nil
}

// A list is the steps of a skill that came into use in this turn.
type list struct {
	skill string
	steps []string
}

type live struct {
	conv *engine.Conv

	mu     sync.Mutex
	memory *coding.Memory // has the todo list; nil: there is none
	looked int            // the entry up to which the log was looked at
	open   []list
}

func (l *live) placed(_ engine.Place, o coding.Options) tool.Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory == nil { // that of the session, not of an agent
		l.memory = o.State
	}
	return nil
}

// note is the func Note of [engine.Live]: it looks for skills that have come into use.
func (l *live) note(a engine.Asking, _ session.State) *session.Note {
	if a.Sub {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.conv.Log()
	if log.Last() == l.looked {
		return nil
	}
	var texts, people []string
	for _, e := range log.After(l.looked) {
		l.looked = e.ID
		if e.Activation == nil || e.Activation.Present != 0 {
			continue
		}
		k := l.conv.Catalog().Skill(e.Activation.Skill)
		if k == nil {
			continue
		}
		steps, err := Of(context.Background(), k) // what is wrong is a problem of the check
		if err != nil || len(steps) == 0 || l.memory == nil {
			continue
		}
		if err := l.memory.AddTodos(steps); err != nil { // a hook refuses one of them and says so, or the list is full
			continue
		}
		l.open = append(l.open, list{e.Activation.Skill, steps})
		texts = append(texts, fmt.Sprintf("The steps of the skill %s are on the todo list, and the turn is not over before "+
			"each is done:\n- %s\nMark each as done when it is. If one does not apply, keep it and add why: "+
			"\"STEP (dropped: WHY)\".", plain.Line(k.Name), strings.Join(steps, "\n- ")))
		people = append(people, fmt.Sprintf("%s has %s on the list", plain.Line(k.Name), plain.Count(len(steps), "step")))
	}
	if texts == nil {
		return nil
	}
	return &session.Note{Model: strings.Join(texts, "\n\n"), People: strings.Join(people, "; ")}
}

// goOn is the func GoOn of [engine.Live]: it says once what is not done.
func (l *live) goOn(ctx context.Context) (*session.Note, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := l.open
	l.open = nil
	var now struct {
		Items []coding.Todo `json:"items"`
	}
	json.Unmarshal(engine.Todos(l.conv.Log()), &now) // without a list nothing is done
	var texts []string
	for _, o := range open {
		var left []string
		for _, step := range o.steps {
			if !settled(step, now.Items) {
				left = append(left, step)
			}
		}
		if left != nil {
			texts = append(texts, fmt.Sprintf("%s of the skill %s not done, nor dropped with a reason:\n- %s",
				plain.Count(len(left), "step"), plain.Line(o.skill), strings.Join(left, "\n- ")))
		}
	}
	if texts == nil {
		return nil, nil
	}
	text := strings.Join(texts, "\n\n")
	n := &session.Note{People: strings.ReplaceAll(strings.ReplaceAll(text, ":\n- ", ": "), "\n- ", "; "),
		Warns: true}
	if m, err := l.conv.FastModel(ctx); err != nil || m.Info().ID != offline.ID { // which follows a procedure only
		n.Model = text + "\nDo them now and mark them, or say in one sentence each why not. You are not reminded again."
	}
	return n, nil
}

// settled reports whether a step is done, or dropped with a reason.
func settled(step string, items []coding.Todo) bool {
	for _, it := range items {
		text := strings.Join(strings.Fields(it.Text), " ")
		rest, ok := strings.CutPrefix(text, step)
		if !ok {
			continue
		}
		if it.State == coding.TodoDone || regexp.MustCompile(`\(dropped: .*\S.*\)$`).MatchString(rest) {
			return true
		}
	}
	return false
}
