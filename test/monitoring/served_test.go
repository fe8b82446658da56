package monitoring

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// metric is a metric that the scheduler serves.
type metric struct {
	kind   string
	labels []string
	used   bool
}

// served are the metrics of testdata/served.txt by name.
type served map[string]*metric

func readServed(t *testing.T) served {
	t.Helper()
	text, err := os.ReadFile("testdata/served.txt")
	if err != nil {
		t.Fatal(err)
	}
	metrics := make(served)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] != "#" {
			metrics[fields[0]] = &metric{kind: fields[1], labels: fields[2:]}
		}
	}
	if len(metrics) < 10 {
		t.Fatalf("%d metrics", len(metrics))
	}
	return metrics
}

// series returns the metric that series of a name belong to, with the labels that these have; nil if there is none.
func (s served) series(name string) (m *metric, labels []string) {
	if m := s[name]; m != nil && m.kind != "histogram" {
		return m, m.labels
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, found := strings.CutSuffix(name, suffix)
		if m := s[base]; found && m != nil && m.kind == "histogram" {
			if labels = m.labels; suffix == "_bucket" {
				labels = append(slices.Clone(labels), "le")
			}
			return m, labels
		}
	}
	return nil, nil
}

// A check that finds everything proves nothing.
func TestSeries(t *testing.T) {
	all := served{"h": {kind: "histogram", labels: []string{"a"}}, "c": {kind: "counter"}}
	for name, want := range map[string]string{"h": "-", "h_bucket": "a le", "h_sum": "a", "h_count": "a", "c": "", "c_sum": "-", "d": "-"} {
		got := "-"
		if m, labels := all.series(name); m != nil {
			got = strings.Join(labels, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
