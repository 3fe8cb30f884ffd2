package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm/models"
	"github.com/knack-agent/knack/run/tool/coding"
)

// completions registers the shell completion of flag values.
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
	fixed("debug", append([]string{"all"}, engine.DebugTopics...)...)
	fixed("setting-sources", "user", "project", "user,project")
	fixed("permission-prompt-tool", "stdio")
	c.ValidArgsFunction = completeAgent
}

// completeAgent completes the names of agents that a prompt can use.
func completeAgent(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if !strings.HasPrefix(word, "@") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	p, err := engine.Load(c.Context(), new(projectFlags).options())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer p.Close()
	var names []string
	for _, a := range p.Agents() {
		names = append(names, "@agent-"+a.Name+"\t"+plain.Line(a.Description))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeServer completes the names of MCP servers.
func completeServer(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	p, err := engine.Load(c.Context(), new(projectFlags).options())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer p.Close()
	servers, _ := p.Servers()
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeTool completes the names of tools.
func completeTool(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return part.ToolsOutside(nil, nil, coding.Options{Jobs: new(coding.Jobs)}).Names(), cobra.ShellCompDirectiveNoFileComp
}

// completeSession completes the sessions of the working directory, the latest first.
func completeSession(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if c.HasParent() && len(args) > 0 { // session show takes one argument
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	p, err := engine.Load(c.Context(), new(projectFlags).options())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer p.Close()
	all, _ := engine.Env(nil).Sessions(p.Dir()).List() // on an error, the sessions that can be read
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID+"\t"+plain.Line(s.Title))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeProvider completes the names of providers.
func completeProvider(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range models.Known().Providers {
		names = append(names, p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
