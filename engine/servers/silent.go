package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/run/mcp"
)

// A silent is a file with the servers for which a first request has waited in vain, so that no later one does. Each is
// the hash of its definition. A server that answers one day has its tools remembered, and nobody asks the file again.
type silent struct{ file string }

// maxSilent limits the number of servers in the file.
const maxSilent = 200

func (x silent) read() []string {
	data, _ := os.ReadFile(x.file) // missing: none
	return parseSilent(data)
}

func parseSilent(data []byte) (all []string) {
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	return all
}

// without leaves out the names of the servers in the file.
func (x silent) without(client *mcp.Client, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	known, keys := x.read(), definitionKeys(client)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(known, keys[name]) })
}

// add writes servers to the file. If that fails, the next run waits again.
func (x silent) add(client *mcp.Client, names []string) {
	if len(names) == 0 || x.file == "" {
		return
	}
	keys := definitionKeys(client)
	_ = atomicfile.Update(x.file, 0o600, func(old []byte) ([]byte, error) {
		all := parseSilent(old)
		for _, name := range names {
			if !slices.Contains(all, keys[name]) {
				all = append(all, keys[name])
			}
		}
		return json.Marshal(all[max(0, len(all)-maxSilent):])
	})
}

// definitionKeys returns hashes of the definitions of servers, by name.
func definitionKeys(client *mcp.Client) map[string]string {
	keys := map[string]string{}
	for _, s := range client.Servers() {
		sum := sha256.Sum256([]byte(string(s.Origin) + "\x00" + s.DefinedIn + "\x00" + s.Name + "\x00" + string(s.JSON())))
		keys[s.Name] = hex.EncodeToString(sum[:16])
	}
	return keys
}
