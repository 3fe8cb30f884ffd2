package tui

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/terminal"
)

// BenchmarkToken measures the cost of one token of an answer, with a frame for each.
func BenchmarkToken(b *testing.B) {
	v := newView()
	v.running, v.conv.width = true, 80
	screen := &terminal.Screen{Out: io.Discard, Theme: styled.ThemeFor(false)}
	screen.Resize(80, 24)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		piece := fmt.Sprintf("word%d ", i)
		switch i % 50 {
		case 0:
			piece += "\n\n"
		case 25:
			piece += "\n- "
		}
		v.conv.event(text(piece), noon)
		final := v.conv.take()
		live, cursor := v.live(80, 24, noon.Add(time.Duration(i)*20*time.Millisecond))
		if err := screen.Show(final, live, cursor); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTyping measures the cost of a key at the prompt, which must not depend on the length of the conversation.
func BenchmarkTyping(b *testing.B) {
	v := newView()
	v.conv.width = 80
	screen := &terminal.Screen{Out: io.Discard, Theme: styled.ThemeFor(false)}
	screen.Resize(80, 24)
	for i := range 50_000 {
		v.conv.add(blockAnswer, styled.S(styled.Text, fmt.Sprintf("line %d of the conversation", i)))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%200 == 199 {
			v.prompt.Clear()
		}
		v.prompt.Insert("x")
		live, cursor := v.live(80, 24, noon)
		if err := screen.Show(v.conv.take(), live, cursor); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompletion measures the cost of a key while files are offered.
func BenchmarkCompletion(b *testing.B) {
	p := newPicker("", manyFiles(100_000))
	queries := []string{"s", "so", "som", "pkg7test", "file_99"}
	for i := 0; b.Loop(); i++ {
		p.query = queries[i%len(queries)]
		p.filter()
		p.lines(80, 8)
	}
}

// BenchmarkPaste measures the cost of a frame with a long text at the prompt.
func BenchmarkPaste(b *testing.B) {
	var e editor.Editor
	for range 200 {
		e.Insert("one line of a long prompt that is edited by hand\n")
	}
	for b.Loop() {
		e.Insert("x")
		e.Rows(78)
		e.Backspace()
	}
}
