package bundled_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing/fstest"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bundled"
)

// A host ships a skill with a script and the permission to run it. In a real program the file system is an embed.FS.
func ExampleFrom() {
	var skills fs.FS = fstest.MapFS{
		"report/SKILL.md": {Data: []byte(`---
name: report
description: Writes the weekly report. Use when somebody asks for it.
allowed-tools: Bash(${CLAUDE_SKILL_DIR}/scripts/week.sh:*), Read
---
Run {baseDir}/scripts/week.sh and write down what it prints.
`)},
		"report/scripts/week.sh": {Data: []byte("#!/bin/sh\ndate +%V\n")},
	}
	state, err := os.MkdirTemp("", "state-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(state)
	set := bundled.From(skills, state, "1.0")
	defer set.Close()

	ctx := context.Background()
	act, err := knack.Load(ctx, set).Invoke(ctx, knack.Invocation{Name: "report", By: knack.ByUser})
	if err != nil {
		fmt.Println(err)
		return
	}
	shown := func(text string) string { return strings.ReplaceAll(text, act.Dir, "DIR") }
	for _, grant := range act.Grants {
		fmt.Println("grants", shown(grant))
	}
	fmt.Println("files", act.Resources)
	fmt.Println("expanded", strings.Contains(shown(act.Prompt), "Run DIR/scripts/week.sh"))
	info, err := os.Stat(act.Dir + "/scripts/week.sh")
	fmt.Println("script", err == nil && info.Mode().IsRegular())
	// Output:
	// grants Bash(DIR/scripts/week.sh:*)
	// grants Read
	// files [scripts/week.sh]
	// expanded true
	// script true
}
