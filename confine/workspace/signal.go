package workspace

// signals are signals that can end a command, with the numbers and names that all systems share.
var signals = [...]struct {
	n          int
	name, text string
}{
	{1, "HUP", "hangup"}, {2, "INT", "interrupt"}, {3, "QUIT", "quit"}, {4, "ILL", "illegal instruction"},
	{6, "ABRT", "aborted"}, {8, "FPE", "floating point exception"}, {9, "KILL", "killed"},
	{11, "SEGV", "segmentation fault"}, {13, "PIPE", "broken pipe"}, {14, "ALRM", "alarm clock"},
	{15, "TERM", "terminated"},
}
