package acp

import (
	"context"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/run/session"
)

// The options that the client can change.
const (
	optionMode   sdk.SessionConfigId = "mode"
	optionModel  sdk.SessionConfigId = "model"
	optionEffort sdk.SessionConfigId = "effort"
)

// modes returns the permission modes that the client can choose, and the current one.
func (c *conversation) modes() (all []engine.Option, now permission.Mode) {
	now = c.session().Mode()
	all = command.Modes()
	if !slices.ContainsFunc(all, func(o engine.Option) bool { return o.ID == string(now) }) {
		all = append(all, engine.Option{ID: string(now), Label: string(now)}) // with which the program was started
	}
	return all, now
}

// options describes the mode, the model and the effort.
func (c *conversation) options(ctx context.Context) []sdk.SessionConfigOption {
	s := c.session()
	modes, mode := c.modes()
	all := []sdk.SessionConfigOption{selection(optionMode, "Mode", sdk.SessionConfigOptionCategoryMode, string(mode), modes)}
	if m, err := s.Model(ctx); err == nil {
		now := m.Info().ID
		all = append(all, selection(optionModel, "Model", sdk.SessionConfigOptionCategoryModel, now, command.Models(s, now)))
		if m.Info().Thinking {
			efforts := append([]engine.Option{{ID: session.DefaultEffort, Label: "default"}}, command.Efforts()...)
			all = append(all, selection(optionEffort, "Effort", sdk.SessionConfigOptionCategoryThoughtLevel,
				orDefault(s.Now().Effort()), efforts))
		}
	}
	return all
}

func orDefault(effort string) string {
	if effort == "" {
		return session.DefaultEffort
	}
	return effort
}

// selection is an option with a list of values. The one in effect is always among them.
func selection(id sdk.SessionConfigId, name string, kind sdk.SessionConfigOptionCategory, now string,
	values []engine.Option) sdk.SessionConfigOption {
	if !slices.ContainsFunc(values, func(o engine.Option) bool { return o.ID == now }) {
		values = append([]engine.Option{{ID: now, Label: now}}, values...)
	}
	list := sdk.SessionConfigSelectOptionsUngrouped{}
	for _, v := range values {
		o := sdk.SessionConfigSelectOption{Value: sdk.SessionConfigValueId(v.ID), Name: v.Label}
		if v.Help != "" {
			o.Description = &v.Help
		}
		list = append(list, o)
	}
	return sdk.SessionConfigOption{Select: &sdk.SessionConfigOptionSelect{Id: id, Name: name, Category: &kind,
		CurrentValue: sdk.SessionConfigValueId(now), Type: "select",
		Options: sdk.SessionConfigSelectOptions{Ungrouped: &list}}}
}

// set changes an option, for the session.
func (c *conversation) set(ctx context.Context, id sdk.SessionConfigId, value string) error {
	var to session.Setting
	switch id {
	case optionMode:
		to.Mode = permission.Mode(value)
	case optionModel:
		to.Model = value
	case optionEffort:
		to.Effort = value
	default:
		return sdk.NewInvalidParams(map[string]any{"error": "there is no option " + string(id)})
	}
	if strings.TrimSpace(value) == "" {
		return sdk.NewInvalidParams(map[string]any{"error": "the value of " + string(id) + " is empty"})
	}
	if err := c.session().Set(ctx, to); err != nil {
		e := sdk.NewInvalidParams(nil)
		e.Message = failure(err).Message
		return e
	}
	return nil
}

// opened is the state of the session when it is opened.
func (c *conversation) opened(ctx context.Context) opened {
	modes, now := c.modes()
	state := &sdk.SessionModeState{CurrentModeId: sdk.SessionModeId(now)}
	for _, m := range modes {
		state.AvailableModes = append(state.AvailableModes, sdk.SessionMode{Id: sdk.SessionModeId(m.ID), Name: m.Label,
			Description: &m.Help})
	}
	out := opened{Modes: state, Options: c.options(ctx)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told.mode, c.told.options = now, encoded(out.Options)
	return out
}
