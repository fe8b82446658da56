package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeRoot writes the files of the image for one platform into a new folder, with the modes and times that they have in the image. The
// Dockerfile copies them.
func writeRoot(o options) error {
	if len(o.platforms) != 1 {
		return fmt.Errorf("-root: asked for the files of %d platforms; name one with -platforms, such as linux/amd64", len(o.platforms))
	}
	platform, err := parsePlatform(o.platforms[0])
	if err != nil {
		return err
	}
	common, err := commonFiles(o)
	if err != nil {
		return err
	}
	programs, err := programFiles(o, platform)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(o.root); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("-root: asked to write %s, which is there; remove it", o.root)
	}
	directories := map[string]bool{}
	for _, f := range slices.Concat(append(common, programs)...) {
		if err := o.writeFile(f); err != nil {
			return fmt.Errorf("write the files of the image: %w", err)
		}
		for parent := filepath.Dir(f.name); parent != "."; parent = filepath.Dir(parent) {
			directories[parent] = true
		}
	}
	return o.closeDirectories(directories)
}

func (o options) writeFile(f file) error {
	path := filepath.Join(o.root, f.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, f.content, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(path, os.FileMode(f.mode)); err != nil {
		return err
	}
	return os.Chtimes(path, o.created, o.created)
}

// closeDirectories makes directories read-only, the innermost first.
func (o options) closeDirectories(names map[string]bool) error {
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.SortFunc(sorted, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, name := range sorted {
		path := filepath.Join(o.root, name)
		if err := errors.Join(os.Chtimes(path, o.created, o.created), os.Chmod(path, directoryMode)); err != nil {
			return fmt.Errorf("write the files of the image: %w", err)
		}
	}
	return nil
}
