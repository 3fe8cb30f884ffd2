package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/confine/permission"
)

// ModelLimits are the restrictions of models in Claude Code's settings. The zero value restricts nothing.
type ModelLimits struct{ held []held }

// ModelLimits returns the restrictions of models.
func (c *Config) ModelLimits() ModelLimits { return ModelLimits{c.held} }

// Check returns an error if a model, named provider/model, may not be used. byDefault means that nobody chose it:
// availableModels restricts what is chosen, unless enforceAvailableModels or availableModelsMatch says more. Each level
// with a list must contain a model: a project adds nothing to the list of a user, and a user nothing to an
// administrator's.
func (m ModelLimits) Check(id string, byDefault bool) error {
	exact := m.has("availableModelsMatch", "exact")
	byDefault = byDefault && !exact && !m.has("enforceAvailableModels", "")
	lists := map[permission.Origin]bool{}
	where := map[permission.Origin]Position{}
	for _, h := range m.held {
		switch h.name {
		case "deniedModels":
			for _, it := range h.val.items {
				if coversModel(it.text, id, deniesModel) {
					return fmt.Errorf("%s:%d: deniedModels contains %q, which is %s", h.Path, h.Line, it.text, id)
				}
			}
		case "availableModels":
			how := allowsModel
			if exact {
				how = allowsExactly
			}
			where[h.level] = h.Position
			lists[h.level] = lists[h.level] || slices.ContainsFunc(h.val.items, func(it *node) bool {
				return coversModel(it.text, id, how)
			})
		}
	}
	for level, ok := range lists {
		if !ok && !byDefault {
			return fmt.Errorf("%s:%d: availableModels does not contain %s", where[level].Path, where[level].Line, id)
		}
	}
	return nil
}

// Provider returns an error if a provider may not be used: each list of allowedProviders must have its name. own means
// that requests go to the provider's own host, the only one that a name in a list stands for.
func (m ModelLimits) Provider(name string, own bool) error {
	for _, h := range m.held {
		if h.name != "allowedProviders" ||
			own && slices.ContainsFunc(h.val.items, func(n *node) bool { return n.text == name }) {
			continue
		}
		if !own {
			name += " at a host of somebody else"
		}
		return fmt.Errorf("%s:%d: allowedProviders does not contain %s", h.Path, h.Line, name)
	}
	return nil
}

// Listed returns the entries of availableModels, in order: what may take the place of a default that is not allowed.
func (m ModelLimits) Listed() (names []string) {
	for _, h := range m.held {
		if h.name == "availableModels" {
			for _, it := range h.val.items {
				names = append(names, it.text)
			}
		}
	}
	return names
}

// Effort returns the highest effort for a model, named provider/model; "": any. In one file the value for a model
// replaces that for all; of several files the lowest counts.
func (m ModelLimits) Effort(id string) string {
	files := map[string]held{}
	for _, h := range m.held {
		own := h.name == "modelSettings.*.maxEffortLevel" && coversModel(h.of, id, deniesModel)
		if _, found := files[h.Path]; own || h.name == "maxEffortLevel" && !found {
			files[h.Path] = h
		}
	}
	lowest := len(efforts)
	for _, h := range files {
		lowest = min(lowest, slices.Index(efforts, h.val.text))
	}
	if lowest == len(efforts) {
		return ""
	}
	return efforts[lowest]
}

// LowerEffort returns the lower of two efforts. One that has another name counts as the lowest.
func LowerEffort(a, b string) string {
	if slices.Index(efforts, b) < slices.Index(efforts, a) {
		return b
	}
	return a
}

// has reports whether a restriction has a value; "": any.
func (m ModelLimits) has(name, value string) bool {
	return slices.ContainsFunc(m.held, func(h held) bool {
		return h.name == name && (value == "" || h.val.text == value)
	})
}

// How an entry of a list covers the name of a model.
const (
	allowsModel   = iota // as it is written, and what extends it
	allowsExactly        // dates and -fast may differ, versions may not
	deniesModel          // every spelling of it and of later minor versions
)

var modelNames = sync.OnceValue(func() (r struct{ date, vendor, build *regexp.Regexp }) {
	r.date = regexp.MustCompile(`[-@](20\d{6}|latest)$`)
	r.vendor = regexp.MustCompile(`^(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|mistral|google|openai)\.`)
	r.build = regexp.MustCompile(`-v\d+(:\d+)?$`)
	return r
})

// plainModel returns the name of a model without what says where it runs: provider, region, window.
func plainModel(name string) string {
	name, _, _ = strings.Cut(path.Base(strings.ToLower(strings.TrimSpace(name))), "[")
	name = modelNames().build.ReplaceAllString(modelNames().vendor.ReplaceAllString(name, ""), "")
	return strings.ReplaceAll(strings.ReplaceAll(name, ".", "-"), "@", "-")
}

// undatedModel returns a plain name without date, -latest and -fast.
func undatedModel(name string) string {
	for {
		short := strings.TrimSuffix(modelNames().date.ReplaceAllString(name, ""), "-fast")
		if short == name {
			return name
		}
		name = short
	}
}

// coversModel reports whether an entry of a list covers a model, named provider/model. An entry without a number is a
// family: "opus" covers every version of it.
func coversModel(entry, id string, how int) bool {
	e, name := plainModel(entry), plainModel(id)
	switch e {
	case "", ".", "best", "opusplan", "default": // what these mean depends on the release
		return false
	}
	if strings.Contains(entry, "/") && how != deniesModel && !strings.EqualFold(path.Dir(entry), path.Dir(id)) {
		return false
	}
	if !strings.ContainsAny(e, "0123456789") && !strings.Contains(e, "-") {
		return slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == ':' || r == '_' }), e)
	}
	if how != allowsModel {
		e, name = undatedModel(e), undatedModel(name)
	}
	for _, full := range []string{e, "claude-" + e} {
		if rest, ok := strings.CutPrefix(name, full); ok && (rest == "" || how != allowsExactly && !isWord(rest[0])) {
			return true
		}
	}
	return false
}

func isWord(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
