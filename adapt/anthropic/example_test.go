package skills_test

import (
	"context"
	"fmt"
	"log"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/adapt"
	skills "github.com/knack-agent/knack/adapt/anthropic"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// client returns a client of a server that speaks the vendor's format and answers from a script, and a func that stops
// the server and says what it refused. A program has anthropic.NewClient() here.
func client(answers ...llmtest.Answer) (anthropic.Client, func()) {
	server := llmtest.NewServer(answers...)
	return anthropic.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey(llmtest.Key)), func() {
		server.Close()
		for _, why := range server.Refused() {
			fmt.Println("refused by the server:", why)
		}
	}
}

// The library's tool runner calls the skills by itself.
func ExampleTools() {
	client, stop := client(
		llmtest.Answer{Want: []string{"greet: Greet someone"}, Calls: []llmtest.Call{{Name: "Skill",
			Input: map[string]any{"skill": "greet", "args": "Ada"}}}},
		llmtest.Answer{Want: []string{"Greet Ada warmly"}, Text: "Dear Ada!"})
	defer stop()

	ctx := context.Background()
	trusted := knack.Origin{Kind: knack.User, Trust: knack.Trusted} // else the model does not see them
	library := knack.NewLibrary(ctx, knack.Dir("../testdata/skills", trusted))
	runner := client.Beta.Messages.NewToolRunnerStreaming(skills.Tools(adapt.New(library.Catalog, adapt.Options{})),
		anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropic.BetaMessageNewParams{
			Model: anthropic.ModelClaudeOpus4_5, MaxTokens: 1000,
			Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Greet Ada"))}}})
	for events, err := range runner.AllStreaming(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		for event, err := range events {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(event.Delta.Text)
		}
	}
	// Output: Dear Ada!
}

// A loop of one's own: the skills answer their calls, and the next message of the user says which skills came
// meanwhile.
func ExampleResults() {
	client, stop := client(
		llmtest.Answer{Calls: []llmtest.Call{{Name: "Skill", Input: map[string]any{"skill": "greets"}}}},
		llmtest.Answer{Want: []string{`refused \(code 2\): unknown skill: greets; did you mean greet`},
			Text: "There is none."},
		llmtest.Answer{Want: []string{"available from now on:\n- part: Say goodbye", "Thanks"}, Text: "Bye."})
	defer stop()

	ctx := context.Background()
	trusted := knack.Origin{Kind: knack.User, Trust: knack.Trusted} // else the model does not see them
	library := knack.NewLibrary(ctx, knack.Dir("../testdata/skills", trusted))
	offered := adapt.New(library.Catalog, adapt.Options{})
	params := anthropic.MessageNewParams{Model: anthropic.ModelClaudeOpus4_5, MaxTokens: 1000,
		Tools: skills.Params(offered)}
	for _, typed := range []string{"Greet Ada", "Thanks"} {
		next := []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(offered.Changes() + typed)}
		for len(next) > 0 {
			params.Messages = append(params.Messages, anthropic.NewUserMessage(next...))
			answer := anthropic.Message{}
			stream := client.Messages.NewStreaming(ctx, params)
			for stream.Next() {
				if err := answer.Accumulate(stream.Current()); err != nil {
					log.Fatal(err)
				}
			}
			if err := stream.Err(); err != nil {
				log.Fatal(err)
			}
			params.Messages = append(params.Messages, answer.ToParam())
			next = skills.Results(ctx, offered, &answer) // and the results of your own tools
			if len(next) == 0 {
				fmt.Println(answer.Content[0].Text)
			}
		}
		library.Add(ctx, knack.Dir("../testdata/later", trusted))
	}
	// Output:
	// There is none.
	// Bye.
}
