package wire

import "github.com/knack-agent/knack/run/llm"

// Sources collects what a search found, each URL once. The zero Sources is empty.
type Sources struct {
	list []llm.Source
	at   map[string]int
}

// Add adds a source, or what is not known yet of one that was added before.
func (s *Sources) Add(x llm.Source) {
	if x.URL == "" {
		return
	}
	if s.at == nil {
		s.at = map[string]int{}
	}
	i, ok := s.at[x.URL]
	if !ok {
		s.at[x.URL] = len(s.list)
		s.list = append(s.list, x)
		return
	}
	have := &s.list[i]
	if have.Title == "" {
		have.Title = x.Title
	}
	if x.Text != "" && have.Text != "" {
		have.Text += " … "
	}
	have.Text += x.Text
}

// List returns the sources in the order in which their URLs came.
func (s *Sources) List() []llm.Source { return s.list }
