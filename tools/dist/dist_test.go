package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"archive/tar"
	"archive/zip"
	"compress/gzip"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// repository makes a small repository with the three programs, built, and a chart.
func repository(t *testing.T) options {
	t.Helper()
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	license, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	write("LICENSE", string(license))
	write("go.mod", "module example.com/small\n\ngo 1.26.0\n")
	write("charts/quartermaster/Chart.yaml", "apiVersion: v2\nname: quartermaster # ours\nversion: 0.0.0\nappVersion: main\n")
	write("charts/quartermaster/templates/deployment.yaml", "version: stays\n")
	// A chart that reads the files of another folder, as ours does.
	write("charts/quartermaster/.helmignore", "# Programs are not for Helm.\n*.go\n.git/\n")
	write("manifests/base/role.yaml", "kind: Role\n")
	write("manifests/embed.go", "package manifests\n")
	if err := os.Symlink("../../manifests", filepath.Join(root, "charts", "quartermaster", "manifests")); err != nil {
		t.Fatal(err)
	}
	write("cmd/kubectl-devices/kubectl_complete-devices", "#!/bin/sh\n")
	write("bin/image.tar", "layers")
	o := options{
		repository: root, binaries: filepath.Join(root, "bin", "platforms"), image: filepath.Join(root, "bin", "image.tar"), output: filepath.Join(t.TempDir(), "dist"),
		version: "v0.1.0", kubernetes: "v1.37.2", created: created,
		platforms: []string{"linux/amd64"}, kubectl: []string{"linux/amd64", "darwin/arm64", "windows/amd64"},
	}
	for _, program := range []string{"scheduler", "guard", "kubectl-devices"} {
		write("cmd/"+program+"/main.go", "package main\n\nfunc main() { print(\"this is "+program+"\") }\n")
		platforms := o.platforms
		if program == "kubectl-devices" {
			platforms = o.kubectl
		}
		for _, platform := range platforms {
			system, architecture, _ := strings.Cut(platform, "/")
			build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(o.binaries, system+"-"+architecture, program), "./cmd/"+program)
			build.Dir, build.Env = root, append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0")
			if output, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
		}
	}
	return o
}

func released(t *testing.T, o options) map[string][]byte {
	t.Helper()
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(o.output)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(o.output, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// unpacked returns the files of a compressed tar archive.
func unpacked(t *testing.T, content []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

// TestRelease: a release is complete, the same bits in another folder, and its checksums are right.
func TestRelease(t *testing.T) {
	files := released(t, repository(t))
	want := []string{
		"SHA256SUMS", "devices.yaml", "quartermaster-0.1.0.tgz", "quartermaster-image_v0.1.0.oci.tar",
		"quartermaster-scheduler_v0.1.0_linux_amd64.tar.gz", "quartermaster-scheduler_v0.1.0_linux_amd64.cdx.json",
		"quartermaster-guard_v0.1.0_linux_amd64.tar.gz", "quartermaster-guard_v0.1.0_linux_amd64.cdx.json",
		"kubectl-devices_v0.1.0_linux_amd64.tar.gz", "kubectl-devices_v0.1.0_linux_amd64.cdx.json",
		"kubectl-devices_v0.1.0_darwin_arm64.tar.gz", "kubectl-devices_v0.1.0_darwin_arm64.cdx.json",
		"kubectl-devices_v0.1.0_windows_amd64.zip", "kubectl-devices_v0.1.0_windows_amd64.cdx.json",
	}
	for _, name := range want {
		content, found := files[name]
		if !found {
			t.Errorf("there is no %s", name)
		}
		sum := sha256.Sum256(content)
		if line := hex.EncodeToString(sum[:]) + "  " + name + "\n"; name != "SHA256SUMS" && !strings.Contains(string(files["SHA256SUMS"]), line) {
			t.Errorf("SHA256SUMS has no line %q", line)
		}
	}
	if len(files) != len(want) {
		t.Errorf("%d files, wanted %d", len(files), len(want))
	}
	for name, content := range released(t, repository(t)) {
		if !bytes.Equal(content, files[name]) {
			t.Errorf("%s has other bits when it is made again, elsewhere", name)
		}
	}
	chart := unpacked(t, files["quartermaster-0.1.0.tgz"])
	if got := chart["quartermaster/Chart.yaml"]; got != "apiVersion: v2\nname: quartermaster # ours\nversion: \"0.1.0\"\nappVersion: \"v0.1.0\"\n" {
		t.Errorf("Chart.yaml is %q", got)
	}
	if chart["quartermaster/manifests/base/role.yaml"] != "kind: Role\n" {
		t.Error("what a link of the chart leads to is not in it")
	}
	if _, found := chart["quartermaster/manifests/embed.go"]; found {
		t.Error("the chart has a file that .helmignore names")
	}
	if chart["quartermaster/templates/deployment.yaml"] != "version: stays\n" {
		t.Error("the chart's templates are not as they were")
	}
}

// TestArchives: what is unpacked is all that a user needs, and runs.
func TestArchives(t *testing.T) {
	files := released(t, repository(t))
	archive := unpacked(t, files["kubectl-devices_v0.1.0_"+"linux_amd64.tar.gz"])
	for _, name := range []string{"kubectl-devices", "kubectl_complete-devices", "LICENSE", "README.md", "licenses/modules.tsv", "licenses/std/LICENSE"} {
		if archive[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	if !strings.Contains(archive["README.md"], "/blob/v0.1.0/docs/kubectl-devices.md") {
		t.Errorf("README.md: %s", archive["README.md"])
	}
	zipped := files["kubectl-devices_v0.1.0_windows_amd64.zip"]
	r, err := zip.NewReader(bytes.NewReader(zipped), int64(len(zipped)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range r.File {
		names = append(names, file.Name)
	}
	if !slices.Contains(names, "kubectl-devices.exe") || slices.Contains(names, "kubectl_complete-devices") {
		t.Errorf("for windows: %v", names)
	}
}

// TestBill: others read the bill of materials, and it is of this binary.
func TestBill(t *testing.T) {
	files := released(t, repository(t))
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(files["quartermaster-guard_v0.1.0_linux_amd64.cdx.json"]), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(unpacked(t, files["quartermaster-guard_v0.1.0_linux_amd64.tar.gz"])["guard"]))
	if main := bom.Metadata.Component; main.Version != "v0.1.0" || (*main.Hashes)[0].Value != hex.EncodeToString(sum[:]) || bom.Metadata.Timestamp != "2026-01-02T03:04:05Z" {
		t.Errorf("metadata: %+v", bom.Metadata)
	}
	if std := (*bom.Components)[0]; std.Name != "std" || "go"+std.Version != runtime.Version() || (*std.Licenses)[0].License.ID != "BSD-3-Clause" {
		t.Errorf("components: %+v", *bom.Components)
	}
	if !json.Valid(files["quartermaster-guard_v0.1.0_linux_amd64.cdx.json"]) {
		t.Error("it is not JSON")
	}
}

// TestKrew: krew finds nothing wrong with the manifest, and installs the plugin from the archive.
func TestKrew(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the archive that is installed is for linux/amd64, and cannot run here")
	}
	o := repository(t)
	released(t, o)
	manifest := filepath.Join(o.output, "devices.yaml")
	if output, err := exec.Command("go", "tool", "validate-krew-manifest", "-manifest", manifest, "-skip-install").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	home := t.TempDir()
	install := exec.Command("go", "tool", "krew", "install", "--manifest", manifest, "--archive", filepath.Join(o.output, "kubectl-devices_v0.1.0_linux_amd64.tar.gz"))
	install.Env = append(os.Environ(), "KREW_ROOT="+home, "KREW_NO_UPGRADE_CHECK=1")
	if output, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	output, err := exec.Command(filepath.Join(home, "bin", "kubectl-devices")).CombinedOutput()
	if err != nil || string(output) != "this is kubectl-devices" {
		t.Errorf("%v: %s", err, output)
	}
}

// TestProblems: who asks for something that cannot be is told so, and nothing is overwritten.
func TestProblems(t *testing.T) {
	o := repository(t)
	for want, change := range map[string]func(*options){
		"has to be empty":       func(o *options) { o.output = o.repository },
		"`make dist` builds it": func(o *options) { o.kubectl = []string{"linux/s390x"} },
		"`make image` builds":   func(o *options) { o.image += ".gone" },
	} {
		changed := o
		changed.output = t.TempDir()
		change(&changed)
		if err := run(t.Context(), changed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("wanted an error with %q, got %v", want, err)
		}
	}
	for _, version := range []string{"", "0.1.0", "v1", "v1.2.3+x", "v01.0.0", "v1.2.3/../x"} {
		if _, err := parse([]string{"-version", version, "-created", "2026-01-02T03:04:05Z"}); err == nil || !strings.Contains(err.Error(), "no version such as v0.1.0") {
			t.Errorf("%q: got %v", version, err)
		}
	}
	for _, version := range []string{"v0.1.0", "v0.1.0-rc.1", "v0.0.0-20260102030405-0123456789ab.dirty"} {
		if _, err := parse([]string{"-version", version, "-created", "2026-01-02T03:04:05Z"}); err != nil {
			t.Errorf("%q: got %v", version, err)
		}
	}
	if _, err := versioned([]byte("version: 1\nversion: 2\nappVersion: 3\n"), "1", "v1"); err == nil || !strings.Contains(err.Error(), "has to have one") {
		t.Errorf("got %v", err)
	}
}

// TestIgnoredNames: what Helm would understand otherwise is refused.
func TestIgnoredNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".helmignore")
	for text, want := range map[string]bool{"*.go\n": true, "": true, "# a/b\n.git/\n": true, "a/b\n": false, "!a.go\n": false, "[\n": false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ignoredNames(file); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ignoredNames(filepath.Join(t.TempDir(), "nowhere")); err != nil {
		t.Errorf("a chart without the file: %v", err)
	}
}
