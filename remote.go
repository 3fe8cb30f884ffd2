package knack

// ParseHead makes a Skill from the head of a SKILL.md that is not on disk, such as one
// on a server: the frontmatter between its fences, and optionally the start of the text.
// path names the file in problems and becomes the ID; size is the size of the whole file
// in bytes, or 0 if unknown. The caller sets Read and List. The Skill is nil if there is
// nothing to load.
func ParseHead(path string, head []byte, size int64, o Origin) (*Skill, []Problem) {
	s, _, problems := parseFile(path, head, o)
	if s != nil {
		s.Size = size
	}
	return s, problems
}
