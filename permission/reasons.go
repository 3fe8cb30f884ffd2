package permission

// ReasonUntrusted is the reason of a decision that no rule can change, only
// trust in the folder.
const ReasonUntrusted = "git obeys the configuration of a folder that is not trusted"

// Reasons that people read where a decision is shown. Those that say what a
// command does come with the command.
const (
	reasonNoRule     = "no rule covers this"
	reasonNoSubject  = "the call names nothing that could be judged"
	reasonBypass     = "mode " + string(Bypass)
	reasonDontAsk    = "mode " + string(DontAsk)
	reasonPlan       = "mode plan: nothing but reading"
	reasonAsksNobody = "it asks for nothing"
	reasonInside     = "inside the workspace"
	reasonOutside    = "outside the workspace"
	reasonNamed      = "named by a command that is allowed"
	reasonNothing    = "nothing runs"
	reasonReads      = "only reads"
	reasonFunction   = "a function of this command, whose body is judged"
	reasonVariable   = "a variable that may change what a program does"
	reasonDoubt      = "what is not known in it may be what this rule means"
	reasonUnknownDir = "the directory is not known in which it runs"
	reasonRelative   = "the directory it is relative to is not known"
	reasonFile       = "the file is not known before it runs"
	reasonNetwork    = "bash opens a network connection"
	reasonGitMoved   = "git after cd obeys another repository's configuration"
	reasonManyFiles  = "too many files below to know that none of them is meant by this rule"
	reasonManyLinks  = "too many files below to know where its links lead"
)
