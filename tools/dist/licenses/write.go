package licenses

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// ListName is the file with a line for each module: path, version and SPDX expression, with tabs between them.
const ListName = "modules.tsv"

// Files returns the list and the licences, in a folder for each module.
func Files(modules []Module) []File {
	var list strings.Builder
	var files []File
	for _, module := range modules {
		fmt.Fprintf(&list, "%s\t%s\t%s\n", module.Path, module.Version, module.License)
		for _, file := range module.Files {
			files = append(files, File{Name: path.Join(module.Path, file.Name), Content: file.Content})
		}
	}
	return append([]File{{Name: ListName, Content: []byte(list.String())}}, files...)
}

// Write makes a folder of the list and the licences. What was there before is gone.
func Write(directory string, modules []Module) error {
	if err := clear(directory); err != nil {
		return err
	}
	for _, file := range Files(modules) {
		name := filepath.Join(directory, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("write licences: %w", err)
		}
		if err := os.WriteFile(name, file.Content, 0o644); err != nil {
			return fmt.Errorf("write licences: %w", err)
		}
	}
	return nil
}

// clear removes a folder that has licences, and refuses to remove any other.
func clear(directory string) error {
	entries, err := os.ReadDir(directory)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write licences: %w", err)
	}
	if _, err := os.Stat(filepath.Join(directory, ListName)); err != nil {
		return fmt.Errorf("write licences to %s: there are files, and none is called %s, so they are something else; name another folder", directory, ListName)
	}
	if err := os.RemoveAll(directory); err != nil {
		return fmt.Errorf("write licences: %w", err)
	}
	return nil
}
