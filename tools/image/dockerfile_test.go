package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// repository is where the Dockerfile is.
const repository = "../.."

// instruction is one of a Dockerfile: RUN, its flags (--mount=…), and the rest.
type instruction struct {
	name  string
	flags []string
	rest  string
}

// readDockerfile reads what the Dockerfile of this repository needs: comments, continued lines, flags.
func readDockerfile(t *testing.T) (all []instruction) {
	t.Helper()
	line := ""
	for text := bufio.NewScanner(bytes.NewReader(read(t, repository+"/Dockerfile"))); text.Scan(); {
		if strings.HasPrefix(text.Text(), "#") {
			continue
		}
		if part, continued := strings.CutSuffix(text.Text(), "\\"); continued {
			line += part
			continue
		}
		words := strings.Fields(line + text.Text())
		line = ""
		if len(words) == 0 {
			continue
		}
		next := instruction{name: words[0]}
		for words = words[1:]; strings.HasPrefix(words[0], "--"); words = words[1:] {
			next.flags = append(next.flags, words[0])
		}
		next.rest = strings.Join(words, " ")
		all = append(all, next)
	}
	return all
}

// engine does what a container engine does with a Dockerfile, as far as that goes without one: build steps run in a copy of the
// repository, on this machine, with the Go of this machine.
type engine struct {
	t    *testing.T
	args map[string]string
	// source is the copy, which is called workdir in the build.
	source, workdir string
	stages          []string
	// The rest is of the last stage.
	root, user, directory string
	entrypoint            []string
	labels                map[string]string
}

// do carries an instruction out, and fails at those that it does not know.
func (e *engine) do(i instruction) {
	e.t.Helper()
	switch {
	case i.name == "FROM":
		e.stages = append(e.stages, i.rest)
		e.labels = map[string]string{}
	case i.name == "ARG":
		name, value, _ := strings.Cut(i.rest, "=")
		if _, given := e.args[name]; !given {
			e.args[name] = value
		}
	case i.name == "WORKDIR" && len(e.stages) == 1:
		e.workdir = i.rest
	case i.name == "WORKDIR":
		e.directory = i.rest
	case i.name == "COPY" && i.rest == ". ." && len(e.stages) == 1:
		copyContext(e.t, e.source)
	case i.name == "COPY" && slices.Equal(i.flags, []string{"--from=build"}) && strings.HasSuffix(i.rest, "/ /"):
		inside, err := filepath.Rel(e.workdir, strings.Fields(i.rest)[0])
		if err != nil || strings.HasPrefix(inside, "..") {
			e.t.Fatalf("COPY %s: that is not in the repository", i.rest)
		}
		e.root = filepath.Join(e.source, inside)
	case i.name == "RUN":
		for _, flag := range i.flags {
			if !strings.HasPrefix(flag, "--mount=type=cache,") {
				e.t.Fatalf("RUN with %s, which the test knows nothing of", flag)
			}
		}
		e.run("sh", "-c", i.rest)
	case i.name == "USER":
		e.user = i.rest
	case i.name == "ENTRYPOINT":
		if err := json.Unmarshal([]byte(i.rest), &e.entrypoint); err != nil {
			e.t.Fatal(err)
		}
	case i.name == "LABEL":
		name, value, _ := strings.Cut(i.rest, "=")
		value, err := strconv.Unquote(value)
		if err != nil {
			e.t.Fatalf("LABEL %s: %v", i.rest, err)
		}
		e.labels[name] = os.Expand(value, func(name string) string { return e.args[name] })
	default:
		e.t.Fatalf("%s %s: the test knows nothing of that", i.name, i.rest)
	}
}

// run runs a command in the copy, with nothing that make has set for the tests.
func (e *engine) run(name string, args ...string) string {
	e.t.Helper()
	command := exec.Command(name, args...)
	command.Dir = e.source
	command.Env = append(os.Environ(), "MAKEFLAGS=", "MFLAGS=", "GOFLAGS=", "GIT_OPTIONAL_LOCKS=0")
	for name, value := range e.args {
		command.Env = append(command.Env, name+"="+value)
	}
	output, err := command.Output()
	if err != nil {
		if failed, ok := err.(*exec.ExitError); ok {
			output = append(output, failed.Stderr...)
		}
		e.t.Fatalf("%s %q: %v\n%s", name, args, err, output)
	}
	return string(output)
}

// copyContext copies what an engine gets of the repository: all that .dockerignore does not name.
func copyContext(t *testing.T, to string) {
	t.Helper()
	ignored := map[string]bool{}
	for line := range strings.Lines(string(read(t, repository+"/.dockerignore"))) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			ignored[line] = true
		}
	}
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		from, to := filepath.Join(repository, entry.Name()), filepath.Join(to, entry.Name())
		switch {
		case ignored[entry.Name()]:
		case entry.IsDir():
			err = os.CopyFS(to, os.DirFS(from))
		default:
			err = os.WriteFile(to, read(t, from), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDockerfile: what the Dockerfile builds is what `make image` builds, of the same copy of the repository.
func TestDockerfile(t *testing.T) {
	for _, program := range []string{"make", "git", "bash", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("make image needs %s: %v", program, err)
		}
	}
	e := &engine{t: t, args: map[string]string{"TARGETOS": "linux", "TARGETARCH": runtime.GOARCH}, source: t.TempDir()}
	t.Cleanup(func() { makeWritable(t, e.source) })
	all := readDockerfile(t)
	last := slices.IndexFunc(all, func(i instruction) bool { return i.name == "FROM" && i.rest == "scratch" })
	if last < 0 {
		t.Fatal("no stage begins with nothing (FROM scratch)")
	}
	for _, i := range all[:last] {
		e.do(i)
	}
	words := strings.Fields(e.run("make", "-s", "build-args"))
	for i := 1; i < len(words); i += 2 {
		name, value, _ := strings.Cut(words[i], "=")
		e.args[name] = value
	}
	for _, i := range all[last:] {
		e.do(i)
	}
	e.run("make", "bin/image.tar", "IMAGE_PLATFORMS=linux/"+runtime.GOARCH)
	e.compare(extract(t, filepath.Join(e.source, "bin", "image.tar")))
}

// compare compares the last stage with an archive that was unpacked into a folder.
func (e *engine) compare(archive string) {
	e.t.Helper()
	layout, err := layout.ImageIndexFromPath(archive)
	if err != nil {
		e.t.Fatal(err)
	}
	named, err := layout.IndexManifest()
	if err != nil {
		e.t.Fatal(err)
	}
	if name := named.Manifests[0].Annotations["io.containerd.image.name"]; !strings.Contains(string(read(e.t, repository+"/manifests/base/deployment.yaml")), "image: "+name+"\n") {
		e.t.Errorf("the archive is named %s, and manifests/base asks for another one", name)
	}
	index, err := layout.ImageIndex(named.Manifests[0].Digest)
	if err != nil {
		e.t.Fatal(err)
	}
	image := imageOf(e.t, index, runtime.GOARCH)
	file, err := image.ConfigFile()
	if err != nil {
		e.t.Fatal(err)
	}
	config := file.Config
	if e.user != config.User || e.directory != config.WorkingDir || !slices.Equal(e.entrypoint, config.Entrypoint) {
		e.t.Errorf("user %s, directory %s, entry point %q; make image has %s, %s, %q", e.user, e.directory, e.entrypoint, config.User, config.WorkingDir, config.Entrypoint)
	}
	for name, want := range config.Labels {
		if e.labels[name] != want {
			e.t.Errorf("label %s is %q, make image has %q", name, e.labels[name], want)
		}
	}
	if len(e.labels) != len(config.Labels) {
		e.t.Errorf("there are %d labels, make image has %d", len(e.labels), len(config.Labels))
	}
	same(e.t, filesIn(e.t, e.root), filesOf(e.t, image))
}

// TestDockerfileHasTheGoOfReleases: another version of Go makes other bits.
func TestDockerfileHasTheGoOfReleases(t *testing.T) {
	released := regexp.MustCompile(`go-version: "([0-9.]+)"`).FindSubmatch(read(t, repository+"/.github/workflows/release.yaml"))
	if released == nil {
		t.Fatal("the workflow of releases names no version of Go")
	}
	if from := readDockerfile(t)[0].rest; from != "golang:"+string(released[1])+" AS build" {
		t.Errorf("the Dockerfile begins with FROM %s, and releases are built with Go %s", from, released[1])
	}
}

// TestDockerignore: an engine gets all files that git has, because without one of them make takes the tree for a changed one.
func TestDockerignore(t *testing.T) {
	for line := range strings.Lines(string(read(t, repository+"/.dockerignore"))) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		if !regexp.MustCompile(`^[.a-z]+$`).MatchString(line) {
			t.Errorf("%q is a pattern; the test of the Dockerfile knows names only", line)
		}
		if tracked, err := exec.Command("git", "-C", repository, "ls-files", line).Output(); err == nil && len(tracked) > 0 {
			t.Errorf("%q excludes files that git has:\n%s", line, tracked)
		}
	}
}
