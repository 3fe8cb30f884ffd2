package knack

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestClashes: Clashes returns the problems of Commands, for names that collide also after renaming.
func TestClashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.SampledFrom(strings.Fields(
			"a b c skill:a skill:b skill:skill:a template:a command:b template:template:a")))
		var r sourceReading
		for _, name := range names.Draw(t, "skills") {
			r.skills = append(r.skills, &Skill{Name: name, ID: name, NotUser: rapid.Bool().Draw(t, "NotUser"),
				Origin: Origin{Trust: Trusted}})
		}
		commands := func(what string) (list []SlashCommand) {
			for _, name := range names.Draw(t, what) {
				list = append(list, SlashCommand{Name: name,
					Kind: rapid.SampledFrom([]CommandKind{CommandProgram, CommandTemplate, CommandSkill}).Draw(t, "kind")})
			}
			return list
		}
		c, first, rest := catalog([]sourceReading{r}), commands("first"), commands("rest")
		v := View{Overrides: map[string]SkillState{"a": rapid.SampledFrom([]SkillState{Active, Off}).Draw(t, "a")}}
		_, want := c.Commands(v, first, rest)
		if got := c.Clashes(v, first, rest); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}
