package vim

import (
	"strings"
)

// A command is what keys mean in normal and visual mode.
type command struct {
	count int    // 0: none
	op    string // an operator, which key then limits; "": key is a motion or a command of its own
	key   string // a motion or a command; of a text object i or a; the operator once more: whole lines
	char  string // of f F t T r: the character; of a text object: which one
}

// times returns the count, or 1.
func (c command) times() int { return max(c.count, 1) }

type parsed uint8

const (
	incomplete parsed = iota
	complete
	invalid
)

const (
	operators = "d c y < >"
	motions   = "h j k l w W b B e E ge 0 ^ $ gg G ; , % enter backspace"
	commands  = motions + " x X D C Y S s ~ J p P o O i a I A u ctrl+r . v V"
	selected  = motions + " x X D C Y S s R ~ J p P o v V u U d c y < >" // commands of visual mode
	objects   = `w W " ' ` + "`" + ` ( ) b [ ] { } B < >`
)

func listed(list, key string) bool {
	for one := range strings.FieldsSeq(list) {
		if one == key {
			return true
		}
	}
	return key == " " && list != operators && list != objects
}

// parse reads the keys of a command.
func parse(keys []string, visual bool) (c command, state parsed) {
	if keys[0] == ":" { // the caller runs commands of the command line: what is typed up to Enter does nothing here
		if keys[len(keys)-1] == "enter" {
			return c, invalid
		}
		return c, incomplete
	}
	count, keys := number(keys)
	c.count = count
	if len(keys) > 1 && keys[0] == `"` { // the name of a register: all names are the same one
		if count, keys = number(keys[2:]); count > 0 {
			c.count = min(c.times()*count, maxCount)
		}
	}
	if len(keys) == 0 || keys[0] == `"` {
		return c, incomplete
	}
	if !visual && listed(operators, keys[0]) {
		c.op = keys[0]
		count, keys = number(keys[1:])
		if count > 0 {
			c.count = min(c.times()*count, maxCount)
		}
		if len(keys) == 0 {
			return c, incomplete
		}
		if keys[0] == c.op {
			c.key = c.op
			return c, complete
		}
	}
	c.key, keys = keys[0], keys[1:]
	if c.key == "g" {
		if len(keys) == 0 {
			return c, incomplete
		}
		c.key, keys = "g"+keys[0], keys[1:]
	}
	object := (c.key == "i" || c.key == "a") && (visual || c.op != "")
	if strings.Contains("f F t T r", c.key) && c.key != " " && !(c.key == "r" && c.op != "") || object {
		if len(keys) == 0 {
			return c, incomplete
		}
		c.char = keys[0]
		if object && !listed(objects, c.char) {
			return c, invalid
		}
		return c, complete
	}
	allowed := commands
	switch {
	case visual:
		allowed = selected
	case c.op != "":
		allowed = motions
	}
	if !listed(allowed, c.key) {
		return c, invalid
	}
	return c, complete
}

// number reads a count, which does not begin with 0.
func number(keys []string) (n int, rest []string) {
	for len(keys) > 0 && len(keys[0]) == 1 && '0' <= keys[0][0] && keys[0][0] <= '9' && (n > 0 || keys[0] != "0") {
		n = min(n*10+int(keys[0][0]-'0'), maxCount)
		keys = keys[1:]
	}
	return n, keys
}
