package session_test

import (
	"fmt"
	"os"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A session is recorded entry by entry, and the entries determine what the model sees.
func Example() {
	dir, _ := os.MkdirTemp("", "example-*")
	defer os.RemoveAll(dir)
	store := session.Store{Dir: dir}
	log, err := store.Create(session.Header{ID: "first", Dir: "/work"})
	if err != nil {
		panic(err)
	}
	log.Append(session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text("hello")}}})
	log.Append(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{
		Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text("Hello to you.")}}}})
	log.Close()

	log, err = store.Open("first")
	if err != nil {
		panic(err)
	}
	defer log.Close()
	for _, m := range log.Project() {
		fmt.Printf("%s: %s\n", m.Role, llm.TextOf(m.Parts))
	}
	fmt.Println(log.State().Turns, "turn")
	// Output:
	// user: hello
	// assistant: Hello to you.
	// 1 turn
}
