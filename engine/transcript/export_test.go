package transcript

import "io"

const MaxLine = maxLine

var (
	Update     = update
	Rich       = rich
	Written    = written
	LogOf      = logOf
	User       = user
	Answer     = answer
	Identifier = identifier
)

// Lines reads lines of at most the given number of bytes.
func Lines(r io.Reader, most int64) ([]Line, error) { return newBuilder(ReadOptions{}).lines(r, most) }
