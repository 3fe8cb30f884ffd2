// Package engine builds a running agent from a directory: its settings, trust,
// skills, hooks, agents, model, workspace and gate. It is the program without a
// front end: the command line, screens, editors and Go programs all use it in
// the same way.
//
//	e, err := engine.Open(ctx, engine.Options{Dir: dir})
//	s, err := e.Start(ctx, person, engine.SessionOptions{})
//	for ev, err := range s.Run(ctx, agent.Typed("hello")) {
//		…
//	}
//
// A [Project] is what a directory and its user provide. It is immutable, and
// enough for everything that runs nothing. An [Engine] is one open directory: the
// Project as it is now, the catalogue of skills, the models and the workspace.
// A [Session] is one conversation in it. Each turn of a Session works on a
// snapshot: a Project that changes, or is trusted, while a turn runs counts from
// the next turn on. Only these change at once: the permission mode, the answers
// that the user gives, the model and effort that are set, and the catalogue.
//
// A [Person] answers questions, through one method. Without one, what would be
// asked is refused.
//
// Who closes what: the caller of Open closes the Engine, which closes its
// sessions and the workspace. The caller of Start may close the Session earlier.
// A [Reply] may name the session that replaces the one that gave it, as /new
// does: then the caller closes the old one and begins the next. Background
// commands are shared by a session and those that replace it; agents in the
// background belong to one session and end with it.
//
// Nothing in this package prints, reads the process's working directory after
// Open, or reads its environment but through [Options].Env.
package engine
