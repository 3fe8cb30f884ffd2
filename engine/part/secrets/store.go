package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/mask"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Store has the values that the user gave to skills: in the keyring, or in a file if the user said so.
type Store struct {
	keys engine.Keys
	seen string // the file with the files of skills as they were when values were given; "": there is none
}

// Open reads the names of the values that are stored.
func Open(env engine.Env) Store {
	return Store{engine.OpenSkillKeys(env), env.StateFile("skill-secrets-seen.json")}
}

// account is the name of a value in the keyring. Nothing in it is secret. A value of a plugin's userConfig is for all
// of the plugin.
func (b Binding) account(name string) string {
	skill := b.Skill
	if plugin.IsOption(name) {
		skill = ""
	}
	return engine.SecretAccount(skill, b.Source, b.Hash, name)
}

// A Given is a value that is stored. For says which content of the skill it is for.
type Given struct {
	Name   string  `json:"name"`
	For    Binding `json:"for"`
	Stored string  `json:"stored"` // where: a file, or "the keyring"
}

// Given returns what is stored for a skill of a source, also for other contents of it, sorted by name. Without a skill
// and a source, it returns what is stored for all.
func (s Store) Given(of Binding) (all []Given, err error) {
	accounts, err := s.keys.Providers()
	for _, a := range accounts {
		f := strings.Split(a, "\n")
		if len(f) != 4 {
			continue
		}
		b := Binding{Skill: f[0], Source: f[1], Hash: f[2]}
		if b.Skill == "" && b.Source == of.Source { // for all skills of the plugin
			b.Skill = of.Skill
		}
		if of.Skill == "" && of.Source == "" || b.Skill == of.Skill && b.Source == of.Source {
			all = append(all, Given{Name: f[3], For: b, Stored: s.keys.Location(a)})
		}
	}
	order.Stable(all, func(a, b Given) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Get returns the value that was given to exactly this content; "": none was.
func (s Store) Get(b Binding, name string) (string, error) { return s.keys.Get(b.account(name)) }

// ErrShort is the error for a value that could not be told from other text.
var ErrShort error = tooShort{}

type tooShort struct{}

func (tooShort) Error() string {
	return fmt.Sprintf("a secret has at least %d characters", mask.Shortest)
}

// Put stores a value, and removes the values that were stored for other versions of the skill. If file is set, the value
// goes into a file that only the user can read, instead of the keyring. Without file, the error is [engine.ErrNoKeyring]
// if this machine has no keyring.
func (s Store) Put(b Binding, w Wanted, value string, file bool) error {
	switch {
	case !w.Plain && len(value) < mask.Shortest:
		return ErrShort
	case strings.ContainsRune(value, 0):
		return errors.New("a value has no NUL character")
	}
	if err := s.keys.Put(b.account(w.Name), value, file); err != nil {
		return err
	}
	old, err := s.Given(b)
	for _, g := range old {
		if g.Name == w.Name && g.For != b {
			err = errors.Join(err, s.keys.Remove(g.For.account(g.Name)))
		}
	}
	return err
}

// Saw keeps the names and hashes of a skill's files, so that the user can be told what has changed since a value was
// given. Those of contents that no value is for are forgotten.
func (s Store) Saw(k *knack.Skill) error {
	_, files, err := tree(k)
	if err != nil || s.seen == "" {
		return err
	}
	accounts, err := s.keys.Providers()
	if err != nil {
		return err
	}
	return atomicfile.Update(s.seen, 0o600, func(old []byte) ([]byte, error) {
		all := map[string]install.Files{}
		_ = json.Unmarshal(old, &all) // what is damaged is forgotten
		for hash := range all {
			if !slices.ContainsFunc(accounts, func(a string) bool { return strings.Contains(a, "\n"+hash+"\n") }) {
				delete(all, hash)
			}
		}
		all[files.Sum()] = files
		return json.Marshal(all)
	})
}

// Changed names the files of a skill that are not as they were when a value was given; "": that is not known.
func (s Store) Changed(k *knack.Skill, since Binding) string {
	var all map[string]install.Files
	data, err := regular.Read(s.seen, maxSeen)
	if err != nil || json.Unmarshal(data, &all) != nil || all[since.Hash] == nil {
		return ""
	}
	_, now, err := tree(k)
	if err != nil {
		return ""
	}
	return all[since.Hash].Compare(now).String()
}

const maxSeen = 16 << 20 // bytes of a file

// Keep stores a value that was given to an earlier content of a skill for another one: where it was, or with file in
// the file.
func (s Store) Keep(old Given, b Binding, w Wanted, file bool) error {
	value, err := s.Get(old.For, w.Name)
	if err != nil || value == "" {
		return err
	}
	return s.Put(b, w, value, file || old.Stored != inKeyring)
}

// inKeyring is what Given.Stored says of a value that is in no file.
const inKeyring = "the keyring"

// Remove forgets a value, for all contents of the skill.
func (s Store) Remove(of Binding, name string) (removed bool, err error) {
	all, err := s.Given(of)
	for _, g := range all {
		if g.Name == name {
			removed = true
			err = errors.Join(err, s.keys.Remove(g.For.account(name)))
		}
	}
	return removed, err
}
