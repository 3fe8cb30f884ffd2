package session

import "encoding/json"

// A Form says what the details of a result are for people, and so how a front end shows the result. The tool says it,
// with a method Form of its details, and the log keeps it: members of details mean nothing by their names alone,
// because servers, hooks and other programs choose theirs freely. The zero Form: the text of the result is shown.
type Form string

// The forms that results may have.
const (
	FormChange Form = "change" // of a file, see [Result.Change]
	FormOutput Form = "output" // of a command, see [Result.Output]
	FormAgent  Form = "agent"  // the end of a sub-agent, see [Result.SubAgent]
	FormTodos  Form = "todos"  // the list of steps after the call, see [Result.Todos]
	FormShared Form = "shared" // the same, of the session whose agent made the call
)

// A ShownChange is what people see of a change in a file.
type ShownChange struct {
	Diff    string `json:"diff"`  // unified; untrusted text
	Added   int    `json:"added"` // lines
	Removed int    `json:"removed"`
}

// ShownOutput is what people see of a command's output.
type ShownOutput struct {
	Bytes  *int64 `json:"bytes"`  // that the command wrote; nil: not known
	Status string `json:"status"` // ends the text, and is for the model
	// Refused is what the sandbox refused, in lines for people.
	Refused []string `json:"refused"`
}

// DetailsForm returns the form of a result's details, also in a log from before forms were recorded.
func (r *Result) DetailsForm() Form {
	if r.Form != "" || r.Original != nil {
		return r.Form
	}
	switch r.Name {
	case "edit", "write", "Edit", "Write":
		return FormChange
	case "bash", "Bash":
		return FormOutput
	case "Agent", "Task":
		return FormAgent
	case "todo", "TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate", "TaskList":
		return FormTodos
	}
	return ""
}

// Change returns the change of a file that a result reports. The zero value: it reports none.
func (r *Result) Change() (c ShownChange) { return detailsAs[ShownChange](r, FormChange) }

// Output returns what is known about the output of a command. The zero value: the result is not of a command.
func (r *Result) Output() (o ShownOutput) { return detailsAs[ShownOutput](r, FormOutput) }

// SubAgent returns the sub-agent whose end a result reports; nil: it reports none.
func (r *Result) SubAgent() *Agent {
	if a := detailsAs[Agent](r, FormAgent); a.Log != "" && a.Result != "" {
		return &a
	}
	return nil
}

// Todos returns the details of a result with the list of steps; nil: it has none, or it failed.
func (r *Result) Todos() json.RawMessage {
	if form := r.DetailsForm(); r.IsError || form != FormTodos && form != FormShared {
		return nil
	}
	return r.Details
}

// Shared reports whether a result shows the list of the session also if an agent made the call.
func (r *Result) Shared() bool { return r.DetailsForm() == FormShared }

// detailsAs decodes the details of a result with a form; those of another form, or with a mistake, are empty.
func detailsAs[T any](r *Result, form Form) (v T) {
	var zero T
	if r.DetailsForm() != form || json.Unmarshal(r.Details, &v) != nil {
		return zero
	}
	return v
}
