package bash

// A CommandLine is a parsed command line: what bash would do, as far as this is known without
// running it.
type CommandLine struct {
	Commands []*SimpleCommand // in textual order, including those inside substitutions and functions
	Files    []*Redirect      // redirections to and from files
	Assigns  []*Assign        // assignments that may change the behaviour of a program
	Unclear  []Unclear        // constructs that no rule can allow

	Items      []any   // all of the above, in order
	Moves      []Chdir // changes of the working directory, in order
	Background bool    // it starts a command in the background
	Loose      bool    // a change is in a loop or a function, so it may apply to every command
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
	Reason string   // why Effect is not Reads, if that needs an explanation
	Opaque string   // if not "", only a rule that spells out the whole command can allow it, for this reason
	Inner  []Inner  // the commands that it runs
	Files  []File   // the files that its words name
	Danger []Danger // words that a rule must spell out

	Assigns []*Assign // the assignments before it
	Written []string  // the same as written, with harmless ones; nil: there are none of these
	At      int       // number of the command line's Moves before it
	Moved   bool      // it runs only if the first of them took place

	Ends       bool    // a reading command that ends even if a file has no end
	Function   bool    // it calls a function defined in the same command line, whose body is judged
	Git        bool    // a git command, which uses the repository's configuration
	AsksGit    bool    // it runs git, which only reads
	Subcommand int     // of a git command: index of the subcommand in Words
	Enters     []*Word // of a git command that would only read without them: the directories of -C, in order
	GitReads   bool    // a git command whose subcommand only reads, whatever comes before it
	RunsScript bool    // a shell that runs a script given by its path
	Absolute   bool    // this path is absolute
	SelectedBy string  // names, separated by spaces, of files here or above that change which program its name runs

	stdin       string // content of a quoted here-document that it reads
	hasDoc      bool
	shaped      bool // it only reads although it contains expansions
	safeOptions bool // no option makes it do more than read
	printsOnly  bool // it only prints, whatever its arguments are
}

// A Danger is a word that a rule must spell out, because it makes a command do something that its
// other words do not indicate.
type Danger struct {
	Word   int
	Reason string
	Dir    string // if not "", the word only names this directory, which is harmless inside the workspace
	Write  bool   // Dir is a file or directory that is written; temporary ones are harmless too
	Open   bool   // a rule for all uses of the program covers it
}

// An Inner is a command line that a command runs.
type Inner struct {
	Script *CommandLine
	Name   int // index of the word that names the inner command, -1 if none; a rule that spells it out covers it
}

// A File is a file that a command's words name.
type File struct {
	Word   *Word
	Text   string // if not "", a part of Word to use instead
	Write  bool
	Both   bool // with Write: it may be read, too
	Tree   bool // everything below it is read too; with Write, removed
	Follow bool // links below it are followed
}

// Values returns the possible paths of a file, as far as they are known.
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
	Both   bool // the operator is <>: the file is read too
	Target Word
	At     int  // number of the command line's Moves before it
	Moved  bool // it takes place only if the first of them did
}

// An Assign is an assignment NAME=value.
type Assign struct {
	Text    string
	InWords bool // it is among the arguments of env
}

// An Unclear is a piece of text that cannot be analysed, with the reason.
type Unclear struct {
	Text, Reason string

	Limit bool // it exceeds a limit of the analysis
}

// A Chdir is a change of the working directory.
type Chdir struct {
	Word  *Word  // the target; nil: none given
	Loose bool   // it is in a loop or a function
	Any   bool   // the target is unknown
	Made  []Made // with Any: where it leads if it is a directory for temporary files
}
