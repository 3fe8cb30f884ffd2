package engine

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/llm/models"
)

// TestUnknownModel: a model that is neither in the table nor in the provider's own list is tried with a warning; one
// that a skill names only with the session's provider.
func TestUnknownModel(t *testing.T) {
	status := http.StatusOK
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/models" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("request of %s with %v", r.URL, r.Header)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"data": [{"id": "big-1"}, {"id": "small-1"}]}`)
	}))
	defer vendor.Close()
	var doubts []string
	m := &Models{
		Env: func(name string) string {
			return map[string]string{"VENDOR_KEY": "secret", "HOME": t.TempDir()}[name]
		},
		Tables: []models.Table{{
			Providers: []models.Provider{{Name: "vendor", Format: models.Chat, Base: vendor.URL,
				KeyEnv: []string{"VENDOR_KEY"}}, {Name: "other", Base: vendor.URL, KeyEnv: []string{"VENDOR_KEY"}}},
			Models: map[string]models.Model{"vendor/known": {Window: 1000, Input: 1, Output: 1}},
		}},
		Warn: func(text string) { doubts = append(doubts, text) },
	}
	for _, name := range []string{"vendor/known", "vendor/big-1"} {
		if found, err := m.Default(t.Context(), name); err != nil || found.Info().ID != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	var e *Error
	if _, err := m.Default(t.Context(), "vendr/big-1"); !errors.As(err, &e) || e.Hint != "knack --model vendor/big-1" {
		t.Errorf("%v %+v", err, e)
	}
	if len(doubts) > 0 {
		t.Errorf("doubts: %q", doubts)
	}
	status = http.StatusNotFound
	m.Forget()
	if _, err := m.Default(t.Context(), "vendor/knwon"); err != nil {
		t.Error(err)
	}
	if len(doubts) != 1 || !strings.Contains(doubts[0], "vendor/knwon") ||
		!strings.HasSuffix(doubts[0], "did you mean vendor/known?") {
		t.Errorf("doubts: %q", doubts)
	}
	status, doubts = http.StatusOK, nil
	for _, name := range []string{"bog-1", "vendor/bog-1"} {
		m.Forget()
		if found, err := m.Tried(t.Context(), name, "vendor/known"); err != nil || found.Info().ID != "vendor/bog-1" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(doubts) != 2 || !strings.Contains(doubts[0], "nor in the provider's list") ||
		!strings.HasSuffix(doubts[0], "did you mean vendor/big-1?") {
		t.Errorf("doubts: %q", doubts)
	}
	if found, err := m.Default(t.Context(), "vendor/bog-1"); err != nil || found.Info().ID != "vendor/bog-1" {
		t.Error(err)
	}
	for _, name := range []string{"other/bog-1", "other/known"} {
		var unknown *models.Unknown
		if _, err := m.Tried(t.Context(), name, "vendor/known"); !errors.As(err, &unknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrice: the cost of a model can be limited only if its price is known.
func TestPrice(t *testing.T) {
	m := &Models{}
	for id, want := range map[string]bool{"vendor/x": false, "ollama/llama3": true, "offline": true} {
		if err := m.Price(llm.Info{ID: id}); (err == nil) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := m.Price(llm.Info{ID: "vendor/x", Price: llm.Price{Input: 1}}); err != nil {
		t.Error(err)
	}
}

// TestBetas: betas and a budget for a task are in the header, after those of the settings.
func TestBetas(t *testing.T) {
	t.Parallel()
	server := llmtest.NewServer(llmtest.Reply("hi"))
	defer server.Close()
	m := &Models{Betas: []string{"one"}, TaskBudget: 5000, Env: func(name string) string {
		for _, kv := range server.Env() {
			if k, v, _ := strings.Cut(kv, "="); k == name {
				return v
			}
		}
		return ""
	}, Tables: []models.Table{{Providers: []models.Provider{{Name: "anthropic", Header: map[string]string{
		"anthropic-beta": "own"}}}}}}
	model, err := m.Default(t.Context(), "anthropic/claude-opus-5-5")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range model.Stream(t.Context(), &llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text("hi")}}}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := server.Requests()[0].Header.Get("Anthropic-Beta"); got != "own,one,"+taskBudgets {
		t.Errorf("the header is %q", got)
	}
}
