package permission

import "testing"

// TestServerOrigins: a rule of user or project settings counts only for servers of the same origin.
func TestServerOrigins(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		rule, server Origin
		want         Verdict
	}{
		{User, User, Allow}, {User, Flag, Allow}, {User, Session, Allow}, {User, Project, Ask},
		{Managed, Managed, Allow}, {Managed, Project, Ask},
		{Project, Project, Allow}, {Project, User, Ask}, {Project, Managed, Ask},
		{Flag, Project, Allow}, {Session, Project, Allow}, {Kept, Project, Allow},
	} {
		r, err := ParseRule("mcp__s", x.rule)
		if err != nil {
			t.Fatal(err)
		}
		s := Subject{Kind: "mcp__s__t", Tool: "mcp__s__t", Server: x.server}
		if d := (Rules{Allow: []Rule{r}}).Decide(t.Context(), Default, PathContext{}, s); d.Verdict != x.want {
			t.Errorf("a rule of %s for a server of %s: %v, want %v", x.rule, x.server, d.Verdict, x.want)
		}
		if d := (Rules{Deny: []Rule{r}}).Decide(t.Context(), Default, PathContext{}, s); d.Verdict != Deny {
			t.Errorf("a deny rule of %s for a server of %s: %v", x.rule, x.server, d.Verdict)
		}
	}
}
