// Package engine builds a running agent from a directory: its settings, trust,
// skills, hooks, agents, model, workspace and gate. It is the program without a
// front end.
package engine
