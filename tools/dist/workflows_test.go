package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow has what is looked at of a workflow of GitHub.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Steps       []struct {
			Uses string `json:"uses"`
			Run  string `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

func workflows(t *testing.T) (texts map[string]string, parsed map[string]workflow) {
	t.Helper()
	texts, parsed = map[string]string{}, map[string]workflow{}
	files, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows are found (%v)", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(content, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		texts[filepath.Base(file)], parsed[filepath.Base(file)] = string(content), w
	}
	return texts, parsed
}

// TestActionsArePinned: each action is named by the digest of a commit, with the version that this is, because tags can be moved.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^ *- uses: [a-z-]+/[a-z-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)
	texts, _ := workflows(t)
	for file, text := range texts {
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); strings.Contains(line, "uses:") && !pinned.MatchString(line) {
				t.Errorf("%s: %q has to name a commit by 40 digits, and its version behind #", file, line)
			}
		}
	}
}

// TestPermissionsByJob: a workflow has none, each job names its own, and a job that may write runs nothing of the repository.
func TestPermissionsByJob(t *testing.T) {
	_, parsed := workflows(t)
	for file, w := range parsed {
		if w.Permissions == nil || len(w.Permissions) > 0 {
			t.Errorf("%s: permissions of the workflow are %v; they have to be {}", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if job.Permissions == nil {
				t.Errorf("%s: job %s names no permissions", file, name)
			}
			writes := false
			for _, access := range job.Permissions {
				writes = writes || access == "write"
			}
			for _, step := range job.Steps {
				if writes && (strings.HasPrefix(step.Uses, "actions/checkout@") || strings.HasPrefix(step.Run, "make ")) {
					t.Errorf("%s: job %s may write, and runs %q", file, name, step.Uses+step.Run)
				}
			}
		}
	}
}
