package command

import (
	"testing"

	"github.com/knack-agent/knack"
)

func TestSwitchSkill(t *testing.T) {
	for state, want := range map[knack.SkillState]string{
		knack.Active:     "/settings skills.overrides.pdf off",
		knack.UserOnly:   "/settings skills.overrides.pdf off",
		knack.Off:        "/settings skills.overrides.pdf on",
		knack.FeatureOff: "", // a feature decides, not this setting
	} {
		if got := switchSkill("pdf", state); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}

func TestWindowSize(t *testing.T) {
	for tokens, want := range map[int]string{8192: "8k", 200_000: "200k", 1_000_000: "1M", 1_048_576: "1.05M"} {
		if got := windowSize(tokens); got != want {
			t.Errorf("%d: %s, want %s", tokens, got, want)
		}
	}
}
