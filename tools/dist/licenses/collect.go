// Package licenses collects the licences of what is linked into programs: for each package that is compiled, the files of licences and
// notices in its folder and in those above, up to its module's. Others' code within a module often has a licence of its own there.
package licenses

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Std is the name under which Go's standard library and runtime are listed.
const Std = "std"

// A Module has linked packages.
type Module struct {
	Path, Version string
	// License is the SPDX expression that classify returned for the files.
	License string
	Files   []File
}

// A File of a licence or notice.
type File struct {
	// Name is its path in the module, with slashes.
	Name    string
	Content []byte
}

// A Source is packages of the module in a folder, as `go list` takes them.
type Source struct {
	Directory string
	Packages  []string
}

// listed has the fields of a package in `go list` that Collect reads.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version, Dir string }
	}
}

// Collect returns the modules of packages and their dependencies, on any of the platforms (such as linux/amd64), in the order
// of their paths. A licence that is not allowed, not known or not there is an error; all of these are reported together.
func Collect(ctx context.Context, platforms []string, sources ...Source) ([]Module, error) {
	c := collection{modules: map[string]*Module{}, directories: map[string]bool{}}
	for _, source := range sources {
		for _, platform := range platforms {
			packages, err := list(ctx, source, platform)
			if err != nil {
				return nil, err
			}
			for _, p := range packages {
				if err := c.add(p); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := c.addStd(ctx); err != nil {
		return nil, err
	}
	return c.classified()
}

func list(ctx context.Context, source Source, platform string) (packages []listed, err error) {
	system, architecture, found := strings.Cut(platform, "/")
	if !found {
		return nil, fmt.Errorf("collect licences: asked for platform %q; it has to be like linux/amd64", platform)
	}
	args := append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module"}, source.Packages...)
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = source.Directory
	command.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0")
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("collect licences: go list %s in %s: %w: %s", strings.Join(source.Packages, " "), source.Directory, err, problems.String())
	}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("collect licences: what go list says: %w", err)
		}
		packages = append(packages, p)
	}
}

// collection holds the modules found so far.
type collection struct {
	modules     map[string]*Module
	directories map[string]bool // those that were looked into
}

// add adds the licences of a package. Ours is not among them: it is beside the programs.
func (c *collection) add(p listed) error {
	if p.Standard || p.Module == nil || p.Module.Main {
		return nil
	}
	version, root := p.Module.Version, p.Module.Dir
	if p.Module.Replace != nil {
		version, root = cmp.Or(p.Module.Replace.Version, version), p.Module.Replace.Dir
	}
	if root == "" || p.Dir == "" {
		return fmt.Errorf("collect licences: the sources of %s are not there; `go mod download` fetches them", p.ImportPath)
	}
	return c.addFolders(p.Module.Path, version, root, p.Dir)
}

// addStd adds the licence of what is linked into every Go program.
func (c *collection) addStd(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, "go", "env", "-json", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return fmt.Errorf("collect licences: go env: %w", err)
	}
	var env struct{ GOROOT, GOVERSION string }
	if err := json.Unmarshal(output, &env); err != nil {
		return fmt.Errorf("collect licences: what go env says: %w", err)
	}
	return c.addFolders(Std, env.GOVERSION, env.GOROOT, env.GOROOT)
}

// addFolders adds the files in a folder and in those above it, up to the module's root.
func (c *collection) addFolders(modulePath, version, root, directory string) error {
	module := c.modules[modulePath]
	if module == nil {
		module = &Module{Path: modulePath, Version: version}
		c.modules[modulePath] = module
	}
	if module.Version != version {
		return fmt.Errorf("collect licences: %s is linked as %s and as %s; one image or archive has one of them", modulePath, module.Version, version)
	}
	for ; !c.directories[directory]; directory = filepath.Dir(directory) {
		relative, err := filepath.Rel(root, directory)
		if err != nil || !filepath.IsLocal(relative) {
			return fmt.Errorf("collect licences: %s has a package in %s, which is not in the module's folder %s", modulePath, directory, root)
		}
		c.directories[directory] = true
		files, err := read(directory, filepath.ToSlash(relative))
		if err != nil {
			return fmt.Errorf("collect licences: %s: %w", modulePath, err)
		}
		module.Files = append(module.Files, files...)
		if relative == "." {
			break
		}
	}
	return nil
}

// legalName matches the names of licences and of notices, which are to be passed on as well.
var legalName = regexp.MustCompile(`(?i)^((un)?licen[cs]es?|copying|copyright|notice|patents)([-._].*)?$`)

// sourceName matches files that are called like licences and are programs.
var sourceName = regexp.MustCompile(`(?i)\.(go|s|c|h|tmpl|json|yaml|yml)$`)

func read(directory, relative string) (files []File, err error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !legalName.MatchString(entry.Name()) || sourceName.MatchString(entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: path.Join(relative, entry.Name()), Content: content})
	}
	return files, nil
}

// classified returns all modules with their licences.
func (c *collection) classified() (modules []Module, err error) {
	for _, module := range c.modules {
		slices.SortFunc(module.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
		modules = append(modules, *module)
	}
	slices.SortFunc(modules, func(a, b Module) int { return cmp.Compare(a.Path, b.Path) })
	var problems []error
	for i := range modules {
		expression, err := classify(&modules[i])
		modules[i].License = expression
		problems = append(problems, err)
	}
	return modules, errors.Join(problems...)
}
