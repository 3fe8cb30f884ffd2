package skills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/adapt"
	skills "github.com/knack-agent/knack/adapt/openai"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// client returns a client of a server that speaks the vendor's format and answers from a script, and a func that stops
// the server and says what it refused. A program has openai.NewClient() here.
func client(answers ...llmtest.Answer) (openai.Client, func()) {
	server := llmtest.NewServer(answers...)
	return openai.NewClient(option.WithBaseURL(server.URL+"/v1"), option.WithAPIKey(llmtest.Key)), func() {
		server.Close()
		for _, why := range server.Refused() {
			fmt.Println("refused by the server:", why)
		}
	}
}

// A loop with the Responses API. The next message of the user says which skills came meanwhile.
func ExampleTools() {
	client, stop := client(
		llmtest.Answer{Want: []string{"greet: Greet someone"}, Calls: []llmtest.Call{{Name: "Skill",
			Input: map[string]any{"skill": "greet", "args": "Ada"}}}},
		llmtest.Answer{Want: []string{"Greet Ada warmly"}, Text: "Dear Ada!"},
		llmtest.Answer{Want: []string{"available from now on:\n- part: Say goodbye", "Thanks"}, Text: "Bye."})
	defer stop()

	ctx := context.Background()
	trusted := knack.Origin{Kind: knack.User, Trust: knack.Trusted} // else the model does not see them
	library := knack.NewLibrary(ctx, knack.Dir("../testdata/skills", trusted))
	offered := adapt.New(library.Catalog, adapt.Options{})
	params := responses.ResponseNewParams{Model: openai.ChatModelGPT5_2, Store: openai.Bool(false),
		Tools: skills.Tools(offered)}
	for _, typed := range []string{"Greet Ada", "Thanks"} {
		next := []responses.ResponseInputItemUnionParam{
			responses.ResponseInputItemParamOfMessage(offered.Changes()+typed, responses.EasyInputMessageRoleUser)}
		for len(next) > 0 {
			params.Input.OfInputItemList = append(params.Input.OfInputItemList, next...)
			var answer responses.Response
			stream := client.Responses.NewStreaming(ctx, params)
			for stream.Next() {
				if e := stream.Current(); e.Type == "response.completed" {
					answer = e.AsResponseCompleted().Response
				}
			}
			if err := stream.Err(); err != nil {
				log.Fatal(err)
			}
			for _, item := range answer.Output {
				params.Input.OfInputItemList = append(params.Input.OfInputItemList,
					param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
			}
			next = skills.Results(ctx, offered, &answer) // and the outputs of your own tools
			if len(next) == 0 {
				fmt.Println(answer.OutputText())
			}
		}
		library.Add(ctx, knack.Dir("../testdata/later", trusted))
	}
	// Output:
	// Dear Ada!
	// Bye.
}

// A loop with Chat Completions, as for Ollama, vLLM and gateways.
func ExampleChatTools() {
	client, stop := client(
		llmtest.Answer{Calls: []llmtest.Call{{Name: "Skill", Input: map[string]any{"skill": "greets"}}}},
		llmtest.Answer{Want: []string{`refused \(code 2\): unknown skill: greets; did you mean greet`},
			Text: "There is none."})
	defer stop()

	ctx := context.Background()
	trusted := knack.Origin{Kind: knack.User, Trust: knack.Trusted} // else the model does not see them
	offered := adapt.New(knack.NewLibrary(ctx, knack.Dir("../testdata/skills", trusted)).Catalog, adapt.Options{})
	params := openai.ChatCompletionNewParams{Model: openai.ChatModelGPT5_2, Tools: skills.ChatTools(offered)}
	next := []openai.ChatCompletionMessageParamUnion{openai.UserMessage(offered.Changes() + "Greet Ada")}
	for len(next) > 0 {
		params.Messages = append(params.Messages, next...)
		var answer openai.ChatCompletionAccumulator
		stream := client.Chat.Completions.NewStreaming(ctx, params)
		for stream.Next() {
			answer.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			log.Fatal(err)
		}
		message := answer.Choices[0].Message
		params.Messages = append(params.Messages, message.ToParam())
		next = skills.ChatResults(ctx, offered, message) // and the results of your own tools
		fmt.Print(message.Content)
	}
	// Output: There is none.
}
