package controlplane

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// BinDirEnv names the environment variable that says in which folder
// FindBinary looks first.
const BinDirEnv = "QUARTERMASTER_BIN"

const modulePath = "github.com/quartermaster-dra/quartermaster"

// FindBinary returns the absolute path of an executable that "make build"
// makes: "kwok", "scheduler", "kubectl" and so on, or of another release, which "make test-compat" makes. It looks in the folder that
// the environment variable QUARTERMASTER_BIN names, in the folder of the
// running executable, and in bin/ of the module's source tree around the
// working directory, which is where tests find it.
func FindBinary(name string) (string, error) {
	var looked []string
	for _, dir := range binDirs() {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
		looked = append(looked, path)
	}
	target := "build"
	if strings.HasPrefix(name, "compat/") {
		target = "test-compat"
	}
	return "", fmt.Errorf("find the executable %q: there is none at %s; run \"make %s\" in the source tree, or set %s to the folder that holds it",
		name, strings.Join(looked, ", "), target, BinDirEnv)
}

func binDirs() []string {
	var dirs []string
	if dir := os.Getenv(BinDirEnv); dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			dirs = append(dirs, abs)
		}
	}
	if executable, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(executable))
	}
	if wd, err := os.Getwd(); err == nil {
		if root, found := sourceTree(wd); found {
			dirs = append(dirs, filepath.Join(root, "bin"))
		}
	}
	return dirs
}

// sourceTree returns the root of this module's source tree, if dir is in it.
func sourceTree(dir string) (string, bool) {
	for {
		if declaresModule(filepath.Join(dir, "go.mod"), modulePath) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// declaresModule says whether a go.mod file is the one of the module.
func declaresModule(goMod, module string) bool {
	file, err := os.Open(goMod)
	if err != nil {
		return false
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if path, found := strings.CutPrefix(lines.Text(), "module "); found {
			return strings.TrimSpace(path) == module
		}
	}
	return false
}
