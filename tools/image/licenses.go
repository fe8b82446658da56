package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// licenseList is the file that each folder of licences has (tools/dist/licenses).
const licenseList = "modules.tsv"

// licenseFiles are the licences of what is in the binaries, in the order of their names.
func licenseFiles(directory string) ([]file, error) {
	if _, err := os.Stat(filepath.Join(directory, licenseList)); err != nil {
		return nil, fmt.Errorf("there is no list of licences %s in %s; `make image` collects them", licenseList, directory)
	}
	var files []file
	err := filepath.WalkDir(directory, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(directory, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		files = append(files, file{name: "licenses/" + filepath.ToSlash(relative), mode: 0o444, content: content})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the licences: %w", err)
	}
	return files, nil
}
