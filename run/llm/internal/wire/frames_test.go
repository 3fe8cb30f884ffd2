package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"testing"
)

// oneFrame is an event of Bedrock with the data {}.
const oneFrame = "AAAAawAAAEtqzgEtCzpldmVudC10eXBlBwAFY2h1bmsNOmNvbnRlbnQtdHlwZQcAEGFwcGxpY2F0aW9uL2pzb24NOm1lc3Nh" +
	"Z2UtdHlwZQcABWV2ZW50eyJieXRlcyI6ImUzMD0ifTZR2/4="

// TestDamagedFrames: a frame that is cut off or changed is an error, and never an event.
func TestDamagedFrames(t *testing.T) {
	good, err := base64.StdEncoding.DecodeString(oneFrame)
	if err != nil {
		t.Fatal(err)
	}
	read := func(data []byte) (n int, err error) {
		for ev, e := range Frames(bytes.NewReader(data)) {
			if e != nil {
				return n, e
			}
			if string(ev.Data) == "{}" {
				n++
			}
		}
		return n, nil
	}
	if n, err := read(append(bytes.Clone(good), good...)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	for i := 1; i < len(good); i++ {
		if n, err := read(good[:i]); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut off at %d: %d, %v", i, n, err)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if n, err := read(bad); n != 0 || err == nil {
			t.Errorf("byte %d changed: %d, %v", i, n, err)
		}
	}
}

// FuzzFrames: whatever is sent, reading ends, and an event has data or says what is wrong.
func FuzzFrames(f *testing.F) {
	good, _ := base64.StdEncoding.DecodeString(oneFrame)
	f.Add(good)
	f.Add([]byte("event: x\ndata: {}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for ev, err := range Frames(bytes.NewReader(data)) {
			if err == nil && ev.Name != "" && len(ev.Data) == 0 {
				t.Errorf("%+v", ev)
			}
		}
	})
}
