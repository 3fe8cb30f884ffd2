package control

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/session"
)

// jobWait is how long background commands may run on after the input has ended and nothing else is to be done.
const jobWait = 5 * time.Second

// tasks are what a host knows about background commands and agents. Server.mu protects them.
type tasks struct {
	running   map[string]bool // IDs of commands that the host knows to run
	shown     string          // the IDs in the last TasksChanged
	announced map[string]bool // IDs of agents whose end began a turn
}

// watchTasks tells a host what runs in the background, and begins a turn when something ends or reports, while none
// runs.
func (s *server) watchTasks(ctx context.Context) {
	for ctx.Err() == nil {
		session := s.current()
		for st := range session.Watch(ctx) {
			s.tasksChanged(session, st)
		}
		if s.current() == session { // it was closed, and no other one replaces it
			return
		}
	}
}

// showTasks tells a host about changes so far, before it learns of later events.
func (s *server) showTasks() {
	if session := s.current(); session != nil && s.isHost() {
		s.tasksChanged(session, session.Status())
	}
}

// tasksChanged tells a host what has changed since it was last told, and begins a turn if there is news for the model.
func (s *server) tasksChanged(of *engine.Session, st engine.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conversation.Session() != of {
		return
	}
	live := running(st)
	started, ended := s.tasks.compare(st.Jobs)
	for _, j := range ended {
		s.Messages.jobEnded(j)
	}
	for _, a := range st.Agents {
		if a.Reason == session.EndCancelled {
			s.Messages.agentStopped(&a)
		}
	}
	if s.tasks.show(live) {
		s.Messages.tasksChanged(live)
	}
	for _, j := range started {
		s.Messages.jobStarted(j)
	}
	if !st.Running && s.stopTurn == nil && len(s.prompts) == 0 && s.tasks.hasNews(st) {
		s.prompts = append(s.prompts, prompt{ends: true})
		s.notify()
	}
}

// running returns what runs in the background.
func running(st engine.Status) []Task {
	all := []Task{}
	for _, j := range st.Jobs {
		if j.Running {
			all = append(all, Task{ID: j.ID, Type: taskCommand, Description: describeJob(j)})
		}
	}
	for _, a := range st.Agents {
		if a.Reason == "" {
			all = append(all, Task{ID: a.Log, Type: taskAgent, Description: a.Task, Agent: a.Name})
		}
	}
	return all
}

// compare returns the commands that started and those that ended since the last call.
func (t *tasks) compare(jobs []engine.Job) (started, ended []engine.Job) {
	for _, j := range jobs {
		ran, known := t.running[j.ID]
		if !known {
			started = append(started, j)
		}
		if !j.Running && (ran || !known) {
			ended = append(ended, j)
		}
		t.running[j.ID] = j.Running
	}
	return started, ended
}

// show reports whether others run than at the last call.
func (t *tasks) show(live []Task) bool {
	ids := ""
	for _, x := range live {
		ids += " " + x.ID
	}
	changed := ids != t.shown
	t.shown = ids
	return changed
}

// hasNews reports whether something has happened of which the model does not know. What the user stopped is no news.
func (t *tasks) hasNews(st engine.Status) bool {
	lines, _ := t.news(st)
	return lines != nil
}

// news returns a line for each event that was not announced yet, and the IDs of what has ended.
func (t *tasks) news(st engine.Status) (lines, ids []string) {
	for _, a := range st.Agents {
		if a.Reason != "" && a.Reason != session.EndCancelled && !t.announced[a.Log] {
			ids = append(ids, a.Log)
			lines = append(lines, fmt.Sprintf("The agent %s (%s) has ended: its report is above.", a.Name, plain.Line(a.Task)))
		}
	}
	if st.Wakes {
		lines = append(lines, engine.WokenText)
	}
	return lines, ids
}

// announce makes the input of a turn about what has ended. ok is false if the model knows of all by now.
func (s *server) announce(session *engine.Session) (in agent.Input, ok bool) {
	st := session.Status()
	s.mu.Lock()
	defer s.mu.Unlock()
	lines, ids := s.tasks.news(st)
	for _, id := range ids {
		s.tasks.announced[id] = true
	}
	return engine.Notification(lines...), lines != nil
}

// awaitTasks waits, after the end of the input, until something in the background has ended that begins a turn. It
// returns false if there is nothing more to wait for: commands have jobWait to end.
func (s *server) awaitTasks(ctx context.Context) bool {
	session := s.current()
	if session == nil || !s.isHost() || s.Messages == nil {
		return false
	}
	commands, cancel := context.WithTimeout(ctx, jobWait)
	defer cancel()
	for {
		agents, more := false, false
		for st := range session.Watch(commands) {
			s.mu.Lock()
			found := s.tasks.hasNews(st)
			s.mu.Unlock()
			if found {
				return true
			}
			agents, more = false, false
			for _, a := range st.Agents {
				agents = agents || a.Reason == ""
			}
			for _, j := range st.Jobs {
				more = more || j.Running
			}
			if !agents && !more {
				return false
			}
		}
		if !agents || ctx.Err() != nil {
			return false
		}
		commands = ctx
	}
}

// stopTasks ends the background commands of the session.
func stopTasks(session *engine.Session) {
	for _, j := range session.Status().Jobs {
		if j.Running {
			session.StopTask(j.ID)
		}
	}
}

func describeJob(j engine.Job) string { return cmp.Or(j.Description, j.Line) }

// jobStarted tells a host that a background command has started.
func (o *Messages) jobStarted(j engine.Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out.write(TaskMessage{Type: typeSystem, Subtype: subtypeTaskStarted, Head: o.head(0), Task: j.ID, Call: j.Call,
		Description: describeJob(j), Background: true, TaskType: taskCommand})
}

// jobEnded tells a host that a background command has ended.
func (o *Messages) jobEnded(j engine.Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	status, patch := taskCompleted, "completed"
	switch {
	case j.Stopped:
		status, patch = taskStopped, "killed"
	case j.Failed:
		status, patch = taskFailed, "failed"
	}
	none := ""
	o.out.write(o.taskUpdated(j.ID, patch, j.Started.Add(j.Took)))
	o.out.write(TaskMessage{Type: typeSystem, Subtype: subtypeTaskNotification, Head: o.head(0), Task: j.ID, Call: j.Call,
		TaskType: taskCommand, Status: status, Output: &none,
		Summary: fmt.Sprintf("Background command %q %s", describeJob(j), j.State)})
}

func (o *Messages) taskUpdated(id, status string, ended time.Time) TaskUpdate {
	return TaskUpdate{Type: typeSystem, Subtype: subtypeTaskUpdated, Head: o.head(0), Task: id,
		Patch: TaskPatch{Status: status, End: ended.UnixMilli()}}
}

// tasksChanged tells a host what runs in the background.
func (o *Messages) tasksChanged(live []Task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out.write(TasksChanged{Type: typeSystem, Subtype: subtypeTasksChanged, Head: o.head(0), Tasks: live})
}

// agentStopped tells a host, once, that an agent in the background was stopped. That begins no turn, with which its end
// would be recorded.
func (o *Messages) agentStopped(a *session.Agent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped[a.Log] {
		return
	}
	o.stopped[a.Log] = true
	o.out.write(o.agentUpdated(a, time.Now()))
	o.out.write(taskMessage(o.head(0), nil, a))
}

// agentUpdated reports that an agent in the background has ended.
func (o *Messages) agentUpdated(a *session.Agent, at time.Time) TaskUpdate {
	m := taskMessage(Head{}, nil, a)
	status := map[taskStatus]string{taskCompleted: "completed", taskFailed: "failed", taskStopped: "killed"}[m.Status]
	return o.taskUpdated(a.Log, status, at)
}
