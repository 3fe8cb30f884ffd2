package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// camel returns a flag's name in camelCase.
func camel(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// TestFlagSpellings: with structured input every flag works in both spellings, with its value after = and as the next
// word.
func TestFlagSpellings(t *testing.T) {
	t.Parallel()
	structured := []string{"--input-format", "stream-json"}
	flags := rootCommand(nil).Flags()
	flags.VisitAll(func(f *pflag.Flag) {
		for _, name := range []string{f.Name, camel(f.Name)} {
			args := []string{"--" + name + "=x"}
			if f.NoOptDefVal == "" {
				args = append(args, "--"+name, "VALUE")
			} else {
				args = append(args, "--"+name)
			}
			args = append(args, structured...)
			root := rootCommand(nil)
			kept, problems, err := withoutUnknown(root, args)
			if err != nil || len(problems) > 0 || !slices.Equal(kept, args) {
				t.Errorf("%q: %q, %v, %v", args, kept, problems, err)
			}
			if found := root.Flags().Lookup(name); found == nil || found.Name != f.Name {
				t.Errorf("--%s is %v", name, found)
			}
		}
	})
}

// TestEmptyArguments: with structured input, an empty argument is only the value of a flag that takes one.
func TestEmptyArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--replay-user-messages||--input-format|stream-json|--model|": "--replay-user-messages|--input-format|" +
			"stream-json|--model|",
		"--later||--input-format=stream-json||-p": "--input-format=stream-json|-p",
		"|-p|hello":     "|-p|hello",
		"--verbose||-p": "--verbose||-p",
	} {
		kept, _, err := withoutUnknown(rootCommand(nil), strings.Split(args, "|"))
		if got := strings.Join(kept, "|"); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", args, got, err, want)
		}
	}
}

// TestRestrictingWords: with structured input, an unknown flag whose name says that it restricts is an error.
func TestRestrictingWords(t *testing.T) {
	t.Parallel()
	root := rootCommand(nil)
	for _, flag := range []string{"--denyEverything", "--read-only", "--no-shell=1", "--strict-things", "--max-files=3",
		"--rateLimit", "--restricted", "--permission-file=x", "--sandbox-profile=x", "--managed-rules=x",
		"--disallow-network", "--resume-drops-turn=x", "--plugin-dir-no-mcp=x"} {
		if _, _, err := withoutUnknown(root, []string{flag, "--input-format", "stream-json"}); err == nil {
			t.Errorf("%s: no error", flag)
		}
	}
}

// TestAlmostRestricting: with structured input, a flag within two edits of one that restricts is an error; one that
// is further away is ignored with its value.
func TestAlmostRestricting(t *testing.T) {
	t.Parallel()
	root := rootCommand(nil)
	flags := root.Flags()
	for _, name := range restricting {
		if flags.Lookup(name) == nil {
			t.Errorf("the flag --%s does not exist", name)
		}
		for i := range name {
			for _, wrong := range []string{
				name[:i] + name[i+1:], name[:i] + "x" + name[i:], name[:i] + "q" + name[i+1:], name[:i] + "xy" + name[i:],
				"z" + name[:i] + name[i+1:],
			} {
				known, read, _ := flagOf(flags, "--"+wrong)
				if known != nil || read == "" || read == "name" { // another flag
					continue
				}
				for _, spelled := range []string{wrong, camel(wrong)} {
					if strings.Contains(wrong, "--") || strings.HasSuffix(wrong, "-") || strings.HasPrefix(wrong, "-") {
						spelled = wrong
					}
					for _, args := range [][]string{
						{"--" + spelled, "Bash", "--input-format", "stream-json"},
						{"--input-format=stream-json", "--" + spelled + "=Bash"},
						{"--" + spelled + "=Bash", "--inputFormat=stream-json"},
					} {
						if _, _, err := withoutUnknown(root, args); err == nil {
							t.Errorf("%q: no error", args)
						}
					}
				}
			}
		}
	}
	for _, args := range [][]string{
		{"--future-option", "VALUE"}, {"--futureOption=VALUE"}, {"--channels=a,b"},
		{"--label=x"}, {"--await-initialize"},
	} {
		kept, problems, err := withoutUnknown(root, append(args, "--input-format", "stream-json"))
		if err != nil || len(problems) != 1 || len(kept) != 2 {
			t.Errorf("%q: %q, %v, %v", args, kept, problems, err)
		}
	}
}
