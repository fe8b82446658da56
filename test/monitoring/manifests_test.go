package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// rules returns the rules as Prometheus reads them.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	var object struct {
		Kind string
		Spec yaml.Node
	}
	if err := yaml.Unmarshal(read(t, "manifests/monitoring/rules.yaml"), &object); err != nil {
		t.Fatal(err)
	}
	file, err := yaml.Marshal(&object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	if object.Kind != "PrometheusRule" || len(all) < 10 {
		t.Fatalf("%s with %d rules", object.Kind, len(all))
	}
	return all
}

// panel is what matters of a panel of the dashboard.
type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ UID string }
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct {
		RefID, Expr string
		Datasource  struct{ UID string }
	}
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct {
		UID, Title string
		Panels     []panel
	}
	if err := json.Unmarshal(read(t, "manifests/monitoring/dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID == "" || dashboard.Title == "" || len(dashboard.Panels) < 10 {
		t.Fatalf("dashboard %q with %d panels", dashboard.Title, len(dashboard.Panels))
	}
	return dashboard.Panels
}

// grafana replaces Grafana's variables as it does.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$driver", "gpu.example.com")

// All that the dashboard and the rules ask for is served, and nothing else is listed.
func TestDashboardsAndRules(t *testing.T) {
	metrics := readServed(t)
	for _, rule := range rules(t) {
		if err := metrics.check(rule.Expr); err != nil {
			t.Errorf("alert %s: %v", rule.Alert, err)
		}
	}
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			if err := metrics.check(grafana.Replace(target.Expr)); err != nil {
				t.Errorf("panel %q: %v", panel.Title, err)
			}
		}
	}
	for name, metric := range metrics {
		if !metric.used {
			t.Errorf("neither the dashboard nor a rule uses %s", name)
		}
	}
}

// A check that finds nothing proves nothing.
func TestWrongExpressions(t *testing.T) {
	for expr, want := range map[string]string{
		`sum(quartermaster_devices`:                                                       "unclosed left parenthesis",
		`quartermaster_gadgets`:                                                           "metric quartermaster_gadgets is not among",
		`quartermaster_devices{colour="red"}`:                                             "no label colour",
		`sum by (cause) (quartermaster_devices)`:                                          "no label cause",
		`max by (driver) (sum by (state) (quartermaster_devices))`:                        "no label driver",
		`quartermaster_commit_wait_seconds`:                                               "is not among",
		`histogram_quantile(0.9, sum by (stage) (quartermaster_commit_wait_seconds_sum))`: "no label le",
		`quartermaster_devices and on (cause) quartermaster_waiting_pods`:                 "no label cause",
		`sum by (driver) (quartermaster_devices) > sum(quartermaster_devices)`:            "on the left",
	} {
		if err := readServed(t).check(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

// anchor is what a heading of a document is linked by.
func anchor(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(heading))
	heading = regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, " ", "-")
}

const runbook = "https://github.com/quartermaster-dra/quartermaster/blob/main/docs/troubleshooting.md#"

// Each alert says what is wrong, how bad that is, and where it is written what to do.
func TestAlertsHaveRunbooks(t *testing.T) {
	anchors := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(read(t, "docs/troubleshooting.md")), -1) {
		anchors[anchor(heading[1])] = true
	}
	seen := make(map[string]bool)
	for _, rule := range rules(t) {
		if !strings.HasPrefix(rule.Alert, "Quartermaster") || seen[rule.Alert] {
			t.Errorf("%q is no name of an alert, or that of two", rule.Alert)
		}
		seen[rule.Alert] = true
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", rule.Alert)
		}
		switch rule.Labels["severity"] {
		case "critical", "warning", "info":
		default:
			t.Errorf("%s has severity %q", rule.Alert, rule.Labels["severity"])
		}
		if section, found := strings.CutPrefix(rule.Annotations["runbook_url"], runbook); !found || !anchors[section] {
			t.Errorf("%s: there is no %q", rule.Alert, rule.Annotations["runbook_url"])
		}
	}
}

// The panels can be read: they say what they show, ask the chosen data source, and are beside each other.
func TestDashboardIsComplete(t *testing.T) {
	ids, cells := make(map[int]bool), make(map[[2]int]string)
	for _, panel := range panels(t) {
		if ids[panel.ID] || panel.Title == "" {
			t.Errorf("panel %d %q has no id or title of its own", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		if panel.Type != "row" && (panel.Description == "" || len(panel.Targets) == 0 || panel.Datasource.UID != "${datasource}") {
			t.Errorf("panel %q has no description, expression or data source", panel.Title)
		}
		for _, target := range panel.Targets {
			if target.Datasource.UID != "${datasource}" || target.RefID == "" {
				t.Errorf("panel %q: an expression has another data source", panel.Title)
			}
		}
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q is on top of %q", panel.Title, other)
				}
				cells[[2]int{x, y}] = panel.Title
			}
		}
	}
}
