// Package web is the front end in a browser: pages about what a directory and its user have, why, and what happened.
//
// A [Server] answers on this machine only, to the browser that opened its address first (see guard). The pages show
// values that the command line prints with --json too; each is read when it is asked for, and lists are cut into pages
// here, so a browser never gets ten thousand rows. Every page works without a script; the one script searches while
// somebody types, and follows a session that runs.
//
// What strangers wrote (names, descriptions, texts of skills, outputs) reaches a page through package markup alone.
package web

import (
	"context"
	"embed"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

//go:embed style.css page.js
var assets embed.FS

// A Server shows a directory. Make one with [Open]; it is safe for concurrent use.
type Server struct {
	dir   *directory
	guard *guard
	port  string

	changes bool     // the pages have forms
	results []string // files with results of evaluations

	conversations conversations
}

// Open opens a directory for the pages. The caller closes the Server.
func Open(ctx context.Context, o engine.Options) (*Server, error) {
	e, err := engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: &directory{engine: e, files: filesOf(e.Project())}}
	s.guard = newGuard(s.pages())
	return s, nil
}

// Close ends the use of the directory.
func (s *Server) Close() error { return s.dir.engine.Close() }

// Listen begins to listen at a port of this machine; "0" chooses a free one.
func (s *Server) Listen(port string) (net.Listener, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	_, s.port, err = net.SplitHostPort(l.Addr().String())
	s.guard.host += ":" + s.port
	return l, err
}

// Address returns an address that gives access to the browser that opens it first, within a minute. It is called after
// Listen.
func (s *Server) Address() string { return "http://" + s.guard.host + "/?token=" + s.guard.token() }

// Serve answers until ctx ends. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	watching, stopWatching := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.dir.engine.Watch(watching) // if it fails, skills are those of the beginning until settings change
	}()
	server := &http.Server{Handler: s.guard, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return watching }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.Serve(l)
	stopWatching()
	<-watched
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// pages returns the handler of all pages.
func (s *Server) pages() http.Handler {
	m := http.NewServeMux()
	m.Handle("GET /style.css", asset("style.css", "text/css; charset=utf-8"))
	m.Handle("GET /page.js", asset("page.js", "text/javascript; charset=utf-8"))
	m.Handle("GET /{$}", http.RedirectHandler("/skills", http.StatusSeeOther))
	m.Handle("GET /skills", s.shown("/skills", s.skills))
	m.Handle("GET /skill", s.shown("/skills", s.skill))
	m.Handle("GET /listing", s.shown("/listing", s.listing))
	m.Handle("GET /rules", s.shown("/rules", s.rules))
	m.Handle("GET /settings", s.shown("/settings", s.settings))
	m.Handle("GET /trust", s.shown("/trust", s.trust))
	m.Handle("GET /sessions", s.shown("/sessions", s.sessions))
	m.Handle("GET /session", s.shown("/sessions", s.session))
	m.HandleFunc("GET /session/events", s.events)
	m.Handle("GET /batches", s.shown("/batches", s.batches))
	m.Handle("GET /batch", s.shown("/batches", s.batch))
	m.Handle("GET /run", s.shown("/batches", s.run))
	if len(s.results) > 0 {
		m.Handle("GET /evals", s.shown("/evals", s.evals))
	}
	if s.changes {
		s.forms(m)
	}
	m.Handle("/", s.shown("", func(*http.Request, *page) error { return notFound("There is no such page.") }))
	return m
}

func asset(name, kind string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := assets.ReadFile(name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Write(data)
	})
}

// notFound is the error of a page about something that does not exist.
type notFound string

func (n notFound) Error() string { return string(n) }

// shown returns the handler of a page: write writes what is special about it, and section is the address of the part of
// the site that it belongs to.
func (s *Server) shown(section string, write func(*http.Request, *page) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &page{section: section, dir: s.dir.name(), evals: len(s.results) > 0}
		if s.changes {
			p.token = s.guard.form
		}
		status := http.StatusOK
		if err := write(r, p); err != nil {
			status = http.StatusInternalServerError
			if _, ok := errors.AsType[notFound](err); ok {
				status = http.StatusNotFound
			}
			p = &page{section: section, dir: s.dir.name(), title: "This page cannot be shown"}
			p.F("<h1>%s</h1>\n<p class=\"lead\">%s</p>\n", p.title, sentence(err.Error()))
			if known, ok := errors.AsType[*engine.Error](err); ok && known.Hint != "" {
				p.F("<p>In a terminal: <code>%s</code></p>\n", known.Hint)
			}
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		p.writeTo(w)
	})
}

// sentence returns a message of an error as a sentence.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return plain.Capital(text) + "."
}
