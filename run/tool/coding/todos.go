package coding

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/knack-agent/knack/run/session"
)

// The states of a Todo.
const (
	TodoPending = "pending"
	TodoActive  = "active"
	TodoDone    = "done"
)

// A Todo is one step of a task. The fields below State are those of the tools TaskCreate and TaskUpdate.
type Todo struct {
	ID    string `json:"id,omitempty"` // "" in a recorded list: its place in the list, from 1
	Text  string `json:"text"`
	State string `json:"state,omitempty"`

	Description string         `json:"description,omitempty"` // what is to be done
	ActiveForm  string         `json:"activeForm,omitempty"`  // what is said while it is being done
	Owner       string         `json:"owner,omitempty"`       // who does it; "": nobody in particular
	BlockedBy   []string       `json:"blockedBy,omitempty"`   // IDs of steps that are done before
	Metadata    map[string]any `json:"metadata,omitempty"`

	before *Todo // the step before the change that is being made; nil: the change adds it
}

// TodoDetails are the Details of a result that shows the list: the list after the call. Sessions store them, and
// [Memory.RestoreTodos] reads them.
type TodoDetails struct {
	Items []Todo `json:"items"`
	Last  int    `json:"last,omitempty"` // the highest ID that a step has had; 0: there is none above those of Items
	// Round is how often agents had changed the list: of two lists of a session, that of the later round is in force.
	Round int `json:"round,omitempty"`
}

// Form implements the method by which front ends know how to show the result.
func (TodoDetails) Form() session.Form { return session.FormTodos }

// Limits of a list.
const (
	maxTodos     = 500
	maxTodoBytes = 64 << 10 // as JSON: each change records the whole list
)

// todos is a list of steps. Its changes wait for each other, also while hooks decide about them.
type todos struct {
	turn  chan struct{} // has a value while nobody changes the list
	mu    sync.Mutex
	list  TodoDetails // whose steps all have IDs
	check func(context.Context, Todo, TodoEvent) error
}

func newTodos() *todos {
	l := &todos{turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// A TodoEvent is what happens to a step.
type TodoEvent int

// What happens to a step. One that is added as done has both.
const (
	TodoAdded TodoEvent = iota
	TodoCompleted
)

// CheckTodos sets what is asked before the list of the session, which its agents share, changes: an error refuses the
// call that would do it.
func (m *Memory) CheckTodos(check func(context.Context, Todo, TodoEvent) error) {
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.shared.check = check
}

// ChangeTodos changes the list of the session, which its agents share, and returns it as it is recorded. change may
// change the steps, but nothing that they point to; a step that it adds has no ID. keep, if not nil, is called with the
// new list before anybody sees it: the list of an agent's call is recorded in the session so.
func (m *Memory) ChangeTodos(ctx context.Context, change func(*TodoDetails) error, keep func(TodoDetails) error) (
	TodoDetails, error) {
	return m.shared.change(ctx, change, keep)
}

// Todos returns the list of the session, which its agents share, as it is recorded.
func (m *Memory) Todos() TodoDetails { return m.shared.now().recorded() }

func (l *todos) now() TodoDetails {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

func (l *todos) change(ctx context.Context, change func(*TodoDetails) error, keep func(TodoDetails) error) (
	TodoDetails, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return TodoDetails{}, context.Cause(ctx)
	}
	defer func() { l.turn <- struct{}{} }()
	now := l.now()
	was := now.Items
	now.Items = slices.Clone(was)
	for i := range was {
		now.Items[i].before = &was[i]
	}
	if err := change(&now); err != nil {
		return TodoDetails{}, err
	}
	now.number()
	if err := cmp.Or(now.checkSize(), l.allowed(ctx, now.Items)); err != nil {
		return TodoDetails{}, err
	}
	if keep != nil {
		now.Round++
		if err := keep(now.recorded()); err != nil {
			return TodoDetails{}, err
		}
	}
	l.set(now)
	return now.recorded(), nil
}

func (l *todos) set(now TodoDetails) {
	for i := range now.Items {
		now.Items[i].before = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = now
}

// number gives an ID to each step that has none.
func (d *TodoDetails) number() {
	for _, t := range d.Items {
		n, _ := strconv.Atoi(t.ID)
		d.Last = max(d.Last, n)
	}
	for i := range d.Items {
		if d.Items[i].ID == "" {
			d.Last++
			d.Items[i].ID = strconv.Itoa(d.Last)
		}
	}
}

func (d TodoDetails) checkSize() error {
	if len(d.Items) > maxTodos {
		return fmt.Errorf("the list would have more than %d steps", maxTodos)
	}
	data, err := json.Marshal(d)
	if err == nil && len(data) > maxTodoBytes {
		return fmt.Errorf("the list would have more than %d KB: say less in the descriptions", maxTodoBytes>>10)
	}
	return err
}

// allowed asks about what is new in a list.
func (l *todos) allowed(ctx context.Context, now []Todo) error {
	l.mu.Lock()
	check := l.check
	l.mu.Unlock()
	if check == nil {
		return nil
	}
	for _, t := range now {
		if t.before == nil {
			if err := check(ctx, t, TodoAdded); err != nil {
				return err
			}
		}
		if t.State == TodoDone && (t.before == nil || t.before.State != TodoDone) {
			if err := check(ctx, t, TodoCompleted); err != nil {
				return err
			}
		}
	}
	return nil
}

// recorded returns the list as it is recorded: an ID that says only the place is left out.
func (d TodoDetails) recorded() TodoDetails {
	d.Items = append([]Todo{}, d.Items...)
	highest := 0
	for i := range d.Items {
		n, _ := strconv.Atoi(d.Items[i].ID)
		highest = max(highest, n)
		if n == i+1 {
			d.Items[i].ID = ""
		}
	}
	if d.Last == highest {
		d.Last = 0
	}
	return d
}

// WithIDs returns the steps of a recorded list with their IDs.
func (d TodoDetails) WithIDs() []Todo {
	all := slices.Clone(d.Items)
	for i := range all {
		if all[i].ID == "" {
			all[i].ID = strconv.Itoa(i + 1)
		}
	}
	return all
}

// AddTodos adds steps that are not on the list, by their texts. An error means that none was added.
func (m *Memory) AddTodos(texts []string) error {
	_, err := m.todos.change(context.Background(), func(d *TodoDetails) error {
		for _, text := range texts {
			if !slices.ContainsFunc(d.Items, func(t Todo) bool { return t.Text == text }) {
				d.Items = append(d.Items, Todo{Text: text, State: TodoPending})
			}
		}
		return nil
	}, nil)
	return err
}

// RestoreTodos sets the list to the one that read returns, the Details of a result. If they are nil or malformed, the
// list is empty. Nothing changes the list meanwhile.
func (m *Memory) RestoreTodos(read func() json.RawMessage) {
	<-m.todos.turn
	defer func() { m.todos.turn <- struct{}{} }()
	var d TodoDetails
	if json.Unmarshal(read(), &d) != nil {
		d = TodoDetails{}
	}
	d.Items = d.WithIDs()
	d.number()
	m.todos.set(d)
}
