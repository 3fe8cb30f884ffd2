package workspace

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestBashLike: the shell for command lines, on machines of which only names and files are given. No machine leads to
// PowerShell, which would read a line otherwise than the rules do.
func TestBashLike(t *testing.T) {
	for _, tt := range []struct {
		name, goos, set string
		files           []string // "NAME" on PATH, "NAME PATH" found there, or a file
		want            string   // "": an error
	}{
		{"linux", "linux", "", []string{"/bin/bash"}, "/bin/bash"},
		{"bash elsewhere", "linux", "", []string{"bash /usr/local/bin/bash", "sh /bin/sh"}, "/usr/local/bin/bash"},
		{"only sh", "linux", "", []string{"sh /bin/sh"}, "/bin/sh"},
		{"only PowerShell", "linux", "", []string{"pwsh /usr/bin/pwsh"}, ""},
		{"Git Bash beside cmd", "windows", "", []string{`git C:\Program Files\Git\cmd\git.exe`,
			`C:\Program Files\Git\bin\bash.exe`, `bash C:\Windows\System32\bash.exe`}, `C:\Program Files\Git\bin\bash.exe`},
		{"another drive, slashes", "windows", "", []string{`git D:/Tools/Git/cmd/git.exe`, `D:/Tools/Git\bin\bash.exe`},
			`D:/Tools/Git\bin\bash.exe`},
		{"the git of mingw64", "windows", "", []string{`git E:\Git\mingw64\bin\git.exe`, `E:\Git\bin\bash.exe`},
			`E:\Git\bin\bash.exe`},
		{"a shim of git, the usual place", "windows", "", []string{`git C:\Users\ann\scoop\shims\git.exe`,
			`C:\Program Files\Git\bin\bash.exe`}, `C:\Program Files\Git\bin\bash.exe`},
		{"no git, the usual place", "windows", "", []string{`C:\Program Files\Git\bin\bash.exe`},
			`C:\Program Files\Git\bin\bash.exe`},
		{"bash of MSYS2 on PATH", "windows", "", []string{`bash C:\msys64\usr\bin\bash.exe`}, `C:\msys64\usr\bin\bash.exe`},
		{"WSL's bash is none", "windows", "", []string{`bash c:\WINDOWS\system32\bash.exe`,
			`pwsh C:\Program Files\PowerShell\7\pwsh.exe`}, ""},
		{"git without a directory", "windows", "", []string{"git git.exe"}, ""},
		{"set", "windows", `D:\bash.exe`, []string{`D:\bash.exe`}, `D:\bash.exe`},
		{"set, not there", "windows", `D:\bash.exe`, nil, ""},
		{"PowerShell is set", "windows", "pwsh", []string{`pwsh C:\Program Files\PowerShell\7\PwSh.EXE`}, ""},
		{"Windows PowerShell is set", "windows", `C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`,
			[]string{`C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`}, ""},
		{"PowerShell is set on Linux", "linux", "/usr/bin/pwsh", []string{"/usr/bin/pwsh"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bashLike(tt.goos, tt.set, func(name string) (string, error) {
				i := slices.IndexFunc(tt.files, func(f string) bool { return f == name || strings.HasPrefix(f, name+" ") })
				if i < 0 {
					return "", errors.New("not found")
				}
				return strings.TrimPrefix(tt.files[i], name+" "), nil
			})
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
