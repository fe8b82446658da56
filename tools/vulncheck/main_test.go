package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// database makes one with a vulnerability of Go itself, in a function, of all versions before one.
func database(t *testing.T, fixed string) string {
	t.Helper()
	directory := t.TempDir()
	for name, content := range map[string]string{
		"index/db.json":      `{"modified":"2026-01-01T00:00:00Z"}`,
		"index/modules.json": `[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","fixed":"` + fixed + `"}]}]`,
		"index/vulns.json":   `[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]`,
		"ID/GO-2026-0001.json": `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z","summary":"made up","details":"made up",
			"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"` + fixed + `"}]}],
			"ecosystem_specific":{"imports":[{"path":"os","symbols":["ReadFile"]}]}}],"database_specific":{"url":"https://example.com/GO-2026-0001"}}`,
	} {
		name = filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + directory
}

// TestFindings: a vulnerability that is in the program is an error, one that is mended is not.
func TestFindings(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-database", database(t, "99.0.0"), "./testdata/reader"}, &out); err == nil || !strings.Contains(out.String(), "GO-2026-0001") {
		t.Errorf("got %v, %s", err, out.String())
	}
	out.Reset()
	if err := run(t.Context(), []string{"-database", database(t, "1.1.0"), "./testdata/reader"}, &out); err != nil {
		t.Errorf("got %v, %s", err, out.String())
	}
	if err := run(t.Context(), []string{"-database", "file:///no/such/database", "./testdata/reader"}, &out); err == nil {
		t.Error("a folder that is not there is taken for a database")
	}
}

// TestReachable: without a network it is skipped, unless it is required; what is no database is an error.
func TestReachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	if err := run(t.Context(), []string{"-database", server.URL, "./testdata/reader"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
	server.Close()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-database", server.URL, "./testdata/reader"}, &out); err != nil || !strings.Contains(out.String(), "skipped: the database at "+server.URL+" cannot be reached") {
		t.Errorf("got %v, %s", err, out.String())
	}
	if err := run(t.Context(), []string{"-required", "-database", server.URL, "./testdata/reader"}, &out); err == nil || !strings.Contains(err.Error(), "GOVULNDB") {
		t.Errorf("got %v", err)
	}
}
