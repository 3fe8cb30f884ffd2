// Package chromium finds a browser that is based on Chromium.
package chromium

import (
	"os"
	"path/filepath"
	"runtime"
)

// Variable names the program, for a browser that is elsewhere. "none" means that there is none.
const Variable = "KNACK_BROWSER"

// Find returns the path of Chromium or Chrome on PATH or in its usual places; "": there is none. getenv reads the
// user's environment. On Windows it finds none: the browser tools give their commands through a pipe on descriptors
// that a program there does not inherit.
func Find(getenv func(string) string) string {
	if runtime.GOOS == "windows" {
		return ""
	}
	if file := getenv(Variable); file != "" {
		if runs(file) {
			return file
		}
		return ""
	}
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
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
	if runtime.GOOS != "darwin" {
		return []string{"/opt/google/chrome/chrome", "/usr/lib/chromium/chromium", "/snap/bin/chromium"}
	}
	var all []string
	for _, root := range []string{"/Applications", filepath.Join(getenv("HOME"), "Applications")} {
		all = append(all, filepath.Join(root, "Google Chrome.app/Contents/MacOS/Google Chrome"),
			filepath.Join(root, "Chromium.app/Contents/MacOS/Chromium"))
	}
	return all
}

// runs reports whether a file is a program.
func runs(file string) bool {
	info, err := os.Stat(file)
	return err == nil && filepath.IsAbs(file) && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
