package bash

// A CommandLine is a parsed command line: what bash would do, as far as that is known
// without running it.
type CommandLine struct {
	Commands []*SimpleCommand // in the order of the text, those inside substitutions and functions too
	Files    []*Redirect      // redirections to and from files
	Assigns  []*Assign        // assignments that may change what a program does
	Unclear  []Unclear        // constructs that no rule can allow

	Items []any   // all of the above, in order
	Moves []Chdir // changes of the directory, in order
	Loose bool    // a change is in a loop or a function: it may apply to every command
}

// An Effect is what a command does according to its name and words.
type Effect uint8

const (
	Runs  Effect = iota // it may do anything
	Reads               // it only reads its Files
	Wraps               // it does what its Inner commands do
)

// A SimpleCommand is one simple command.
type SimpleCommand struct {
	Text  string // its words as written, joined by single spaces
	Words []Word

	Effect Effect
	Reason string   // why it is not Reads, if that needs an explanation
	Opaque string   // why only a rule that spells out all of it can allow it
	Inner  []Inner  // what it runs in turn
	Files  []File   // what its words name
	Danger []Danger // words that a rule must spell out

	Assigns []*Assign // the assignments before it
	At      int       // how many of the script's Moves come before it

	Function   bool   // it calls a function of the same script, whose body is judged
	Git        bool   // a git command, which uses the repository's configuration
	AsksGit    bool   // it runs git to read
	Subcommand int    // of git: the index of the word
	RunsScript bool   // a shell with the path of a script
	Absolute   bool   // which is absolute
	Obeys      string // files in its directory or above that change which program its name runs, separated by blanks

	stdin       string // a quoted here-document that it reads
	hasDoc      bool
	shaped      bool // it only reads although it holds expansions
	safeOptions bool // no option makes it do more than read
	printsOnly  bool // nothing that it is given makes it do more than print
}

// A Danger is a word that a rule must spell out, because it makes a command do
// something else than its other words say.
type Danger struct {
	Word   int
	Reason string
	Dir    string // it only names this directory: no danger inside the workspace
	Write  bool   // Dir is a file or directory that it writes; those for temporary files are no danger either
	Open   bool   // a rule for all uses of the program covers it
}

// An Inner is what a command runs in turn.
type Inner struct {
	Script *CommandLine
	Name   int // the word that names the inner command; a rule that spells it out covers it. -1: none does
}

// A File is a file that a command's words name.
type File struct {
	Word   *Word
	Text   string // instead of Word: a part of one
	Write  bool
	Tree   bool // everything below it is read as well
	Follow bool // links below are followed
}

// Values returns the paths that a file may have, as far as they are known.
func (f *File) Values() []string {
	switch {
	case f.Text != "":
		return []string{f.Text}
	case f.Word == nil:
		return nil
	case f.Word.Values != nil:
		return f.Word.Values
	case f.Word.Prefix != "" && !f.Word.Many:
		return []string{f.Word.Prefix}
	}
	return nil
}

// A Redirect is a redirection to or from a file.
type Redirect struct {
	Text   string // operator and target as written
	Write  bool
	Both   bool // <>: read as well
	Target Word
	At     int // how many of the script's Moves come before it
}

// An Assign is NAME=value.
type Assign struct {
	Text    string
	InWords bool // among the words of env
}

// An Unclear is a piece of text with the reason why it cannot be analysed.
type Unclear struct {
	Text, Reason string

	Limit bool // it exceeds a limit of the analysis
}

// A Chdir is a change of the working directory.
type Chdir struct {
	Word  *Word // where to
	Loose bool  // it is in a loop or a function
	Any   bool  // its target directory is not known
}
