package architecture

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// linkTarget is what a link leads to: "[text](target)", or "[name]: target".
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)|(?m)^\[[^\]]+\]: (\S+)`)
	// fenced is a block of code, in which nothing is a link or a heading.
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// notInAnchors is what an anchor leaves out of its heading.
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
	// documentPath is how code and scripts refer to a document.
	documentPath = regexp.MustCompile(`\bdocs/[A-Za-z0-9_/-]+\.(?:md|svg)\b`)
)

// Links within the repository must lead to files and headings that are there.
func TestLinksOfDocuments(t *testing.T) {
	t.Parallel()
	documents := documents(t)
	links := 0
	for path, text := range documents {
		for _, match := range linkTarget.FindAllStringSubmatch(text, -1) {
			target := match[1] + match[2]
			if strings.Contains(target, "://") {
				continue
			}
			links++
			assert.Empty(t, brokenLink(documents, path, target), "%s links to %s", path, target)
		}
	}
	require.Greater(t, links, 30)
}

// brokenLink says what is wrong with a link in a document, "" if it is right.
func brokenLink(documents map[string]string, path, target string) string {
	file, anchor, _ := strings.Cut(target, "#")
	linked := path
	if file != "" {
		linked = filepath.Join(filepath.Dir(path), file)
	}
	if _, err := os.Stat(filepath.Join(root, linked)); err != nil {
		return "there is no file " + linked
	}
	if anchor != "" && !slices.Contains(anchors(documents[linked]), anchor) {
		return "no heading of " + linked + " has the anchor " + anchor
	}
	return ""
}

// A check that finds nothing proves nothing.
func TestBrokenLinks(t *testing.T) {
	t.Parallel()
	documents := map[string]string{"docs/design/architecture.md": "# Here\n\n## What's `new` here, and why\n\n## Here\n"}
	for target, broken := range map[string]bool{
		"#here": false, "#here-1": false, "#whats-new-here-and-why": false, "../../README.md": false, "tests.md": false,
		"#there": true, "#here-2": true, "README.md": true, "tests.md#here": true,
	} {
		assert.Equal(t, broken, brokenLink(documents, "docs/design/architecture.md", target) != "", target)
	}
}

// anchors are those that web sites give to the headings of a document: in lower case, with
// hyphens for spaces and without punctuation, numbered if there are several.
func anchors(text string) []string {
	var result []string
	seen := make(map[string]int)
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		anchor := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(match[1])), ""), " ", "-")
		if n := seen[anchor]; n > 0 {
			result = append(result, anchor+"-"+string(rune('0'+n)))
		} else {
			result = append(result, anchor)
		}
		seen[anchor]++
	}
	return result
}

// documents returns the texts of all Markdown files by their paths, without blocks of code.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for path, text := range filesOf(t, root, func(name string) bool { return filepath.Ext(name) == ".md" }) {
		texts[path] = fenced.ReplaceAllString(text, "")
	}
	require.Greater(t, len(texts), 10)
	return texts
}

// Pictures can be read by machines as well: they have a title, and their text is text.
func TestPictures(t *testing.T) {
	t.Parallel()
	pictures := filesOf(t, filepath.Join(root, "docs"), func(name string) bool { return filepath.Ext(name) == ".svg" })
	require.NotEmpty(t, pictures)
	for path, picture := range pictures {
		elements := make(map[string]int)
		for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, path)
			if start, ok := token.(xml.StartElement); ok {
				elements[start.Name.Local]++
			}
		}
		assert.Positive(t, elements["title"], path)
		assert.Positive(t, elements["text"], path)
		assert.Zero(t, elements["image"], path)
	}
}

// Comments, scripts and manifests must not go on naming documents that were moved.
func TestFilesNameDocumentsThatExist(t *testing.T) {
	t.Parallel()
	named := 0
	files := filesOf(t, root, func(name string) bool {
		return slices.Contains([]string{".go", ".yaml", ".txt", ".md", ""}, filepath.Ext(name))
	})
	for path, text := range files {
		for _, document := range documentPath.FindAllString(text, -1) {
			named++
			assert.FileExists(t, filepath.Join(root, document), "%s names it", path)
		}
	}
	require.Greater(t, named, 10)
}

// filesOf returns the texts of files below a folder whose names are wanted, by their paths
// from the root of the repository on.
func filesOf(t *testing.T, folder string, wanted func(name string) bool) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !wanted(entry.Name()):
			return nil // What a link leads to is looked at where it is.
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		texts[filepath.ToSlash(path)] = string(text)
		return err
	})
	require.NoError(t, err)
	return texts
}
