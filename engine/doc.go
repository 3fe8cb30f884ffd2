// Package engine builds a running agent from a directory: its settings, trust, skills, hooks, agents,
// model, workspace and gate. It is the program without a front end: the command line, screens, editors
// and Go programs all use it in the same way.
//
//	e, err := engine.Open(ctx, engine.Options{Dir: dir})
//	s, err := e.Start(ctx, person, engine.SessionOptions{})
//	report, err := engine.Converse(s).Turn(ctx, agent.Typed("hello"), nil)
//	fmt.Println(report.End.Text)
//
// A [Project] is what a directory and its user provide. It is immutable, and enough for operations that run nothing,
// such as listing skills. An [Engine] is one open directory: the current Project, the catalogue of skills, the models
// and the workspace. A [Session] is one conversation in it. Each turn of a Session works on a snapshot, a [Turn],
// which front ends ask what a turn would see now: if the Project changes or is trusted during a turn, that takes
// effect with the next turn. Only the permission mode, the user's answers, the chosen model and effort, and the
// catalogue take effect at once.
//
// A [Person] answers questions, through one method. Without a Person, everything that needs an
// answer is refused.
//
// The caller of Open closes the Engine, which closes its sessions and the workspace. The caller of
// Start may close the Session earlier. A [Reply] may contain a session that replaces the current one,
// as /new does: a [Conversation] closes the old session and begins the next. A session shares its
// background commands with the sessions that replace it; background agents belong to one session and
// end with it.
//
// It is also the district of the packages that only an agent with a project needs; the districts durable and the
// program may import them, run, confine and the root package may not:
//
//	             engine/command        the slash commands: only what a Session exports
//	                   |
//	                engine             this package
//	        /          |         \
//	engine/project   plugin   servers, serverfiles
//
//	engine/part      features that a session can be without (undo, what was read, plan, web, browser, memory, worktrees,
//	                 schedules, batches); the program gives them
//	engine/project   config (settings), trust, instructions (AGENTS.md, rules, agents, templates), install (plugins and
//	                 skills from elsewhere), worktree; none imports another
//	plugin           what a plugin's folder contains
//	servers          the MCP servers of a directory while they run; serverfiles: where they are defined
//	installer        adds and updates plugins and skills; it imports this package
//	skillstats       how skills were used
//	transcript       conversations as pages, and those of other agents as sessions; this package does not use it
//
// Nothing in this package prints, reads the process's working directory after Open, or reads its
// environment other than through [Options].Env.
package engine
