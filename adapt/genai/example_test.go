package skills_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/genai"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/adapt"
	skills "github.com/knack-agent/knack/adapt/genai"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// client returns a client of a server that speaks the vendor's format and answers from a script, and a func that stops
// the server and says what it refused. A program has genai.NewClient(ctx, nil) here.
func client(ctx context.Context, answers ...llmtest.Answer) (*genai.Client, func()) {
	server := llmtest.NewServer(answers...)
	c, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: llmtest.Key, Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: server.URL}})
	if err != nil {
		log.Fatal(err)
	}
	return c, func() {
		server.Close()
		for _, why := range server.Refused() {
			fmt.Println("refused by the server:", why)
		}
	}
}

// A loop around a chat. The next message of the user says which skills came meanwhile.
func ExampleTools() {
	ctx := context.Background()
	client, stop := client(ctx,
		llmtest.Answer{Want: []string{"greet: Greet someone"}, Calls: []llmtest.Call{{Name: "Skill",
			Input: map[string]any{"skill": "greets", "args": "Ada"}}}},
		llmtest.Answer{Want: []string{`refused \(code 2\): unknown skill: greets; did you mean greet`},
			Calls: []llmtest.Call{{Name: "Skill", Input: map[string]any{"skill": "greet", "args": "Ada"}}}},
		llmtest.Answer{Want: []string{"Greet Ada warmly"}, Text: "Dear Ada!"},
		llmtest.Answer{Want: []string{"available from now on:\n- part: Say goodbye", "Thanks"}, Text: "Bye."})
	defer stop()

	trusted := knack.Origin{Kind: knack.User, Trust: knack.Trusted} // else the model does not see them
	library := knack.NewLibrary(ctx, knack.Dir("../testdata/skills", trusted))
	offered := adapt.New(library.Catalog, adapt.Options{})
	chat, err := client.Chats.Create(ctx, "gemini-3-pro", &genai.GenerateContentConfig{Tools: skills.Tools(offered)}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, typed := range []string{"Greet Ada", "Thanks"} {
		next := []*genai.Part{genai.NewPartFromText(offered.Changes() + typed)}
		for len(next) > 0 {
			var calls []*genai.FunctionCall
			for piece, err := range chat.SendStream(ctx, next...) {
				if err != nil {
					log.Fatal(err)
				}
				if called := piece.FunctionCalls(); len(called) > 0 {
					calls = append(calls, called...)
				} else {
					fmt.Print(piece.Text())
				}
			}
			next = skills.Results(ctx, offered, calls) // and the responses of your own functions
		}
		fmt.Println()
		library.Add(ctx, knack.Dir("../testdata/later", trusted))
	}
	// Output:
	// Dear Ada!
	// Bye.
}
