// Program pages compares what web_fetch makes of pages with what two other libraries make of them.
//
//	go run ./pages ../run/tool/web/testdata/pages/*.html
//
// Each page says in comments at its end which texts belong to it and which do not. The libraries find the readable
// part; the converter to Markdown is the same for all three.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"codeberg.org/readeck/go-readability/v2"
	htmltomarkdown "github.com/JohannesKaufmann/html-to-markdown/v2"
	"github.com/markusmobius/go-trafilatura"
	"golang.org/x/net/html"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/web"
)

const address = "https://docs.python.org/page"

// A library makes Markdown of a page.
type library struct {
	name string
	text func(page []byte) (string, error)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: pages FILE.html…")
		os.Exit(2)
	}
	if err := compare(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

var (
	expected  = regexp.MustCompile(`<!-- (want|not): (.*?) -->`)
	libraries = []library{{"web_fetch", ours}, {"go-readability", readable}, {"go-trafilatura", extracted}}
)

func compare(files []string) error {
	fmt.Print("| page |")
	for _, l := range libraries {
		fmt.Printf(" %s |", l.name)
	}
	fmt.Print("\n|---|", strings.Repeat("---|", len(libraries)), "\n")
	kept, dropped, took := make([]int, len(libraries)), make([]int, len(libraries)), make([]time.Duration, len(libraries))
	wants, nots := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		marks := expected.FindAllStringSubmatch(string(data), -1)
		data = expected.ReplaceAll(data, nil)
		fmt.Printf("| %s |", strings.TrimSuffix(filepath.Base(file), ".html"))
		for i, l := range libraries {
			if _, err := l.text(data); err != nil { // what is made at first use is not measured
				fmt.Printf(" %v |", err)
				continue
			}
			began := time.Now()
			text, err := l.text(data)
			took[i] += time.Since(began)
			if err != nil {
				return err
			}
			text = strings.NewReplacer(`\`, "", "\u00a0", " ").Replace(text)
			have, want, free, not := 0, 0, 0, 0
			for _, m := range marks {
				found := strings.Contains(text, m[2])
				switch {
				case m[1] == "want":
					want++
					if found {
						have++
					}
				default:
					not++
					if !found {
						free++
					}
				}
			}
			kept[i], dropped[i] = kept[i]+have, dropped[i]+free
			if i == 0 {
				wants, nots = wants+want, nots+not
			}
			fmt.Printf(" %d/%d, %d/%d |", have, want, free, not)
		}
		fmt.Println()
	}
	fmt.Print("| **all** |")
	for i := range libraries {
		fmt.Printf(" **%d/%d, %d/%d**, %.1f ms |", kept[i], wants, dropped[i], nots, took[i].Seconds()*1000)
	}
	fmt.Println()
	return nil
}

type transport []byte

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Status: "200 OK", Request: r, Body: io.NopCloser(bytes.NewReader(t)),
		Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}}, nil
}

func ours(page []byte) (string, error) {
	input, err := json.Marshal(map[string]string{"url": address})
	if err != nil {
		return "", err
	}
	set := web.Tools(web.Options{HTTP: transport(page), Documentation: web.DocumentationHosts()})
	res := tool.Call(context.Background(), set, llm.ToolCall{ID: "c", Name: web.FetchName, Input: input}, tool.AllowAll, nil)
	text := llm.TextOf(res.Parts)
	if res.IsError {
		return "", fmt.Errorf("%s", text)
	}
	return text, nil
}

func readable(page []byte) (string, error) {
	at, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	a, err := readability.FromReader(bytes.NewReader(page), at)
	if err != nil || a.Node == nil {
		return "", err
	}
	return markdown(a.Title(), a.Node)
}

func extracted(page []byte) (string, error) {
	r, err := trafilatura.Extract(bytes.NewReader(page), trafilatura.Options{EnableFallback: true, IncludeLinks: true})
	if err != nil {
		return "", err
	}
	return markdown(r.Metadata.Title, r.ContentNode)
}

func markdown(title string, n *html.Node) (string, error) {
	out, err := htmltomarkdown.ConvertNode(n)
	return title + "\n\n" + string(out), err
}
