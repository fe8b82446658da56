package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// testOptions has binaries that are none.
func testOptions(t *testing.T) options {
	t.Helper()
	directory := t.TempDir()
	for _, platform := range []string{"linux-amd64", "linux-arm64"} {
		if err := os.Mkdir(filepath.Join(directory, platform), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			if err := os.WriteFile(filepath.Join(directory, platform, program), []byte(program+" for "+platform), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	licenses := filepath.Join(directory, "licenses")
	if err := os.MkdirAll(filepath.Join(licenses, "example.com", "module"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"modules.tsv", "example.com/module/LICENSE"} {
		if err := os.WriteFile(filepath.Join(licenses, name), []byte("as is"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return options{
		binaries: directory, licenses: licenses, platforms: []string{"linux/amd64", "linux/arm64"}, output: filepath.Join(t.TempDir(), "image.tar"),
		name: "registry.example.com/quartermaster:v1", version: "v1", revision: "0123456", created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// entry is a file or a folder of an image.
type entry struct {
	mode    int64
	uid     int
	time    time.Time
	content string
}

// filesOf are the files of an image, with all layers on top of each other.
func filesOf(t *testing.T, image v1.Image) map[string]entry {
	t.Helper()
	files, archive := map[string]entry{}, mutate.Extract(image)
	defer archive.Close()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = entry{mode: header.Mode, uid: header.Uid, time: header.ModTime, content: string(content)}
	}
}

// TestSameBits: the same binaries give the same archive, whenever and wherever it is made.
func TestSameBits(t *testing.T) {
	o := testOptions(t)
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	first := read(t, o.output)
	again := testOptions(t)
	if err := run(again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, read(t, again.output)) {
		t.Error("two archives of the same binaries differ")
	}
	again.revision = "7654321"
	if err := run(again); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first, read(t, again.output)) {
		t.Error("the archive does not say which commit it is of")
	}
}

// TestPush: what a registry has afterwards is for both platforms, and what runs is nobody's and cannot be written to.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	o := testOptions(t)
	o.push = strings.TrimPrefix(server.URL, "http://") + "/quartermaster:v1"
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(o.push)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.Config.User != user || config.Config.Entrypoint[0] != entrypoint ||
			config.Config.Labels["org.opencontainers.image.revision"] != o.revision || !config.Created.Equal(o.created) {
			t.Errorf("%s: %+v", arch, config)
		}
		files := filesOf(t, image)
		for _, name := range []string{"scheduler", "guard", "etc/ssl/certs/ca-certificates.crt", "licenses/modules.tsv", "licenses/example.com/module/LICENSE"} {
			file, there := files[name]
			if !there {
				t.Fatalf("%s: there is no %s", arch, name)
			}
			if file.mode&0o222 != 0 || file.uid != 0 {
				t.Errorf("%s: %s can be written to: mode %o of user %d", arch, name, file.mode, file.uid)
			}
		}
		if len(files) != 11 {
			t.Errorf("%s: %d files and directories; wanted two binaries, the certificates, two files of licences, and six directories", arch, len(files))
		}
	}
}

// TestRoots: the certificates can be read by who needs them.
func TestRoots(t *testing.T) {
	files, err := rootFiles()
	if err != nil {
		t.Fatal(err)
	}
	text := files[0].content
	if !x509.NewCertPool().AppendCertsFromPEM(text) || bytes.Count(text, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Error("there are hardly any certificates")
	}
}

// TestProblems: who asks for something that cannot be is told so.
func TestProblems(t *testing.T) {
	for want, change := range map[string]func(*options){
		"`make image` builds it":      func(o *options) { o.platforms = []string{"linux/s390x"} },
		"collects them":               func(o *options) { o.licenses = filepath.Join(o.licenses, "example.com") },
		"which is no platform":        func(o *options) { o.platforms = []string{"linux/amd64/v1/what"} },
		"is no reference to an image": func(o *options) { o.push = "Not A Reference" },
		"is no reference with a tag":  func(o *options) { o.name = "q@sha256:" + strings.Repeat("0", 64) },
		"name one with -platforms":    func(o *options) { o.root = filepath.Join(o.binaries, "root") },
		"which is there; remove it":   func(o *options) { o.root, o.platforms = o.binaries, o.platforms[:1] },
	} {
		o := testOptions(t)
		change(&o)
		if err := run(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("wanted an error with %q, got %v", want, err)
		}
	}
	if _, err := parse([]string{"-created", "yesterday"}); err == nil || !strings.Contains(err.Error(), "is no time") {
		t.Errorf("got %v", err)
	}
}
