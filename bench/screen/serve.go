package main

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A server answers from a script, one piece after the other, with pauses as from a real model.
type server struct {
	script *llmtest.Server
	http   *httptest.Server
	pace   time.Duration // time between two pieces
}

func serve(pace time.Duration, answers ...llmtest.Answer) *server {
	s := &server{script: llmtest.NewServer(answers...), pace: pace}
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.script.ServeHTTP(paced{w, s.pace}, r)
	}))
	return s
}

// env returns environment variables that make a program use the server.
func (s *server) env() []string {
	url := s.http.URL
	return []string{
		"ANTHROPIC_API_KEY=" + llmtest.Key, "ANTHROPIC_BASE_URL=" + url,
		"OPENAI_API_KEY=" + llmtest.Key, "OPENAI_BASE_URL=" + url + "/v1",
	}
}

func (s *server) close() {
	s.script.Close()
	s.http.CloseClientConnections()
	s.http.Close()
}

// paced waits after each piece that it sends.
type paced struct {
	http.ResponseWriter
	pace time.Duration
}

func (p paced) Flush() {
	p.ResponseWriter.(http.Flusher).Flush()
	time.Sleep(p.pace)
}
