package knack

// A Code identifies a kind of [Problem] for programs. A released Code never changes.
type Code string

// Problems of a SKILL.md, an agent or a template.
const (
	CodeFrontmatterMissing   Code = "frontmatter-missing"
	CodeFrontmatterUnclosed  Code = "frontmatter-unclosed"
	CodeYAMLInvalid          Code = "yaml-invalid"
	CodeYAMLRepaired         Code = "yaml-repaired"
	CodeTextLost             Code = "text-lost" // text that valid YAML takes for something else
	CodeEncoding             Code = "encoding"
	CodeTooLarge             Code = "too-large"
	CodeUnknownKey           Code = "unknown-key"
	CodeDuplicateKey         Code = "duplicate-key"
	CodeFieldType            Code = "field-type"
	CodeNameMissing          Code = "name-missing"
	CodeNameInvalid          Code = "name-invalid"
	CodeNameTooLong          Code = "name-too-long"
	CodeNameDirMismatch      Code = "name-dir-mismatch"
	CodeDescriptionMissing   Code = "description-missing"
	CodeDescriptionTooLong   Code = "description-too-long"
	CodeCompatibilityInvalid Code = "compatibility-invalid"
	CodeCompatibilityTooLong Code = "compatibility-too-long"
	CodeToolPattern          Code = "tool-pattern"
	CodeBadGlob              Code = "bad-glob"
	CodeHookInvalid          Code = "hook-invalid"
	CodeModelUnknown         Code = "model-unknown"
	CodeAgentUnknown         Code = "agent-unknown"
	CodeLimitReached         Code = "limit-reached"
	CodeLinkAsText           Code = "link-as-text"
)

// Problems that only `knack skill check` reports.
const (
	CodeBodyTooLong       Code = "body-too-long"
	CodeDescriptionNoWhen Code = "description-no-when"
	CodeSecondPerson      Code = "second-person"
	CodeHiddenCharacters  Code = "hidden-characters"
	CodeBrokenLink        Code = "broken-link"
	CodeAbsolutePath      Code = "absolute-path"
	CodeNotExecutable     Code = "not-executable"
	CodeArgumentIndex     Code = "argument-index"
	CodeTemplateText      Code = "template-text"
)

// Reasons why something is not loaded, not listed or not used.
const (
	CodeUnreadable     Code = "unreadable"
	CodeUntrusted      Code = "untrusted"
	CodeChanged        Code = "changed-since-approval"
	CodeSymlinkOutside Code = "symlink-outside"
	CodeNameCollision  Code = "name-collision"
	CodeDuplicateFile  Code = "duplicate-file"
	CodeShadowed       Code = "shadowed"
	CodeFeatureOff     Code = "gated"
	CodeNotListed      Code = "not-listed"
	CodeNotSearched    Code = "not-searched"
	CodeNotASkill      Code = "not-a-skill" // a file that somebody meant for a skill
	CodeOverrideOff    Code = "override-off"
)

// Problems of settings, sessions and the program's environment.
const (
	CodeJSONInvalid       Code = "json-invalid"
	CodeSettingIgnored    Code = "setting-ignored"
	CodeAddressIgnored    Code = "address-ignored" // an address, key, proxy or switch of requests
	CodeSandbox           Code = "sandbox"
	CodeHomeMissing       Code = "home-missing"
	CodeKeyInvalid        Code = "key-invalid"  // a key of a model provider
	CodeModelServer       Code = "model-server" // no server of models answers
	CodeSecret            Code = "secret"       // a secret of a skill that was not stored
	CodeDirRelative       Code = "dir-relative"
	CodeSessionDamaged    Code = "session-damaged"
	CodeAttachmentMissing Code = "attachment-missing"
	CodeCallAsText        Code = "call-as-text" // a tool call that the model's server did not read
	CodeFlagUnknown       Code = "flag-unknown"
	CodeCheckpoint        Code = "checkpoint" // a file that /undo cannot restore
	CodeWorktree          Code = "worktree"   // what an agent's worktree contains
	CodeBatchWaits        Code = "batch-waits"
)

// Problems of MCP servers.
const (
	CodeMCPInvalid Code = "mcp-invalid" // the configuration of a server
	CodeMCPServer  Code = "mcp-server"  // a server that cannot be used, or not in full
	CodeMCPSkill   Code = "mcp-skill"   // a skill that a server lists
)

// Problems of plugins.
const (
	CodePluginInvalid Code = "plugin-invalid" // a field of a manifest or of a marketplace
	CodePluginMissing Code = "plugin-missing" // a plugin that is enabled and not installed
)

// Failures of invoking a skill.
const (
	CodeExtractionFailed Code = "extraction-failed"
	CodeShellRefused     Code = "shell-refused"
)
