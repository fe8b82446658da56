package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quartermaster-dra/quartermaster/tools/dist/archive"
	"github.com/quartermaster-dra/quartermaster/tools/dist/krew"
	"github.com/quartermaster-dra/quartermaster/tools/dist/licenses"
	"github.com/quartermaster-dra/quartermaster/tools/dist/sbom"
)

// documentation is where to read on, for each program.
var documentation = map[string]string{"scheduler": "install.md", "guard": "guard.md", "kubectl-devices": "kubectl-devices.md"}

// addProgram adds an archive and a bill of materials for each platform. name is the prefix of the files' names.
func (r *release) addProgram(ctx context.Context, program, name string, platforms []string) ([]krew.Archive, error) {
	var archives []krew.Archive
	for _, platform := range platforms {
		modules, err := licenses.Collect(ctx, []string{platform}, licenses.Source{Directory: r.repository, Packages: []string{"./cmd/" + program}})
		if err != nil {
			return nil, err
		}
		binary, err := r.binary(program, platform)
		if err != nil {
			return nil, err
		}
		base := name + "_" + r.version + "_" + strings.ReplaceAll(platform, "/", "_")
		bill, err := sbom.Of(sbom.Program{Name: name, Version: r.version, Platform: platform, Created: r.created, Binary: binary}, modules)
		if err != nil {
			return nil, err
		}
		if err := r.write(base+".cdx.json", bill); err != nil {
			return nil, err
		}
		files, err := r.files(program, platform, binary, modules)
		if err != nil {
			return nil, err
		}
		format, suffix := archive.TarGz, ".tar.gz"
		if isWindows(platform) {
			format, suffix = archive.Zip, ".zip"
		}
		content, err := format(files, r.created)
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", base, err)
		}
		if err := r.write(base+suffix, content); err != nil {
			return nil, err
		}
		archives = append(archives, krew.Archive{Platform: platform, File: base + suffix, SHA256: r.sums[base+suffix]})
	}
	return archives, nil
}

func isWindows(platform string) bool { return strings.HasPrefix(platform, "windows/") }

func (r *release) binary(program, platform string) ([]byte, error) {
	name := filepath.Join(r.binaries, strings.ReplaceAll(platform, "/", "-"), program)
	content, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s; `make dist` builds it", name)
	}
	return content, err
}

// files returns the files of an archive: the program, completion of its arguments where there is sh, licences, and links to documents.
func (r *release) files(program, platform string, binary []byte, modules []licenses.Module) ([]archive.File, error) {
	license, err := os.ReadFile(filepath.Join(r.repository, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("read our licence: %w", err)
	}
	executable := program
	if isWindows(platform) {
		executable += ".exe"
	}
	files := []archive.File{
		{Name: executable, Mode: 0o755, Content: binary},
		{Name: "LICENSE", Mode: 0o644, Content: license},
		{Name: "README.md", Mode: 0o644, Content: []byte(r.notice(program, platform))},
	}
	if program == "kubectl-devices" && !isWindows(platform) {
		completion, err := os.ReadFile(filepath.Join(r.repository, "cmd", program, "kubectl_complete-devices"))
		if err != nil {
			return nil, fmt.Errorf("read the completion of kubectl devices: %w", err)
		}
		files = append(files, archive.File{Name: "kubectl_complete-devices", Mode: 0o755, Content: completion})
	}
	for _, file := range licenses.Files(modules) {
		files = append(files, archive.File{Name: "licenses/" + file.Name, Mode: 0o644, Content: file.Content})
	}
	return files, nil
}

func (r *release) notice(program, platform string) string {
	return fmt.Sprintf(`# %s %s for %s

Part of Quartermaster, which hands out devices in Kubernetes. Built with the libraries of Kubernetes %s.

How to use it: https://github.com/quartermaster-dra/quartermaster/blob/%s/docs/%s

Apache License 2.0 (LICENSE). What it is built of, with licences: licenses/%s, and a folder for each module.
`, program, r.version, platform, r.kubernetes, r.version, documentation[program], licenses.ListName)
}
