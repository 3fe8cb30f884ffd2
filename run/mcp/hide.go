package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/mask"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// mask replaces the values that only this server was given: it may say them in whatever it sends, and that is shown,
// stored, and sent to models.
func (s *Server) mask() mask.Mask { return mask.New(slices.Collect(maps.Values(s.Values))) }

// incoming returns what becomes of each message of the server before anything else reads it.
func (s *Server) incoming() func(message []byte) []byte {
	m := s.mask()
	if m.Empty() {
		return mendMessage
	}
	return func(message []byte) []byte { return mendMessage(hidden(m, message)) }
}

// hidden returns messages without secrets: the same bytes, if they have none. IDs stay, they go only to the server.
func hidden(m mask.Mask, message []byte) []byte {
	if !json.Valid(message) {
		if text := string(message); m.In(text) {
			return []byte(m.Text(text))
		}
		return message
	}
	d := json.NewDecoder(bytes.NewReader(message))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	found := false
	if v = hiddenIn(m, v, &found); !found {
		return message
	}
	return encoded(v)
}

// hiddenIn returns a value without secrets, and sets found if it had one.
func hiddenIn(m mask.Mask, v any, found *bool) any {
	switch v := v.(type) {
	case string:
		if m.In(v) {
			*found = true
			return m.Text(v)
		}
	case json.Number:
		if m.Text(v.String()) == mask.Mark {
			*found = true
			return mask.Mark
		}
	case []any:
		for i := range v {
			v[i] = hiddenIn(m, v[i], found)
		}
	case map[string]any:
		id, has := v["id"]
		all := make(map[string]any, len(v))
		for key, x := range v {
			if m.In(key) {
				*found, key = true, m.Text(key)
			}
			all[key] = hiddenIn(m, x, found)
		}
		if has && v["jsonrpc"] != nil {
			all["id"] = id
		}
		return all
	}
	return v
}

// hide returns an error without the server's secrets: an address or what its program wrote may have them.
func (s *Server) hide(err error) error {
	if text := err.Error(); s.Values != nil && s.mask().In(text) {
		return errors.New(s.mask().Text(text))
	}
	return err
}

// stored reads a list that was kept. One that an older program kept with secrets is kept again without them.
func (s *Server) stored(file string) ([]byte, error) {
	data, err := regular.Read(file, maxList)
	if err != nil || len(s.Values) == 0 {
		return data, err
	}
	clean := hidden(s.mask(), data)
	if !bytes.Equal(clean, data) {
		atomicfile.Write(file, clean, 0o600) // on failure the next connection writes it
	}
	return clean, nil
}
