package permission

// Names are what a tool of this program is called where people write names of
// tools: first the name that users of other agents know, then every other one,
// its own among them. A tool that has no other name is called by its own.
func Names(tool string) []string {
	for _, all := range [][]string{
		{"Bash", "bash"}, {"Read", "read"}, {"Edit", "edit", "MultiEdit", "NotebookEdit"}, {"Write", "write"},
		{"Grep", "grep"}, {"Glob", "find"}, {"LS", "ls"}, {"Skill", "skill"}, {"Agent", "agent", "Task"},
		{"WebFetch", "web_fetch"}, {"AskUserQuestion", "ask"}, {"BashOutput", "bash_output"},
		{"KillShell", "bash_kill", "KillBash"},
	} {
		for _, name := range all {
			if name == tool {
				return all
			}
		}
	}
	return []string{tool}
}
