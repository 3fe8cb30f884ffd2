package needs

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed programs.txt
var programsText string

//go:embed modules.txt
var modulesText string

// A program has the names of the packages that contain it, by package manager; "": that one has no such package.
type program struct {
	apt, brew, dnf string
	instead        []string // programs that do as well
}

// programs returns the programs that are recognized in the commands of a skill, with their packages.
var programs = sync.OnceValue(func() map[string]program {
	all := map[string]program{}
	for line := range strings.Lines(programsText) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] == "#" {
			continue
		}
		for i, x := range f {
			if x == "-" {
				f[i] = ""
			}
		}
		p := program{apt: f[1], brew: f[2], dnf: f[3]}
		if len(f) > 4 {
			p.instead = strings.Split(f[4], ",")
		}
		all[f[0]] = p
	}
	return all
})

// modules are the Python modules whose package has another name.
var modules = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(modulesText) {
		if module, pip, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[module] = pip
		}
	}
	return all
})

// found reports whether a program, or one that can replace it, is on PATH in a sufficient version.
func found(ctx context.Context, n Need) bool {
	p, known := programs()[n.Name]
	for _, name := range append([]string{n.Name}, p.instead...) {
		file, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		return n.Min == "" || !known || atLeast(version(ctx, file), n.Min)
	}
	return false
}

// checkTime is how long a program may take to say its version, or Python to look for modules.
const checkTime = 20 * time.Second

// output runs a program of this machine outside every project.
func output(ctx context.Context, file string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	c := exec.CommandContext(ctx, file, args...)
	c.Dir = filepath.VolumeName(os.TempDir()) + string(filepath.Separator)
	c.WaitDelay = time.Second
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PYTHON") && !strings.HasPrefix(v, "NODE_") {
			c.Env = append(c.Env, v)
		}
	}
	out, err := c.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// version returns the first number with a dot, or number, that a program says of itself; "": it says none.
func version(ctx context.Context, file string) string {
	flag := "--version"
	if filepath.Base(file) == "go" {
		flag = "version"
	}
	return regexp.MustCompile(`[0-9]+(\.[0-9]+)*`).FindString(output(ctx, file, flag))
}

// atLeast compares versions number by number. One that is not known is enough.
func atLeast(have, want string) bool {
	if have == "" {
		return true
	}
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i := range w {
		a, b := 0, 0
		if i < len(h) {
			a, _ = strconv.Atoi(h[i])
		}
		b, _ = strconv.Atoi(w[i])
		if a != b {
			return a > b
		}
	}
	return true
}

// lookForModules prints those of its arguments that Python cannot import. It imports none of them.
const lookForModules = `import sys
sys.path = [p for p in sys.path if p]
import importlib.util
for n in sys.argv[1:]:
    try:
        ok = importlib.util.find_spec(n) is not None
    except Exception:
        ok = False
    if not ok:
        print(n)
print(".")`

// absent returns the Python modules that are not installed. Without Python, that is what is missing.
func absent(ctx context.Context, all []Need) (missing []Need) {
	if len(all) == 0 {
		return nil
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		if python, err = exec.LookPath("python"); err != nil {
			return nil
		}
	}
	byPip := map[string]string{}
	for module, pip := range modules() {
		byPip[pip] = module
	}
	args, byModule := []string{"-c", lookForModules}, map[string]Need{}
	for _, n := range all {
		module := n.Name
		if n.From == "" { // a declared need is the name of a package
			module = strings.ReplaceAll(strings.ToLower(n.Name), "-", "_")
			if m, ok := byPip[strings.ToLower(n.Name)]; ok {
				module = m
			}
		}
		byModule[module] = n
		args = append(args, module)
	}
	out := strings.Fields(output(ctx, python, args...))
	if len(out) == 0 || out[len(out)-1] != "." { // this Python cannot say it
		return nil
	}
	for _, module := range out[:len(out)-1] {
		if n, ok := byModule[module]; ok {
			missing = append(missing, n)
		}
	}
	return missing
}

// hasPackage reports whether an npm package is installed for a skill, or for everybody.
func hasPackage(dir string, n Need) bool {
	for at := path.Dir(filepath.ToSlash(filepath.Join(".", n.From))); ; at = path.Dir(at) {
		in := filepath.Join(dir, filepath.FromSlash(at), "node_modules", filepath.FromSlash(n.Name))
		if info, err := os.Stat(in); err == nil && info.IsDir() {
			return true
		}
		if at == "." || at == "/" {
			return false
		}
	}
}

// Commands returns the commands that would install what is missing, for the package managers of this system. They are
// shown, never run.
func Commands(missing []Need) (all []string) {
	var system, brew, pip, npm, skills []string
	manager := managerOf()
	for _, n := range missing {
		switch n.Kind {
		case Program:
			p := programs()[n.Name]
			switch {
			case n.Name == "uv" && manager != "brew" && p.apt == "":
				all = append(all, "pipx install uv")
			case manager == "apt-get" && p.apt != "":
				system = append(system, p.apt)
			case manager == "dnf" && p.dnf != "":
				system = append(system, p.dnf)
			case p.brew != "" && (manager == "brew" || n.Min == ""):
				brew = append(brew, p.brew)
			}
		case Python:
			name := n.Name
			if p, ok := modules()[name]; ok {
				name = p
			}
			pip = append(pip, name)
		case NPM:
			npm = append(npm, n.Name)
		case Skill:
			skills = append(skills, "knack skill find "+n.Name)
		}
	}
	add := func(command string, names []string) {
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 0 {
			all = append(all, command+" "+strings.Join(names, " "))
		}
	}
	if manager != "brew" && manager != "" {
		add("sudo "+manager+" install", system)
	}
	add("brew install", brew)
	add("pip install", pip)
	add("npm install", npm)
	return append(all, skills...)
}

// managerOf is the package manager of this system; "": none is known.
func managerOf() string {
	for _, name := range []string{"apt-get", "dnf", "brew"} {
		if name != "brew" && runtime.GOOS != "linux" {
			continue
		}
		if _, err := exec.LookPath(name); err == nil {
			return name
		}
	}
	if runtime.GOOS == "darwin" {
		return "brew"
	}
	return ""
}
