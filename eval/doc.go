// Package eval measures whether a skill is found and whether it helps.
//
// A [Set] has what is asked of one skill: a [Query] is a prompt that should call the skill, or should not, and a [Case]
// is a task with the checks that its result must pass. A run answers three questions in one [Report]:
//
//   - Routing: which skill does a model call for each query, out of the whole listing that it sees? See [Routing].
//   - Task: do the checks of a case pass more often with the skill than without it, or than with an older one? Each
//     [Trial] is one conversation in a directory of its own. See [Tasks].
//   - Cost: how many tokens do the listing, the text of the skill and each trial take? See [Cost].
//
// The steps are funcs that a caller may replace:
//
//	Runner   runs one trial: the engine in a fresh directory, or a test's own func
//	Seam     wraps the model of one trial, such as to record or to replay what it answers
//	Judge    decides about one plain sentence with a quotation from the transcript
//
// Nothing in this package prints or asks, and it knows no format of files. Package record keeps what models answer, and
// gives a Seam the means to replay it. Only the program and tests import this district.
package eval
