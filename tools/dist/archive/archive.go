// Package archive writes archives whose bits depend only on the files: these are in the order of their names, belong to nobody, and have
// one time.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// A File of an archive.
type File struct {
	// Name is its path, with slashes.
	Name    string
	Mode    int64
	Content []byte
}

// Sorted returns the files in the order of their names. Two with one name are an error: which of them is unpacked would be left to chance.
func Sorted(files []File) ([]File, error) {
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		// Some file systems, those of macOS and Windows among them, do not tell upper from lower case.
		if i > 0 && strings.EqualFold(sorted[i-1].Name, sorted[i].Name) {
			return nil, fmt.Errorf("two files of the archive are called %s; rename one of them", sorted[i].Name)
		}
	}
	return sorted, nil
}

// TarGz returns the files as a compressed tar archive. All bear the given time.
func TarGz(files []File, modified time.Time) ([]byte, error) {
	sorted, err := Sorted(files)
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&content, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, file := range sorted {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: file.Name, Mode: file.Mode, Size: int64(len(file.Content)),
			ModTime: modified.UTC().Truncate(time.Second), Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("add %s: %w", file.Name, err)
		}
		if _, err := w.Write(file.Content); err != nil {
			return nil, fmt.Errorf("add %s: %w", file.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// Zip returns the files as a zip archive. All bear the given time.
func Zip(files []File, modified time.Time) ([]byte, error) {
	sorted, err := Sorted(files)
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	w := zip.NewWriter(&content)
	for _, file := range sorted {
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: modified.UTC().Truncate(time.Second)}
		header.SetMode(fs.FileMode(file.Mode))
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, fmt.Errorf("add %s: %w", file.Name, err)
		}
		if _, err := entry.Write(file.Content); err != nil {
			return nil, fmt.Errorf("add %s: %w", file.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}
