package tool

import (
	"os"
	"testing"
)

// TestSkillSchema: the schema of the Skill tool is that of its input. UPDATE_SCHEMAS=1 writes it anew.
func TestSkillSchema(t *testing.T) {
	want, err := SchemaOf[SkillInput]()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_SCHEMAS") != "" {
		if err := os.WriteFile("skill.json", append(want, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if got := Skill("", nil, nil).Schema; string(got) != string(want) {
		t.Errorf("skill.json is not up to date: UPDATE_SCHEMAS=1 go test ./run/tool -run SkillSchema")
	}
}
