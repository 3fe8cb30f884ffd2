package knack_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/knack-agent/knack"
)

// skills stands for a program's directory of skills.
var skills = fstest.MapFS{
	"pdf/SKILL.md": {Data: []byte("---\ndescription: Read PDF files\n---\nRead $ARGUMENTS with pdftotext.\n")},
	"zig/SKILL.md": {Data: []byte("---\ndescription: Write Zig\npaths: \"*.zig\"\n---\nUse zig fmt.\n")},
}

var mine = knack.Origin{Kind: knack.User, Trust: knack.Trusted}

func ExampleLoad() {
	cat := knack.Load(context.Background(), knack.FS(skills, mine))
	for _, s := range cat.Skills() {
		fmt.Println(s.Name, "-", s.Description)
	}
	for _, p := range cat.Problems() {
		fmt.Println(p.Code, p.Path)
	}
	// Output:
	// pdf - Read PDF files
	// zig - Write Zig
	// name-missing user:pdf/SKILL.md
	// name-missing user:zig/SKILL.md
}

func ExampleCatalog_Listing() {
	cat := knack.Load(context.Background(), knack.FS(skills, mine))
	view := knack.View{For: knack.ByModel, Window: 200_000, Dir: "/src"}
	before := cat.Listing(view)
	fmt.Print(before.Text)

	view.Touched = []string{"/src/main.zig"} // by a tool
	fmt.Print(cat.Listing(view).Since(before.Fingerprints()).Text())
	// Output:
	// - pdf: Read PDF files
	// These skills are available from now on:
	// - zig: Write Zig
}

func ExampleCatalog_Why() {
	cat := knack.Load(context.Background(), knack.FS(skills, mine))
	for _, f := range cat.Why("zig", knack.View{}).Found {
		fmt.Println(f.State, "because", f.Reason)
	}
	fmt.Println(cat.Why("pdg", knack.View{}).Near)
	// Output:
	// conditional because it waits until a tool touches a file that matches *.zig; the user can call it
	// [pdf]
}

func ExampleLibrary() {
	ctx := context.Background()
	lib := knack.NewLibrary(ctx, knack.FS(skills, mine))
	more := fstest.MapFS{"pdf/SKILL.md": {Data: []byte("---\ndescription: Of a folder below\n---\n")}}
	lib.Add(ctx, knack.FS(more, knack.Origin{Kind: knack.Project, Trust: knack.Trusted, Nested: "pkg"}))
	fmt.Println(lib.Catalog().Skill("pdf").Description)
	fmt.Println(lib.Catalog().Skill("pkg:pdf").Description)
	// Output:
	// Read PDF files
	// Of a folder below
}

func ExampleCatalog_Commands() {
	cat := knack.Load(context.Background(), knack.FS(skills, mine))
	builtin := []knack.SlashCommand{{Name: "help", Kind: "command"}}
	templates := []knack.SlashCommand{{Name: "pdf", Kind: "template"}}
	all, problems := cat.Commands(knack.View{}, builtin, templates)
	for _, c := range all {
		fmt.Println("/" + c.Name)
	}
	fmt.Println(problems[0])
	// Output:
	// /help
	// /pdf
	// /zig
	// /template:pdf
	// /pdf is the skill user:pdf/SKILL.md: this template is called /template:pdf
}
