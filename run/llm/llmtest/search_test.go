package llmtest_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestSearch: the providers' own search, in the formats that have one, in the vendor's shape.
func TestSearch(t *testing.T) {
	found := []llm.Source{{Title: "One", URL: "https://a.example/1", Site: "a.example", Text: "It says so."},
		{Title: "Two", URL: "https://b.example/2", Site: "b.example"}}
	want := map[string]string{
		"anthropic": "web_search_20250305\na.example", "responses": "web_search\na.example", "gemini": "googleSearch"}
	for _, x := range formats {
		t.Run(x.name, func(t *testing.T) {
			s := llmtest.NewServer(llmtest.Answer{Text: "done", Found: found, Want: []string{want[x.name]}})
			defer s.Close()
			m := x.open(endpoint(s.URL + x.path))
			a := ask(t.Context(), m, &llm.Request{Search: &llm.Search{Allowed: []string{"a.example"}},
				Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text("find it")}}}})
			if x.name == "chat" {
				var e *llm.Error
				if m.Info().Search || !errors.As(a.err, &e) || e.Kind != llm.Invalid || len(s.Requests()) > 0 {
					t.Errorf("%+v %v", m.Info(), a.err)
				}
				return
			}
			if a.err != nil || a.done == nil || !m.Info().Search {
				t.Fatal(a.err, s.Refused())
			}
			expect := slices.Clone(found)
			for i := range expect {
				switch x.name {
				case "gemini": // it names only the domain
					expect[i].Title = expect[i].Site
				case "responses":
					expect[i].Text = ""
					fallthrough
				default:
					expect[i].Site = ""
				}
			}
			if !slices.Equal(a.done.Sources, expect) {
				t.Errorf("%+v", a.done.Sources)
			}
		})
	}
}
