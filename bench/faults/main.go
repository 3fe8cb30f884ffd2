// Command faults damages what Knack reads and interrupts what it writes, and counts what comes of it: streams of all
// four formats that are cut, changed, doubled, swapped and delayed; a disk that is full; kill -9 during a fork, an
// import, a compaction, and an installation and an update of a plugin.
//
//	go run ./faults [-kills 30] [-seed 1] [-plugins] [-json FILE]
//
// Every fault has an outcome that is allowed: a stream that was cut gives an error or the whole answer, and a session
// is whole or not there. The program ends with exit code 1 if another one was seen. The full disk needs a Linux system
// that lets users mount a tmpfs of their own; elsewhere it is left out, with a remark.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/knack-agent/knack/bench"
)

// A tally counts the outcomes of one kind of fault. Wrong describes the first few that are not allowed.
type tally struct {
	What    string   `json:"what"`
	Runs    int      `json:"runs"`
	Errors  int      `json:"errors"`  // the fault was reported
	Whole   int      `json:"whole"`   // it had no effect
	Another int      `json:"another"` // streams: a complete answer with other content, as its events say
	Failed  int      `json:"wrong"`
	Wrong   []string `json:"examples,omitempty"`
}

func (t *tally) wrong(format string, args ...any) {
	if t.Failed++; len(t.Wrong) < 5 {
		t.Wrong = append(t.Wrong, fmt.Sprintf(format, args...))
	}
}

var errLeftOut = errors.New("left out: this system does not let users mount a tmpfs")

func main() {
	bench.Launched()
	log.SetFlags(0)
	log.SetPrefix("faults: ")
	kills := flag.Int("kills", 30, "how often each command is killed")
	plugins := flag.Bool("plugins", false, "kill only installations and updates of plugins")
	seed := flag.Uint64("seed", 1, "of the random faults")
	asJSON := flag.String("json", "", "file for the result as JSON")
	flag.Parse()
	all, err := run(*kills, *seed, *plugins)
	if err != nil {
		log.Fatal(err)
	}
	table := bench.Table{Title: "Faults", Head: []string{"fault", "runs", "reported", "no effect", "another answer", "wrong"}}
	failed := 0
	for _, t := range all {
		table.Add(t.What, t.Runs, t.Errors, t.Whole, t.Another, t.Failed)
		failed += t.Failed
	}
	if err := errors.Join(table.Write(os.Stdout), bench.WriteJSON(*asJSON, all)); err != nil {
		log.Fatal(err)
	}
	for _, t := range all {
		for _, w := range t.Wrong {
			fmt.Printf("%s: %s\n", t.What, w)
		}
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func run(kills int, seed uint64, plugins bool) ([]*tally, error) {
	tmp, err := os.MkdirTemp("", "knack-faults-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	random := rand.New(rand.NewPCG(seed, 0))
	program := filepath.Join(tmp, "knack")
	if err := bench.Build(program, "github.com/knack-agent/knack/cmd/knack"); err != nil {
		return nil, err
	}
	if plugins {
		return installing(filepath.Join(tmp, "plugins"), program, kills, random)
	}
	all, err := streams(random)
	if err != nil {
		return nil, err
	}
	full, err := fullDisk(tmp, program)
	if errors.Is(err, errLeftOut) {
		log.Print("full disk: ", err)
	} else if err != nil {
		return nil, err
	} else {
		all = append(all, full)
	}
	killed, err := killing(tmp, program, kills, random)
	if err != nil {
		return nil, err
	}
	installed, err := installing(filepath.Join(tmp, "plugins"), program, kills, random)
	return slices.Concat(all, killed, installed), err
}
