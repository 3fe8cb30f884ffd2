package knack_test

import (
	"context"
	"fmt"
	"strings"
	"testing/fstest"

	"github.com/knack-agent/knack"
)

var shelf = fstest.MapFS{
	"greet/SKILL.md": {Data: []byte(`---
name: greet
description: Greets people. Use when somebody wants to be greeted.
allowed-tools: Bash(git log:*)
arguments: whom
---
Greet $whom warmly.
Last change: !` + "`git log -1 --format=%s -- \"$whom\"`" + `
`)},
}

func ExampleCatalog_Invoke() {
	ctx := context.Background()
	catalog := knack.Load(ctx, knack.FS(shelf, knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted}))
	a, err := catalog.Invoke(ctx, knack.Invocation{
		Name: "greet", Args: "'Ada Lovelace'",
		Shell: func(_ context.Context, _ *knack.Activation, line string, env []string) (string, error) {
			return fmt.Sprintf("[%s with %s]", line, env), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, text, _ := strings.Cut(a.Prompt, "\n\n")
	fmt.Print(text)
	fmt.Println("grants:", a.Grants)
	// Output:
	// Greet Ada Lovelace warmly.
	// Last change: [git log -1 --format=%s -- "${KNACK_ARG_0}" with [KNACK_ARG_0=Ada Lovelace]]
	// grants: [Bash(git log:*)]
}

func ExampleCatalog_Invoke_refused() {
	ctx := context.Background()
	catalog := knack.Load(ctx, knack.FS(shelf, knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted}))
	_, err := catalog.Invoke(ctx, knack.Invocation{Name: "greets", By: knack.ByModel})
	refusal := err.(*knack.Refusal)
	fmt.Println(refusal.Code, refusal.Message)
	// Output: 2 unknown skill: greets; did you mean greet?
}

func ExampleSkill_Asks() {
	ctx := context.Background()
	catalog := knack.Load(ctx, knack.FS(shelf, knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted}))
	asks, err := catalog.Skill("greet").Asks(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("nothing:", asks.IsEmpty())
	fmt.Println("tools:", asks.Grants)
	fmt.Println("commands:", asks.Commands)
	// An approval is for these bytes: Invocation{Hash: asks.Hash}.
	fmt.Println(strings.HasPrefix(asks.Hash, "sha256:"))
	// Output:
	// nothing: false
	// tools: [Bash(git log:*)]
	// commands: [git log -1 --format=%s -- "$whom"]
	// true
}

func ExampleCatalog_Describe() {
	ctx := context.Background()
	catalog := knack.Load(ctx, knack.FS(shelf, knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted}))
	text, err := catalog.Describe(knack.Invocation{Name: "greet"})
	fmt.Println(text, err)
	// Output:
	// greet
	//
	// Greets people. Use when somebody wants to be greeted.
	//  <nil>
}

func ExampleExpandTemplate() {
	text, _ := knack.ExpandTemplate("Review $1 for ${2:-everything}. All: $@", "main.go")
	fmt.Println(text)
	// Output: Review main.go for everything. All: main.go
}

func ExampleCheckName() {
	fmt.Println(knack.CheckName("release-notes") == "")
	fmt.Println(knack.CheckName("release--notes"))
	// Output:
	// true
	// contains two hyphens in a row
}
