package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// settings writes which file sets what, and how a file would change.
func (s *Server) settings(r *http.Request, p *page) error {
	project, err := s.dir.read(r.Context())
	if err != nil {
		return err
	}
	query := r.URL.Query()
	p.begin("Settings", "What is set here, and the files that set it. The first file wins. What may contain secrets is "+
		"shown by name only.")
	p.problems(project, project.SettingsProblems())
	p.F("<h2 id=\"set\">What is set</h2>\n<div class=\"table\" role=\"region\" aria-labelledby=\"set\" " +
		"tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Setting</th><th scope=\"col\">Value</th>" +
		"<th scope=\"col\">Set in</th></tr></thead>\n" +
		"<tbody>\n")
	values := project.Values()
	for _, v := range values {
		var places []string
		for _, at := range v.Positions {
			place := string(at.Origin)
			if at.Path != "" {
				place = fmt.Sprintf("%s:%d", project.Short(at.Path), at.Line)
			}
			if !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
		p.F("<tr><td class=\"path\">%s</td><td class=\"path\">%s</td><td class=\"path\">%s</td></tr>\n", v.Key,
			string(v.Value), strings.Join(places, ", "))
	}
	p.F("</tbody></table></div>\n")
	if len(values) == 0 {
		p.F("<p class=\"soft\">Nothing is set: the defaults hold.</p>\n")
	}
	files := project.SettingsFiles()
	p.F("<h2 id=\"files\">Files</h2>\n")
	var where []fact
	for _, f := range files {
		where = append(where, text(f.Scope, project.Short(f.Path)+ifString(f.Exists, " (exists)", " (does not exist yet)")))
	}
	p.facts(where...)
	for _, u := range project.Foreign().Unused() {
		p.F("<details class=\"card\"><summary>%s has settings without effect here</summary>\n<ul>\n", project.Short(u.Path))
		for _, line := range u.Lines() {
			p.F("<li>%s</li>\n", line)
		}
		p.F("</ul></details>\n")
	}
	p.draft(files, query.Get("key"), query.Get("value"), query.Get("in"), query.Get("add") != "")
	p.everySetting()
	return nil
}

// everySetting writes the table of `knack help settings`, in which a name fills in the form above.
func (p *page) everySetting() {
	p.F("<h2 id=\"every\">Every setting</h2>\n<div class=\"table\" role=\"region\" aria-labelledby=\"every\" " +
		"tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Setting</th><th scope=\"col\">Takes</th>" +
		"<th scope=\"col\">What it does</th></tr></thead>\n<tbody>\n")
	for _, k := range config.Keys() {
		p.F("<tr><td><a href=\"%s\">%s</a></td><td>%s</td><td>%s</td></tr>\n",
			markup.Address("/settings", "key", k.Name)+"#draft", k.Name, k.Type, k.Doc)
	}
	p.F("</tbody></table></div>\n")
}

// draft writes a form for a change, and how the file would change.
func (p *page) draft(files []engine.SettingsFile, key, value, in string, add bool) {
	var scopes []choice
	for _, f := range files {
		scopes = append(scopes, choice{f.Scope, f.Scope})
	}
	p.F("<h2 id=\"draft\">Try a change</h2>\n<p>Nothing is written. A value that is not JSON is a text; without one, the " +
		"key is removed.</p>\n")
	known := slices.IndexFunc(config.Keys(), func(k config.Key) bool { return k.Name == key })
	var about config.Key
	if known >= 0 {
		about = config.Keys()[known]
		p.F("<p><b>%s</b> (%s): %s</p>\n", about.Name, about.Type, about.Doc)
	}
	p.F("<form class=\"filter\" action=\"/settings\">\n<label>Setting <input name=\"key\" value=\"%s\"></label>\n", key)
	if about.Values != nil {
		values := []choice{{"", "not set"}}
		for _, v := range about.Values {
			values = append(values, choice{v, v})
		}
		p.choose("Value", "value", value, values)
	} else {
		p.F("<label class=\"wide\">Value <input name=\"value\" value=\"%s\"></label>\n", value)
	}
	p.choose("File", "in", in, scopes)
	p.F("<label class=\"check\"><input type=\"checkbox\" name=\"add\" value=\"1\"%s> add it to the list</label>\n"+
		"<button>Show the difference</button></form>\n", ifText(add, " checked"))
	i := slices.IndexFunc(files, func(f engine.SettingsFile) bool { return f.Scope == in })
	if key == "" || i < 0 {
		return
	}
	var data json.RawMessage
	if value != "" {
		data = engine.SettingValue(value)
	}
	before, after, err := files[i].Draft(key, data, add)
	if err != nil {
		p.F("<p class=\"said bad\" role=\"status\">%s</p>\n", sentence(plain.Line(err.Error())))
		return
	}
	diff := udiff.Unified(files[i].Path, files[i].Path, before, after)
	if diff == "" {
		p.F("<p class=\"said\" role=\"status\">Nothing would change in %s.</p>\n", files[i].Path)
		return
	}
	p.diff(diff)
	if p.token != "" && in == "user" && !add && value != "" {
		p.form("/settings/save", "key", key, "value", value)
		p.F("<button>Save</button></form>\n")
	}
}
