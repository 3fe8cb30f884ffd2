package cli

import (
	"io"
	"iter"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack"
)

// The types of a SARIF 2.1.0 log, as far as code scanning reads them:
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"semanticVersion"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"` // relative to the current directory, if it is below it
			} `json:"artifactLocation"`
			Region *sarifRegion `json:"region,omitempty"`
		} `json:"physicalLocation"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
	}
)

// writeSARIF writes the problems of skills as a SARIF log.
func writeSARIF(w io.Writer, skills iter.Seq[checkedSkill]) error {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "knack skill check", Version: version(), Rules: []sarifRule{}}
	known := map[knack.Code]bool{}
	for s := range skills {
		for _, p := range s.Problems {
			if !known[p.Code] {
				known[p.Code] = true
				run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: string(p.Code)})
			}
			run.Results = append(run.Results, sarifOf(s, p))
		}
	}
	return writeJSON(w, sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{run}})
}

func sarifOf(s checkedSkill, p knack.Problem) sarifResult {
	r := sarifResult{RuleID: string(p.Code), Level: "note", Message: sarifText{p.Message}}
	switch p.Severity {
	case knack.Error:
		r.Level = "error"
	case knack.Warn:
		r.Level = "warning"
	}
	if p.Hint != "" {
		r.Message.Text += ": " + p.Hint
	}
	path := p.Path
	if path == "" {
		path = s.Path
	}
	var at sarifLocation
	at.Physical.Artifact.URI = fileURI(path)
	if p.Line > 0 {
		at.Physical.Region = &sarifRegion{p.Line, p.Column}
	}
	r.Locations = []sarifLocation{at}
	return r
}

// fileURI returns a path as a URI reference: a relative one if the path is relative.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
		u.Path = "/" + strings.TrimPrefix(u.Path, "/") // C:/x has none
	}
	return u.String()
}
