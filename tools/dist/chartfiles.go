package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/quartermaster-dra/quartermaster/tools/dist/archive"
)

// chartFiles reads a chart as Helm does: links are followed, and what .helmignore names is left out.
func chartFiles(root string) ([]archive.File, error) {
	ignored, err := ignoredNames(filepath.Join(root, ".helmignore"))
	if err != nil {
		return nil, err
	}
	var files []archive.File
	var read func(relative string) error
	read = func(relative string) error {
		entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(relative)))
		if err != nil {
			return err
		}
		for _, entry := range entries {
			name := path.Join(relative, entry.Name())
			info, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			if ignored(info) {
				continue
			}
			if info.IsDir() {
				if err := read(name); err != nil {
					return err
				}
				continue
			}
			content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			files = append(files, archive.File{Name: "quartermaster/" + name, Mode: 0o644, Content: content})
		}
		return nil
	}
	return files, read(".")
}

// ignoredNames reads a .helmignore file. Only names are understood, with wildcards, and names of folders with a slash at
// the end; a path or an exception is an error, rather than something that is packaged otherwise than Helm does it.
func ignoredNames(file string) (func(os.FileInfo) bool, error) {
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var patterns []string
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.Contains(strings.TrimSuffix(line, "/"), "/") || strings.HasPrefix(line, "!") {
			return nil, fmt.Errorf("%s: %q is not a name; only names of files and folders are understood", file, line)
		}
		if _, err := path.Match(strings.TrimSuffix(line, "/"), ""); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, line, err)
		}
		patterns = append(patterns, line)
	}
	return func(info os.FileInfo) bool {
		for _, pattern := range patterns {
			name, folder := strings.CutSuffix(pattern, "/")
			if matches, _ := path.Match(name, info.Name()); matches && (info.IsDir() || !folder) {
				return true
			}
		}
		return false
	}, nil
}
