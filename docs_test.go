package knack_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocs: what the pages name is there: files behind links, folders of the districts, tests and scripts. The change
// log tells about the past.
func TestDocs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)\s]*\)`)
	const districts = `((?:confine|run|engine|durable|sources|internal|docs|temporal|adapt|\.ci)/[\w./-]*?\w`
	folder := regexp.MustCompile("`" + districts + ")(?:\\.[A-Z]\\w*)?`") // also durable/batch.Queue
	file := regexp.MustCompile(`[\s(]` + districts + `\.go)\b`)
	test := regexp.MustCompile(`(-run \W*)?\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)(…?)`)
	script := regexp.MustCompile("\\bscripts? (`[a-z-]+`(?:, `[a-z-]+`)*)")
	pages, tests := pagesAndTests(t)
	seen := 0
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if name, err := url.PathUnescape(m[1]); err == nil && !strings.Contains(name, ":") {
				seen += exists(t, page, filepath.Join(filepath.Dir(page), name))
			}
		}
		for _, m := range append(folder.FindAllStringSubmatch(text, -1), file.FindAllStringSubmatch(text, -1)...) {
			seen += exists(t, page, m[1])
		}
		for _, m := range script.FindAllStringSubmatch(text, -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				file := strings.Trim(name, "`") + ".txtar"
				at := filepath.Join("internal/program/cli/testdata/script", file)
				if ofPart, _ := filepath.Glob(filepath.Join("engine/part/*/testdata/script", file)); len(ofPart) > 0 {
					at = ofPart[0]
				}
				seen += exists(t, page, at)
			}
		}
		for _, m := range test.FindAllStringSubmatch(text, -1) {
			name := "\n" + m[2]
			if m[1]+m[3] == "" { // a whole name, not what several begin with
				name += "("
			}
			if seen++; !strings.Contains(tests, name) {
				t.Errorf("%s: there is no test %s", page, m[2])
			}
		}
	}
	if seen < 300 {
		t.Errorf("only %d names are seen", seen)
	}
}

func exists(t *testing.T, page, name string) int {
	t.Helper()
	if _, err := os.Stat(name); err != nil {
		t.Errorf("%s: there is no %s", page, filepath.ToSlash(name))
	}
	return 1
}

// pagesAndTests returns the text of the documentation by file, and "\nTestX(" for each test.
func pagesAndTests(t *testing.T) (pages map[string]string, tests string) {
	t.Helper()
	pages = map[string]string{}
	var list strings.Builder
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		base, ext := filepath.Base(name), filepath.Ext(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (base == ".git" || base == "testdata" || base == "node_modules"):
			return filepath.SkipDir
		case ext == ".md" && (base == "decisions.md" || strings.Count(filepath.ToSlash(name), "/") < 2) && base != "CHANGELOG.md":
			text, err := os.ReadFile(name)
			pages[name] = string(text)
			return err
		case ext == ".go":
			text, err := os.ReadFile(name)
			for part := range strings.SplitSeq(string(text), "\nfunc ") {
				if head, _, ok := strings.Cut(part, "("); ok && !strings.Contains(head, " ") {
					list.WriteString("\n" + head + "(")
				}
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages, list.String()
}

// TestStablePackages: the packages whose API is promised (docs/releases.md) are there, and none is internal.
func TestStablePackages(t *testing.T) {
	list, err := os.ReadFile(".ci/stable-packages")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(list)) {
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil || len(files) == 0 || strings.Contains(name, "internal") {
			t.Errorf("%s is no package that can be promised", name)
		}
	}
}

// TestWords: what a user reads beside the reference stays short. Tables, code and lists of keys are reference.
func TestWords(t *testing.T) {
	nav, err := os.ReadFile("site/hugo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?s)title: (Begin|Know)\n +pages: \[(.*?)\]`).FindAllStringSubmatch(string(nav), -1)
	pages := []string{"README.md"}
	for _, s := range sections {
		for page := range strings.SplitSeq(s[2], ",") {
			name := strings.Replace(strings.Trim(page, " \n/"), "/readme", "/README", 1) + ".md"
			pages = append(pages, name)
		}
	}
	if len(sections) != 2 || len(pages) < 12 {
		t.Fatalf("the pages of the site: %q", pages)
	}
	words := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if !code && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") {
				words += len(strings.Fields(line))
			}
		}
	}
	if words > 12_000 {
		t.Errorf("%d words beside tables and code, at most 12,000: shorten a page", words)
	}
}

// TestSite: each page of docs is in the site's list of pages, and each picture is part of the site.
func TestSite(t *testing.T) {
	data, err := os.ReadFile("site/hugo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := string(data)
	nav := regexp.MustCompile(`/docs/[\w/-]+`).FindAllString(config, -1)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if !slices.Contains(nav, "/"+strings.TrimSuffix(filepath.ToSlash(page), ".md")) {
			t.Errorf("site/hugo.yaml does not list %s", page)
		}
	}
	screens := config[strings.Index(config, "static/docs/screens"):]
	screens, _, _ = strings.Cut(screens, "\n")
	pictures, err := filepath.Glob("docs/screens/*.*g")
	if err != nil || len(pictures) == 0 {
		t.Fatal(pictures, err)
	}
	for _, p := range pictures {
		if !strings.Contains(screens, `"*`+filepath.Ext(p)+`"`) {
			t.Errorf("site/hugo.yaml leaves out %s", p)
		}
	}
}
