package config

import (
	"encoding/json"
	"slices"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
)

// Settings are the values in effect. The zero value of a field means that it is not set. The table of
// keys (`knack help settings`) documents the fields.
type Settings struct {
	Model  string `json:"model"`
	Effort string `json:"effort"`
	Models struct {
		Fast    PerProvider       `json:"fast"`
		Default PerProvider       `json:"default"`
		Strong  PerProvider       `json:"strong"`
		Aliases map[string]string `json:"aliases"`
		// Fallback are the models of a run that has no others, see models.fallback.
		Fallback []string `json:"fallback"`
	} `json:"models"`
	Proxy string            `json:"proxy"`
	Env   map[string]string `json:"env"`

	// The rules themselves are in [Config.Rules].
	Permissions struct {
		DefaultMode           permission.Mode `json:"defaultMode"`
		AdditionalDirectories []string        `json:"additionalDirectories"`
		DisableBypass         string          `json:"disableBypassPermissionsMode"` // "disable"
		ProtectedPaths        []string        `json:"protectedPaths"`               // see permission.PathContext.Protected
	} `json:"permissions"`

	Skills struct {
		Order               []string          `json:"order"`
		Overrides           map[string]string `json:"overrides"`
		ListingBudget       float64           `json:"listingBudget"`
		ListingMaxChars     int               `json:"listingMaxChars"`
		Release             string            `json:"release"`
		Suggest             string            `json:"suggest"` // auto, off or a number
		Propose             bool              `json:"propose"`
		DisableShell        bool              `json:"disableShell"`
		EnforceAllowedTools string            `json:"enforceAllowedTools"`
	} `json:"skills"`
	Features    map[string]bool `json:"features"`
	Keybindings struct {
		Customize bool `json:"customize"`
	} `json:"keybindings"`

	Sandbox struct {
		Mode       string   `json:"mode"`
		Env        []string `json:"env"`
		AllowRead  []string `json:"allowRead"`
		AllowWrite []string `json:"allowWrite"`
		AllowHosts []string `json:"allowHosts"`
		DenyRead   []string `json:"denyRead"`
		// NetworkWait is how many seconds a connection waits for the user's answer; nil: 60.
		NetworkWait *float64 `json:"networkWait"`
		CacheLimit  float64  `json:"cacheLimit"` // in GB; 0: the default
		// ConfineHooks also confines the hooks of the user's own settings.
		ConfineHooks bool `json:"confineHooks"`
	} `json:"sandbox"`
	Shell struct {
		Path   string `json:"path"`
		Prefix string `json:"prefix"`
	} `json:"shell"`
	Workspace      string          `json:"workspace"`
	EnabledPlugins map[string]bool `json:"enabledPlugins"`
	Memory         struct {
		Auto    bool `json:"auto"`
		Claude  bool `json:"claude"`
		Propose bool `json:"propose"`
	} `json:"memory"`
	Web struct {
		AllowPrivate       []string `json:"allowPrivate"`
		DocumentationHosts []string `json:"documentationHosts"` // nil: those that the program knows
		Search             struct {
			Engine string `json:"engine"`
			URL    string `json:"url"`
			Key    string `json:"key"` // or $NAME, a variable
		} `json:"search"`
	} `json:"web"`
	MCP struct {
		StartTime float64  `json:"startTime"` // seconds; 0: the default
		FirstWait *float64 `json:"firstWait"` // seconds; nil: the default
	} `json:"mcp"`
	Batch struct {
		Lease float64 `json:"lease"` // seconds; 0: the default
	} `json:"batch"`
	Worktree struct {
		Include []string `json:"include"` // patterns of files that git ignores and worktrees get
	} `json:"worktree"`
	// LanguageServers and Formatters are command lines by the extensions of files, with blanks between.
	LanguageServers map[string]string `json:"languageServers"`
	Formatters      map[string]string `json:"formatters"`
	Checkpoints     string            `json:"checkpoints"` // on or off; "": on
	Git             struct {
		Provenance string `json:"provenance"` // off or note; "": off
	} `json:"git"`
	Compaction struct {
		Auto    *bool `json:"auto"`    // nil: true
		Reserve int   `json:"reserve"` // tokens; 0: the default
		Keep    int   `json:"keep"`    // tokens; 0: the default
	} `json:"compaction"`
	Limits struct {
		Turns   int     `json:"turns"`
		Tokens  int     `json:"tokens"`
		Cost    float64 `json:"cost"`
		Minutes float64 `json:"minutes"`
		// CostPerMonth is that of all sessions of the user.
		CostPerMonth float64 `json:"costPerMonth"`
	} `json:"limits"`
	Audit struct {
		File     string `json:"file"`
		Required bool   `json:"required"`
	} `json:"audit"`
	Sessions struct {
		Required bool `json:"required"`
	} `json:"sessions"`
	Trust struct {
		Folders []string `json:"folders"`
	} `json:"trust"`
	Telemetry struct {
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
		Content  bool              `json:"content"`
		Names    string            `json:"names"` // gen_ai or claude_code; "": gen_ai
	} `json:"telemetry"`
	OutputStyle string `json:"outputStyle"`
	Agent       string `json:"agent"` // see SessionOptions.Agent
	Language    string `json:"language"`
	Theme       string `json:"theme"`
	EditorMode  string `json:"editorMode"` // normal or vim; "": normal
	Notify      string `json:"notify"`
}

// A PerProvider is one value for all providers, with the key "", or one value per provider.
type PerProvider map[string]string

// For returns the value for a provider, or "" if there is none.
func (p PerProvider) For(provider string) string {
	if v, ok := p[provider]; ok {
		return v
	}
	return p[""]
}

func (p *PerProvider) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*p = PerProvider{"": one}
		return nil
	}
	return json.Unmarshal(data, (*map[string]string)(p))
}

// A Section is a value that is passed on as written, such as hooks and servers. There is one from each
// file that has some, highest precedence first.
type Section struct {
	Origin permission.Origin
	Path   string // the file
	Line   int    // where the value starts
	Column int
	JSON   json.RawMessage
}

// Locate returns the line and column of the last key in a path of keys. If that key does not exist, it
// returns the position of the last key on the path that does.
func (s Section) Locate(keys ...string) (line, column int) {
	f := file{data: s.JSON, add: func(knack.Problem) {}}
	n, _ := f.parse()
	at := 0
	for _, key := range keys {
		i := -1
		if n != nil {
			i = slices.IndexFunc(n.members, func(m member) bool { return m.key == key })
		}
		if i < 0 {
			break
		}
		at, n = n.members[i].at, n.members[i].val
	}
	line, column = f.place(at)
	if line == 1 {
		column += s.Column - 1
	}
	return s.Line + line - 1, column
}
