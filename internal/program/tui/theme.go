package tui

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// themeNames returns the names of the program's themes, then those of the user's files.
func themeNames(dir string) (names []string) {
	for _, t := range styled.Themes() {
		names = append(names, t.Name)
	}
	if dir == "" {
		return names
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// readTheme returns a theme: the user's file of that name, else the program's theme.
func readTheme(dir, name string) (styled.Theme, error) {
	if dir != "" && name == filepath.Base(name) {
		path := filepath.Join(dir, name+".json")
		file, err := regular.Open(path)
		if err == nil {
			defer file.Close()
			data, err := io.ReadAll(io.LimitReader(file, styled.MaxThemeFile+1))
			if err != nil {
				return styled.Theme{}, fmt.Errorf("theme %s: %w", name, err)
			}
			t, err := styled.ParseTheme(name, data)
			if err != nil {
				return styled.Theme{}, fmt.Errorf("%s: %w", path, err)
			}
			return t, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return styled.Theme{}, fmt.Errorf("theme %s: %w", name, err)
		}
	}
	if t, ok := styled.ThemeNamed(name); ok {
		return t, nil
	}
	return styled.Theme{}, fmt.Errorf("unknown theme %s", name)
}
