package knack

import "github.com/knack-agent/knack/internal/frontmatter"

// ParseHead makes a Skill of the head of a SKILL.md that lies elsewhere, such as at
// a server: the frontmatter between its fences, and perhaps the beginning of the
// text. path names it in problems, and is its ID; size is that of the whole file
// in bytes, 0 unknown. The caller sets Read and List. The Skill is nil if there is
// nothing to load.
func ParseHead(path string, head []byte, size int64, o Origin) (*Skill, []Problem) {
	s, _, problems := parse(path, head, o, true, frontmatter.Parse)
	if s != nil {
		s.Size = size
	}
	return s, problems
}
