package permission

import "github.com/knack-agent/knack/confine/permission/internal/bash"

// ReasonUntrusted is the reason of a decision that only trusting the folder can change, not a rule.
const ReasonUntrusted = "git would use the configuration of an untrusted folder"

// Reasons that programs distinguish.
const (
	ReasonNoRule    = "no rule covers this"
	ReasonOutside   = "outside the workspace"
	ReasonProtected = "protected path: "   // followed by the pattern that protects it
	ReasonSecret    = "secret: "           // followed by the pattern
	ReasonExpansion = bash.ReasonExpansion // followed by the word
	ReasonScript    = bash.ReasonScript
	ReasonInput     = bash.ReasonInput
)

// Reasons shown to the user with a decision. Reasons for a particular command come from its
// analysis in permission/internal/bash.
const (
	reasonNoSubject     = "the call names no subject to decide on"
	reasonBypass        = "mode " + string(Bypass)
	reasonDontAsk       = "mode " + string(DontAsk)
	reasonPlan          = "mode plan allows only reading"
	reasonAsksNobody    = "it requests no permissions"
	reasonDocumentation = "a host of documentation"
	reasonInside        = "inside the workspace"
	reasonSession       = "the session's own directory"
	reasonOtherName     = "it is a hard link to a file that the rule covers"
	reasonNamed         = "named by an allowed command"
	reasonWholeLine     = ReasonProtected + "git's own file, which the other programs of the line could write, too"
	reasonReplaced      = ReasonProtected + "a new git repository, with whatever it contains"
	reasonHeld          = ", in this directory"
	reasonNothing       = "nothing runs"
	reasonReads         = "only reads"
	reasonFunction      = "a function defined in this command; its body is judged"
	reasonVariable      = "a variable that may change the behaviour of a program"
	reasonDoubt         = "its unknown part may match this rule"
	reasonUnknownDir    = "the directory in which it runs is not known"
	reasonRelative      = "the path is relative to an unknown directory"
	reasonFile          = "the file is not known before it runs"
	reasonNetwork       = "bash opens a network connection"
	reasonGitMoved      = "git after cd uses another repository's configuration"
	reasonManyFiles     = "too many files below to check them all against this rule"
	reasonCheckout      = "it is in another work tree of the repository than this session"
	reasonOtherTree     = "it is not known in which work tree git would act"
	reasonPolicyAsk     = "the definition of its MCP server asks about each call of it"
	reasonPolicyDeny    = "the definition of its MCP server denies it"
	reasonManyLinks     = "too many files below to check all links"

	// These are followed by the pattern, file or word.
	reasonEndless    = "it may read without end: "
	reasonLinkLeaves = "a link points outside the workspace, to "
	reasonTag        = "a tag may look like an option: "
	reasonSelects    = "this file may select another program: "

	reasonUnknownFile = "rules deny files, no complete sandbox closes them to commands, and this word may name one of them: "
)
