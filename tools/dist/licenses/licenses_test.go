package licenses

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func text(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestCollect: what this module's command is linked from has licences, and so has Go.
func TestCollect(t *testing.T) {
	modules, err := Collect(t.Context(), []string{"linux/amd64", "windows/amd64"}, Source{Directory: "..", Packages: []string{"./cmd/licenses"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, module := range modules {
		got = append(got, module.Path+" "+module.License)
		if module.Version == "" {
			t.Errorf("%s has no version", module.Path)
		}
	}
	if want := "github.com/google/licensecheck BSD-3-Clause, std BSD-3-Clause"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, wanted %s", got, want)
	}
	directory := filepath.Join(t.TempDir(), "licenses")
	for range 2 { // the second one replaces the first one
		if err := Write(directory, modules); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(text(t, filepath.Join(directory, "std", "LICENSE"))), "Redistribution and use") ||
		strings.Count(string(text(t, filepath.Join(directory, ListName))), "\n") != 2 {
		t.Error("the folder does not have what was collected")
	}
}

// TestWriteElsewhere: a folder with something else stays as it is.
func TestWriteElsewhere(t *testing.T) {
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "thesis"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(directory, nil); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("got %v", err)
	}
	text(t, filepath.Join(directory, "thesis"))
}

// TestClassify: what is not allowed, not known or not there is an error, whatever else the module has.
func TestClassify(t *testing.T) {
	apache := File{Name: "LICENSE", Content: text(t, "../../../LICENSE")}
	const gpl = "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version."
	for want, files := range map[string][]File{
		"GPL-3.0":                    {apache, {Name: "third_party/LICENSE", Content: []byte(gpl)}},
		"0 % of the text are known":  {{Name: "LICENSE", Content: []byte("Ask my lawyer.")}},
		"has no file with a licence": {{Name: "NOTICE", Content: apache.Content}},
		"LICENSE: 0 %":               {{Name: "LICENSE"}},
	} {
		if _, err := classify(&Module{Path: "example.com/m", Version: "v1.0.0", Files: files}); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "example.com/m@v1.0.0") {
			t.Errorf("wanted an error with %q, got %v", want, err)
		}
	}
	got, err := classify(&Module{Files: []File{apache, {Name: "NOTICE", Content: []byte("Thanks")}, {Name: "LICENSE.docs", Content: []byte("none of code")}}})
	if err != nil || got != "Apache-2.0" {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestNames: licences are found by whatever they are called, and programs are not taken for licences.
func TestNames(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"LICENSE", "License.md", "LICENCE.txt", "UNLICENSE", "COPYING.LESSER", "NOTICE", "license.go", "licenses_test.go", "copyright.tmpl", "licensed", "README"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := read(directory, ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		got = append(got, file.Name)
	}
	if want := "COPYING.LESSER LICENCE.txt LICENSE License.md NOTICE UNLICENSE"; strings.Join(got, " ") != want {
		t.Errorf("got %v, wanted %s", got, want)
	}
}
