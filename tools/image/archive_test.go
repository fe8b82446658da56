package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// extract unpacks an archive into a folder.
func extract(t *testing.T, archive string) string {
	t.Helper()
	folder := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(read(t, archive))); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return folder
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, header.Name)
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNameInArchive: whatever reads the archive, the image has the name that it was given, as runtimes store it.
func TestNameInArchive(t *testing.T) {
	for given, want := range map[string]string{
		"registry.example.com/team/quartermaster:v1": "registry.example.com/team/quartermaster:v1",
		"localhost:5000/quartermaster":               "localhost:5000/quartermaster:latest",
		"quartermaster:dev":                          "docker.io/library/quartermaster:dev",
		"team/quartermaster:dev":                     "docker.io/team/quartermaster:dev",
	} {
		o := testOptions(t)
		o.name = given
		if err := run(o); err != nil {
			t.Fatal(err)
		}
		folder := extract(t, o.output)
		index, err := layout.ImageIndexFromPath(folder)
		if err != nil {
			t.Fatal(err)
		}
		listed, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(listed.Manifests) != 1 {
			t.Fatalf("the layout has %d images; wanted one index for all platforms", len(listed.Manifests))
		}
		for _, annotation := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
			if got := listed.Manifests[0].Annotations[annotation]; got != want {
				t.Errorf("named %s: annotation %s is %q, wanted %q", given, annotation, got, want)
			}
		}
		var docker []dockerImage
		if err := json.Unmarshal(read(t, filepath.Join(folder, "manifest.json")), &docker); err != nil {
			t.Fatal(err)
		}
		if len(docker) != 1 || len(docker[0].RepoTags) != 1 || docker[0].RepoTags[0] != want {
			t.Errorf("named %s: Docker's list is %+v, wanted one image with the tag %s", given, docker, want)
		}
	}
}

// TestDockerReadsTheArchive: read in Docker's format, the archive has the image of the first platform, and no blob is there twice.
func TestDockerReadsTheArchive(t *testing.T) {
	o := testOptions(t)
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(o.name)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(o.output, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "amd64" || config.Config.User != user {
		t.Errorf("the configuration is for %s and user %q, wanted amd64 and %s", config.Architecture, config.Config.User, user)
	}
	index, err := indexOf(o)
	if err != nil {
		t.Fatal(err)
	}
	same(t, filesOf(t, image), filesOf(t, imageOf(t, index, "amd64")))
}

func imageOf(t *testing.T, index v1.ImageIndex, architecture string) v1.Image {
	t.Helper()
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list.Manifests {
		if entry.Platform.Architecture == architecture {
			image, err := index.Image(entry.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
	}
	t.Fatalf("there is no image for %s", architecture)
	return nil
}

// filesIn are the files and folders below a folder, as an image would have them.
func filesIn(t *testing.T, root string) map[string]entry {
	t.Helper()
	found := map[string]entry{}
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		file := entry{mode: int64(info.Mode().Perm()), time: info.ModTime().UTC()}
		if !d.IsDir() {
			file.content = string(read(t, path))
		}
		relative, err := filepath.Rel(root, path)
		found[filepath.ToSlash(relative)] = file
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// same compares files with those that are wanted.
func same(t *testing.T, got, want map[string]entry) {
	t.Helper()
	for name, file := range want {
		found, there := got[name]
		switch {
		case !there:
			t.Errorf("%s is missing", name)
		case found.mode != file.mode || !found.time.Equal(file.time):
			t.Errorf("%s has mode %o and time %s, wanted %o and %s", name, found.mode, found.time, file.mode, file.time)
		case found.content != file.content:
			t.Errorf("%s has other content", name)
		}
	}
	for name := range got {
		if _, wanted := want[name]; !wanted {
			t.Errorf("%s is there, and should not be", name)
		}
	}
}

// TestRoot: the files for the Dockerfile are those of the image, with their modes and times.
func TestRoot(t *testing.T) {
	o := testOptions(t)
	o.platforms, o.root = []string{"linux/arm64"}, filepath.Join(t.TempDir(), "root")
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { makeWritable(t, o.root) })
	index, err := indexOf(o)
	if err != nil {
		t.Fatal(err)
	}
	got := filesIn(t, o.root)
	same(t, got, filesOf(t, imageOf(t, index, "arm64")))
	if content := got["scheduler"].content; content != "scheduler for linux-arm64" {
		t.Errorf("the scheduler is %q", content)
	}
	if _, err := os.Stat(o.output); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is an archive as well (%v)", err)
	}
}

// makeWritable lets the folders of an image be removed.
func makeWritable(t *testing.T, root string) {
	t.Helper()
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o755)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
