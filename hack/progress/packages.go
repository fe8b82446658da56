package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// pkg is a package that is to be compiled.
type pkg struct {
	path string
	// work is the size of the source in bytes.
	work int64
}

// perPackage is the cost of a package besides its source (starting the compiler, reading its
// imports), in bytes of source.
const perPackage = 20_000

// listFormat has go list print a package that is not in the build cache: its path, its folder and its files.
const listFormat = `{{if .Stale}}{{.ImportPath}}{{"\t"}}{{.Dir}}{{range .GoFiles}}{{"\t"}}{{.}}{{end}}{{end}}`

// withValue are the flags of go build, among those used here, whose value is an argument of its own.
var withValue = []string{"-o", "-C", "-ldflags", "-gcflags", "-tags", "-p", "-mod", "-modfile"}

// listCommand is the go list command for what a go build command compiles; nil if it is another one. Most of
// what go vet does is not compiling, so the same for it would be wrong.
func listCommand(command []string) []string {
	list := []string{command[0]}
	arguments := command[1:]
	if len(arguments) > 2 && arguments[0] == "-C" {
		list, arguments = append(list, arguments[:2]...), arguments[2:]
	}
	if len(arguments) == 0 || arguments[0] != "build" {
		return nil
	}
	list = append(list, "list")
	var packages []string
	for i := 1; i < len(arguments); i++ {
		argument := arguments[i]
		switch {
		case argument == "-C" && i+1 < len(arguments):
			// Where the command runs: go wants it first.
			list = slices.Insert(list, 1, "-C", arguments[i+1])
			i++
		case argument == "-race":
			list = append(list, argument)
		case slices.Contains(withValue, argument):
			i++
		case !strings.HasPrefix(argument, "-"):
			packages = append(packages, argument)
		}
	}
	return append(append(list, "-deps", "-e", "-f", listFormat), packages...)
}

// stale runs a command of listCommand. Without an answer there is no estimate, which is no reason to fail.
func stale(list []string) []pkg {
	output, err := exec.Command(list[0], list[1:]...).Output()
	if err != nil {
		return nil
	}
	var packages []pkg
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 2 {
			continue
		}
		p := pkg{path: fields[0], work: perPackage}
		for _, file := range fields[2:] {
			if info, err := os.Stat(filepath.Join(fields[1], file)); err == nil {
				p.work += info.Size()
			}
		}
		packages = append(packages, p)
	}
	return packages
}

// isTerminal says whether a file is a terminal, on which a line can be rewritten.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	dumb, _ := strconv.ParseBool(os.Getenv("CI"))
	return !dumb && os.Getenv("TERM") != "dumb"
}
