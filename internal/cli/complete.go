package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/llm/models"
	"github.com/knack-agent/knack/permission"
)

// completions offers values of flags to the shell.
func (f *runFlags) completions(c *cobra.Command) {
	fixed := func(flag string, values ...string) {
		c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	fixed("output-format", "text", "json", "stream-json")
	fixed("input-format", "text", "stream-json")
	fixed("effort", "low", "medium", "high", "xhigh", "max")
	fixed("sandbox", "auto", "require", "off")
	fixed("tools", "none", "all", "readOnly", "coding", "default")
	fixed("permission-mode", string(permission.Default), string(permission.AcceptEdits), string(permission.Plan),
		string(permission.DontAsk), string(permission.Bypass))
	c.RegisterFlagCompletionFunc("model", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		names := []string{"fast", "default", "strong", "offline"}
		table := models.Known()
		for _, p := range table.Providers {
			names = append(names, table.Names(p)...)
		}
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	})
	c.RegisterFlagCompletionFunc("resume", completeSession)
}

// completeSession offers the sessions of the working directory, the last first.
func completeSession(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	p, err := engine.Load(c.Context(), engine.Options{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer p.Close()
	all, _ := engine.Env(nil).Sessions(p.Dir()).List() // what can be read
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID+"\t"+plain.Line(s.Title))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeProvider offers the names of providers.
func completeProvider(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range models.Known().Providers {
		names = append(names, p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
