// Package chromium finds a browser that is based on Chromium.
package chromium

import (
	"os"
	"path/filepath"
	"runtime"
)

// Find returns the path of Chromium or Chrome on PATH or in its usual places; "": there is none. getenv reads the
// user's environment.
func Find(getenv func(string) string) string {
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
	if runtime.GOOS == "windows" {
		names = []string{"chrome.exe", "chromium.exe"}
	}
	for _, dir := range filepath.SplitList(getenv("PATH")) {
		if !filepath.IsAbs(dir) { // a relative one names files of the project
			continue
		}
		for _, name := range names {
			if file := filepath.Join(dir, name); runs(file) {
				return file
			}
		}
	}
	for _, file := range places(getenv) {
		if runs(file) {
			return file
		}
	}
	return ""
}

// places returns where installers put the browser on systems that do not use PATH for it.
func places(getenv func(string) string) []string {
	switch runtime.GOOS {
	case "darwin":
		var all []string
		for _, root := range []string{"/Applications", filepath.Join(getenv("HOME"), "Applications")} {
			all = append(all, filepath.Join(root, "Google Chrome.app/Contents/MacOS/Google Chrome"),
				filepath.Join(root, "Chromium.app/Contents/MacOS/Chromium"))
		}
		return all
	case "windows":
		var all []string
		for _, root := range []string{"ProgramFiles", "ProgramFiles(x86)", "LocalAppData"} {
			if dir := getenv(root); filepath.IsAbs(dir) {
				all = append(all, filepath.Join(dir, `Google\Chrome\Application\chrome.exe`),
					filepath.Join(dir, `Chromium\Application\chrome.exe`))
			}
		}
		return all
	}
	return []string{"/opt/google/chrome/chrome", "/usr/lib/chromium/chromium", "/snap/bin/chromium"}
}

// runs reports whether a file is a program.
func runs(file string) bool {
	info, err := os.Stat(file)
	return err == nil && filepath.IsAbs(file) && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0)
}
