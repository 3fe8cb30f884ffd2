package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// filesOfPlugin is how many files each version of the plugin has.
const filesOfPlugin = 300

// A shop is a home directory with a marketplace of one plugin, in two versions.
type shop struct {
	home, program string
	env           []string
}

func newShop(home, program string) (*shop, error) {
	s := &shop{home: home, program: program, env: []string{"HOME=" + home, "XDG_STATE_HOME=" + home + "/state",
		"XDG_CONFIG_HOME=" + home + "/config", "XDG_DATA_HOME=" + home + "/data", "PATH=" + os.Getenv("PATH")}}
	files := map[string]string{"market/.claude-plugin/marketplace.json": `{"name":"acme","owner":{"name":"A"},
		"plugins":[{"name":"demo","source":"./demo"}]}`}
	for _, v := range []string{"1.0", "2.0"} {
		files["demo-"+v+"/.claude-plugin/plugin.json"] = `{"name":"demo","version":"` + v + `"}`
		files["demo-"+v+"/skills/a/SKILL.md"] = "---\ndescription: Does something.\n---\n" + v + "\n"
		for i := range filesOfPlugin - 2 {
			files[fmt.Sprintf("demo-%s/skills/a/d%d/f%d", v, i%20, i)] = strings.Repeat(v+"\n", 200)
		}
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := s.offer("1.0"); err != nil {
		return nil, err
	}
	_, err := s.run(0, "plugin", "marketplace", "add", filepath.Join(home, "market"))
	return s, err
}

// offer makes a version the one in the marketplace.
func (s *shop) offer(version string) error {
	at := filepath.Join(s.home, "market", "demo")
	if old, err := s.versionIn(at); err == nil {
		if err := os.Rename(at, filepath.Join(s.home, "demo-"+old)); err != nil {
			return err
		}
	}
	return os.Rename(filepath.Join(s.home, "demo-"+version), at)
}

func (s *shop) versionIn(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "skills", "a", "SKILL.md"))
	return strings.TrimSpace(string(data[max(0, len(data)-4):])), err
}

// run runs the program like runFor and returns its output.
func (s *shop) run(after time.Duration, args ...string) (string, error) {
	cmd := exec.Command(s.program, args...)
	cmd.Dir, cmd.Env = s.home, s.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := runFor(cmd, after)
	if err != nil {
		err = fmt.Errorf("knack %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), err
}

// installed returns the version that is installed, whole; "": none.
func (s *shop) installed() (string, error) {
	if _, err := s.run(0, "skill", "verify", "--locked"); err != nil {
		return "", err
	}
	lock, err := s.lock()
	if err != nil || lock.Plugins["demo@acme"] == nil {
		return "", err
	}
	return s.versionIn(filepath.Join(s.home, "data", "knack", lock.Plugins["demo@acme"].Dir))
}

type lockJSON struct{ Plugins map[string]*itemJSON }

type itemJSON struct {
	Dir      string
	Previous *itemJSON
}

func (s *shop) lock() (l lockJSON, err error) {
	data, err := os.ReadFile(filepath.Join(s.home, "config", "knack", "skills.lock"))
	if os.IsNotExist(err) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	return l, err
}

// leftovers returns what is on the disk and no longer used.
func (s *shop) leftovers() ([]string, error) {
	lock, err := s.lock()
	if err != nil {
		return nil, err
	}
	var used, found []string
	for it := lock.Plugins["demo@acme"]; it != nil; it = it.Previous {
		used = append(used, it.Dir)
	}
	data := filepath.Join(s.home, "data", "knack")
	for _, pattern := range []string{"plugins/*/*/*", "skills/*", "marketplaces/*", "staging/*", "staging/.*"} {
		all, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range all {
			rel, err := filepath.Rel(data, path)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(used, filepath.ToSlash(rel)) {
				found = append(found, rel)
			}
		}
	}
	originals, err := filepath.Glob(filepath.Join(data, "originals", "*"))
	if len(originals) != len(used) {
		found = append(found, originals...)
	}
	temporary, _ := filepath.Glob(filepath.Join(s.home, "config", "knack", ".*"))
	return append(found, temporary...), err
}

// installing kills installations and updates at random moments.
func installing(home, program string, kills int, random *rand.Rand) ([]*tally, error) {
	s, err := newShop(home, program)
	if err != nil {
		return nil, err
	}
	var all []*tally
	for _, op := range []struct {
		what   string
		before string // the version that is installed
		args   []string
	}{
		{"an installation", "", []string{"plugin", "add", "demo@acme", "--yes"}},
		{"an update", "1.0", []string{"plugin", "update", "demo@acme", "--yes"}},
	} {
		t := &tally{What: "kill -9 during " + op.what + " of a plugin"}
		all = append(all, t)
		// prepare restores the version that the operation starts from, and offers the next one.
		prepare := func() error {
			if now, err := s.installed(); err != nil {
				return err
			} else if now != "" {
				if _, err := s.run(0, "plugin", "remove", "demo@acme"); err != nil {
					return err
				}
			}
			if op.before != "" {
				if err := s.offer(op.before); err != nil {
					return err
				}
				if _, err := s.run(0, "plugin", "add", "demo@acme", "--yes"); err != nil {
					return err
				}
			}
			return s.offer("2.0")
		}
		if err := prepare(); err != nil {
			return nil, err
		}
		start := time.Now()
		if _, err := s.run(0, op.args...); err != nil {
			return nil, err
		}
		whole := time.Since(start)
		for range kills {
			if err := prepare(); err != nil {
				return nil, err
			}
			t.Runs++
			_, killed := s.run(time.Duration(random.Int64N(int64(whole)))+1, op.args...)
			now, err := s.installed()
			if err != nil || now != op.before && now != "2.0" {
				t.wrong("%q is installed, %v", now, err)
				continue
			}
			if _, err := s.run(0, "plugin", "add", "demo@acme", "--yes"); err != nil {
				t.wrong("the next installation: %v", err)
				continue
			}
			if now, err = s.installed(); err != nil || now != "2.0" {
				t.wrong("after the next installation, %q is installed, %v", now, err)
				continue
			}
			if left, err := s.leftovers(); err != nil || len(left) > 0 {
				t.wrong("left on the disk: %q, %v", left, err)
				continue
			}
			if killed != nil {
				t.Errors++
			} else {
				t.Whole++
			}
		}
	}
	return all, nil
}
