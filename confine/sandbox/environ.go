package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// passed lists the variables that a command inherits: those it needs to run and to find its tools;
// passedPrefixes lists the beginnings of more. This is an allow list because no deny list could name
// every variable that contains a secret.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "COLUMNS", "LINES",
	"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CI", "EDITOR", "PAGER", "SOURCE_DATE_EPOCH",
	"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS",
	// Toolchains.
	"GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOWORK", "GO111MODULE", "GOTOOLCHAIN", "GOOS",
	"GOARCH", "GOAMD64", "GOARM", "GOEXPERIMENT", "GODEBUG", "GOMAXPROCS", "GOSUMDB", "GONOSUMDB", "GONOSUMCHECK",
	"GOINSECURE", "CC", "CXX", "CPP", "LD", "AR", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS",
	"PKG_CONFIG_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CMAKE_PREFIX_PATH",
	"CCACHE_DIR", "NODE_PATH", "NODE_ENV", "NODE_OPTIONS", "NVM_DIR", "NVM_BIN", "VOLTA_HOME", "FNM_DIR",
	"npm_config_cache", "npm_config_prefix", "YARN_CACHE_FOLDER", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "COREPACK_HOME",
	"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "VIRTUAL_ENV", "CONDA_PREFIX",
	"CONDA_DEFAULT_ENV", "PIP_CACHE_DIR", "UV_CACHE_DIR",
	"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUST_BACKTRACE", "RUST_LOG",
	"JAVA_HOME", "JDK_HOME", "MAVEN_HOME", "GRADLE_HOME", "GRADLE_USER_HOME", "ANDROID_HOME", "DOTNET_ROOT",
	"GEM_HOME", "GEM_PATH", "RBENV_ROOT", "BUNDLE_PATH", "COMPOSER_HOME", "PERL5LIB", "NIX_PATH", "NIX_PROFILES",
	"ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR",
	// The files with the certificates that an organization's own proxy is checked against.
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"PIP_CERT", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	"KNACK_COMMAND", "KNACK_LIMITS", // identify a command's processes to the workspace, and limit runs below it
}

var passedPrefixes = []string{"LC_*", "CGO_*", "PYENV_*"}

// isPassed has the names in passed.
var isPassed = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, name := range passed {
		names[name] = true
	}
	return names
})

// Environ returns the environment for a command that runs without a sandbox: env without the
// variables that may contain keys, plus the variables that the command's caller set.
func (p *Policy) Environ(env, set []string) []string {
	out := p.environ(env, set)
	return slices.DeleteFunc(out, func(kv string) bool { return kv == "TMPDIR=/tmp" })
}

// environ filters env for a command. The variables in set, which the caller of the command chose
// (those of a skill or a hook, for example), are kept. PATH keeps only absolute entries in which no
// command can create files.
func (p *Policy) environ(env, set []string) []string {
	own := map[string]bool{"TMPDIR": true}
	for _, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		own[name] = true
	}
	out := []string{"TMPDIR=/tmp"}
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if own[name] || !isPassed()[name] && !matchName(passedPrefixes, name) && !matchName(p.Env, name) {
			continue
		}
		if name == "PATH" {
			kv = "PATH=" + p.cleanPath(value)
		} else if !ok {
			kv += "="
		}
		out = append(out, kv)
	}
	for _, kv := range set {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			kv = "PATH=" + p.cleanPath(list)
		}
		out = append(out, kv)
	}
	return slices.DeleteFunc(out, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(p.NoEnv, name)
	})
}

// appendPath adds a directory at the end of PATH.
func appendPath(env []string, dir string) []string {
	for i, kv := range env {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			out := slices.Clone(env)
			out[i] = "PATH=" + strings.TrimPrefix(list+string(filepath.ListSeparator)+dir, string(filepath.ListSeparator))
			return out
		}
	}
	return append(slices.Clip(env), "PATH="+dir)
}

func (p *Policy) cleanPath(list string) string {
	writable := slices.Concat([]string{p.Dir}, p.Roots, p.Write, p.existing())
	if p.Layers != "" {
		writable = append(writable, p.Layers)
	}
	var keep []string
	for _, entry := range filepath.SplitList(list) {
		if filepath.IsAbs(entry) && !withinAny(writable, filepath.Clean(entry)) {
			keep = append(keep, entry)
		}
	}
	return strings.Join(keep, string(filepath.ListSeparator))
}

func matchName(patterns []string, name string) bool {
	for _, p := range patterns {
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(name, prefix) || p == name {
			return true
		}
	}
	return false
}

// setenv sets variables in env and returns the result.
func setenv(env []string, set ...string) []string {
next:
	for _, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		for i := range env {
			if strings.HasPrefix(env[i], name+"=") {
				env[i] = kv
				continue next
			}
		}
		env = append(env, kv)
	}
	return env
}

// configureGit adds values ("key=value") to the configuration that git takes from env.
func configureGit(env []string, values ...string) []string {
	n := 0
	if count := userdirs.Getenv(env)("GIT_CONFIG_COUNT"); count != "" {
		var err error
		if n, err = strconv.Atoi(count); err != nil {
			return env // git will report it
		}
	}
	for _, kv := range values {
		key, value, _ := strings.Cut(kv, "=")
		env = setenv(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	return setenv(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}
