package markdown

import (
	"archive/zip"
	_ "embed"
	"go/scanner"
	"go/token"
	"strings"
	"sync"

	"github.com/alecthomas/chroma/v2"

	"github.com/knack-agent/knack/internal/leaf/styled"
)

// The definitions come from chroma, see lexers/LICENSE. Its package lexers is not imported: it would add 13 ms to every
// start of the program. They are packed, as TestDefinitions does: that makes the program 160 kB smaller.
//
//go:embed lexers.zip
var definitions string

// definition returns the name of the definition for a name used after ```; "": there is none.
func definition(language string) string {
	switch language {
	case "bash", "sh", "shell", "zsh", "console":
		return "bash"
	case "c", "h":
		return "c"
	case "c++", "cpp", "cc", "hpp":
		return "cpp"
	case "c#", "cs", "csharp":
		return "csharp"
	case "docker", "dockerfile":
		return "docker"
	case "hcl", "tf", "terraform":
		return "hcl"
	case "ini", "cfg":
		return "ini"
	case "js", "javascript", "jsx", "mjs":
		return "javascript"
	case "json", "jsonc":
		return "json"
	case "kotlin", "kt":
		return "kotlin"
	case "make", "makefile":
		return "makefile"
	case "powershell", "ps1":
		return "powershell"
	case "py", "python", "python3":
		return "python"
	case "rb", "ruby":
		return "ruby"
	case "rs", "rust":
		return "rust"
	case "ts", "tsx", "typescript":
		return "typescript"
	case "xml", "svg":
		return "xml"
	case "yaml", "yml":
		return "yaml"
	case "css", "html", "java", "lua", "php", "sql", "swift", "toml":
		return language
	}
	return ""
}

// embedded lists the other definitions that a definition refers to.
func embedded(name string) []string {
	switch name {
	case "docker":
		return []string{"bash", "json"}
	case "html":
		return []string{"css", "javascript"}
	case "makefile":
		return []string{"bash"}
	}
	return nil
}

// maxHighlight is the maximum size of code highlighted at once, in bytes, because the
// definitions use regular expressions with backtracking.
const maxHighlight = 32 << 10

// Highlight returns highlighted lines of code. language is the name after ```; for an unknown
// one the code is not coloured. Tabs are expanded and hidden characters are made visible.
func Highlight(language, code string) []styled.Line {
	lines := strings.Split(code, "\n")
	for i, l := range lines {
		lines[i] = styled.Plain(strings.TrimSuffix(l, "\r"), 4)
	}
	language = strings.ToLower(strings.Trim(language, "{}. "))
	if len(code) <= maxHighlight {
		switch {
		case language == "go" || language == "golang":
			return highlightGo(lines)
		case language == "diff" || language == "patch":
			return highlightDiff(lines)
		case definition(language) != "":
			if out := highlight(definition(language), lines); out != nil {
				return out
			}
		}
	}
	out := make([]styled.Line, len(lines))
	for i, l := range lines {
		out[i] = plainLine(l)
	}
	return out
}

func plainLine(l string) styled.Line {
	if l == "" {
		return nil
	}
	return styled.S(styled.CodeText, l)
}

var lexers struct {
	sync.Mutex
	packed   *zip.Reader
	registry *chroma.LexerRegistry
	loaded   map[string]chroma.Lexer // nil: the definition cannot be read
}

// lexer loads a definition when it is first used.
func lexer(name string) chroma.Lexer {
	lexers.Lock()
	defer lexers.Unlock()
	if lexers.registry == nil {
		lexers.packed, _ = zip.NewReader(strings.NewReader(definitions), int64(len(definitions)))
		lexers.registry, lexers.loaded = chroma.NewLexerRegistry(), map[string]chroma.Lexer{}
	}
	return loadLexer(name)
}

func loadLexer(name string) chroma.Lexer {
	if l, ok := lexers.loaded[name]; ok {
		return l
	}
	lexers.loaded[name] = nil
	for _, other := range embedded(name) {
		loadLexer(other)
	}
	l, err := chroma.NewXMLLexer(lexers.packed, name+".xml")
	if err != nil {
		return nil
	}
	lexers.registry.Register(l)
	lexers.loaded[name] = l
	return l
}

// highlight returns nil if the code cannot be split into tokens.
func highlight(name string, lines []string) []styled.Line {
	l := lexer(name)
	if l == nil {
		return nil
	}
	tokens, err := l.Tokenise(nil, strings.Join(lines, "\n"))
	if err != nil {
		return nil
	}
	out := make([]styled.Line, 1, len(lines))
	for _, t := range tokens.Tokens() {
		style := role(t.Type)
		for i, part := range strings.Split(t.Value, "\n") {
			if i > 0 {
				out = append(out, nil)
			}
			add(&out[len(out)-1], style, part)
		}
	}
	// A definition may add a newline at the end; the text must stay the same.
	for len(out) > len(lines) && len(out[len(out)-1]) == 0 {
		out = out[:len(out)-1]
	}
	if len(out) != len(lines) {
		return nil
	}
	for i := range out {
		if out[i].String() != lines[i] {
			return nil
		}
	}
	return out
}

func add(l *styled.Line, style styled.Style, text string) {
	if text == "" {
		return
	}
	if n := len(*l); n > 0 && (*l)[n-1].Style == style {
		(*l)[n-1].Text += text
		return
	}
	*l = append(*l, styled.Span{Text: text, Style: style})
}

func role(t chroma.TokenType) styled.Style {
	switch {
	case t == chroma.KeywordType, t == chroma.NameClass, t == chroma.NameBuiltin:
		return styled.Type
	case t.InCategory(chroma.Keyword), t == chroma.NameTag:
		return styled.Keyword
	case t == chroma.NameFunction, t == chroma.NameAttribute, t == chroma.NameDecorator:
		return styled.Function
	case t.InSubCategory(chroma.LiteralNumber):
		return styled.Number
	case t.InCategory(chroma.Literal):
		return styled.String
	case t.InCategory(chroma.Comment):
		return styled.Comment
	case t == chroma.GenericInserted:
		return styled.Inserted
	case t == chroma.GenericDeleted:
		return styled.Deleted
	}
	return styled.CodeText
}

// highlightGo uses the scanner of the standard library, because chroma's data files do not
// include a definition of Go.
func highlightGo(lines []string) []styled.Line {
	src := []byte(strings.Join(lines, "\n"))
	styles := make([]styled.Style, len(src))
	for i := range styles {
		styles[i] = styled.CodeText
	}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, func(token.Position, string) {}, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		style := styled.CodeText
		switch {
		case tok.IsKeyword():
			style = styled.Keyword
		case tok == token.COMMENT:
			style = styled.Comment
		case tok == token.STRING || tok == token.CHAR:
			style = styled.String
		case tok == token.INT || tok == token.FLOAT || tok == token.IMAG:
			style = styled.Number
		default:
			continue
		}
		at := file.Offset(pos)
		for i := at; i < min(at+len(lit), len(src)); i++ {
			styles[i] = style
		}
	}
	out := make([]styled.Line, len(lines))
	at := 0
	for i, l := range lines {
		from := 0
		for j := 1; j <= len(l); j++ {
			if j == len(l) || styles[at+j] != styles[at+from] {
				add(&out[i], styles[at+from], l[from:j])
				from = j
			}
		}
		at += len(l) + 1
	}
	return out
}

func highlightDiff(lines []string) []styled.Line {
	out := make([]styled.Line, len(lines))
	for i, l := range lines {
		style := styled.CodeText
		switch {
		case strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "---"):
			style = styled.Bold
		case strings.HasPrefix(l, "+"):
			style = styled.Inserted
		case strings.HasPrefix(l, "-"):
			style = styled.Deleted
		case strings.HasPrefix(l, "@@"):
			style = styled.Hunk
		}
		add(&out[i], style, l)
	}
	return out
}
