package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

var modified = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func files() []File {
	long := strings.Repeat("licenses/example.com/module/", 8) + "LICENSE"
	return []File{
		{Name: "program", Mode: 0o755, Content: bytes.Repeat([]byte("program"), 1000)},
		{Name: long, Mode: 0o644, Content: []byte("as is")},
		{Name: "LICENSE", Mode: 0o644},
	}
}

var formats = map[string]func([]File, time.Time) ([]byte, error){"tar.gz": TarGz, "zip": Zip}

// TestSameBits: neither the order of the files nor the time zone matters, and everything else does.
func TestSameBits(t *testing.T) {
	for name, format := range formats {
		make := func(change func([]File) []File, modified time.Time) []byte {
			content, err := format(change(files()), modified)
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
		same := func(files []File) []File { return files }
		want := make(same, modified)
		if !bytes.Equal(want, make(func(f []File) []File { slices.Reverse(f); return f }, modified.In(time.FixedZone("elsewhere", 7200)))) {
			t.Errorf("%s: the order of the files or the time zone changes the archive", name)
		}
		for what, changed := range map[string][]byte{
			"time":    make(same, modified.Add(time.Minute)),
			"mode":    make(func(f []File) []File { f[0].Mode = 0o644; return f }, modified),
			"content": make(func(f []File) []File { f[2].Content = []byte("x"); return f }, modified),
		} {
			if bytes.Equal(want, changed) {
				t.Errorf("%s: another %s does not change the archive", name, what)
			}
		}
	}
}

// TestRead: others read what was written.
func TestRead(t *testing.T) {
	content, err := TarGz(files(), modified)
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(compressed)
	sorted, err := Sorted(files())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range sorted {
		header, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || header.Name != want.Name || header.Mode != want.Mode || !bytes.Equal(got, want.Content) ||
			!header.ModTime.Equal(modified) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%+v: %v", header, err)
		}
	}
	if content, err = Zip(files(), modified); err != nil {
		t.Fatal(err)
	}
	unzipped, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range sorted {
		got := unzipped.File[i]
		if got.Name != want.Name || int64(got.Mode()) != want.Mode || got.UncompressedSize64 != uint64(len(want.Content)) || !got.Modified.Equal(modified) {
			t.Errorf("%+v", got.FileHeader)
		}
	}
}

// TestSameName: what is unpacked is not left to chance, wherever it is.
func TestSameName(t *testing.T) {
	for name, format := range formats {
		for _, other := range []string{"LICENSE", "License"} {
			if _, err := format(append(files(), File{Name: other}), modified); err == nil || !strings.Contains(err.Error(), "two files") {
				t.Errorf("%s: %s: got %v", name, other, err)
			}
		}
	}
}
