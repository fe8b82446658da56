package catalogue

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/examples"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// exampleTexts returns the texts of all files of examples by their names without the ending.
func exampleTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	names, err := fs.Glob(examples.Files, "*.yaml")
	require.NoError(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(examples.Files, name)
		require.NoError(t, err)
		texts[strings.TrimSuffix(name, ".yaml")] = string(text)
	}
	require.GreaterOrEqual(t, len(texts), 20)
	return texts
}

func TestEveryExampleIsInTheDemo(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, e := range exampleRuns() {
		require.False(t, shown[e.file], "%s is there twice", e.file)
		shown[e.file] = true
		_, err := e.scenario()
		require.NoError(t, err, e.file)
	}
	for file := range exampleTexts(t) {
		require.True(t, shown[file], "examples/%s.yaml is not in the demo: add it to exampleRuns", file)
	}
}

// exampleRow is a row of the tables in examples/README.md.
var exampleRow = regexp.MustCompile(`(?m)^\| \[([a-z0-9-]+)\.yaml\]\(([a-z0-9-]+)\.yaml\) \| (.*) \|$`)

func TestExamplesAreListed(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../examples/README.md")
	require.NoError(t, err)
	listed := map[string]string{}
	for _, row := range exampleRow.FindAllStringSubmatch(string(readme), -1) {
		require.Equal(t, row[1], row[2], "text and target of a link")
		require.Empty(t, listed[row[1]], "%s is listed twice", row[1])
		listed[row[1]] = row[3]
	}
	texts := exampleTexts(t)
	for file, text := range texts {
		comment := exampleComment.FindStringSubmatch(text)
		require.NotNil(t, comment, file)
		require.Equal(t, comment[1], listed[file], "examples/README.md says of %s.yaml what its first line says", file)
	}
	for file := range listed {
		require.Contains(t, texts, file, "examples/README.md lists a file that does not exist")
	}
}

// A quote in the second line is what the demo looks for in the reason of the pod that waits.
func TestExamplesQuoteReasons(t *testing.T) {
	t.Parallel()
	texts, waiting := exampleTexts(t), 0
	for _, e := range exampleRuns() {
		waits := slices.ContainsFunc(append(e.expect, e.then...), func(x scenario.Expectation) bool { return x.Waiting })
		quotes := quotesIn(exampleComment.FindStringSubmatch(texts[e.file])[2])
		require.Equal(t, waits, len(quotes) > 0, "%s quotes %q", e.file, quotes)
		s, err := e.scenario()
		require.NoError(t, err)
		if waits {
			waiting++
			require.True(t, strings.HasSuffix(s.Steps[len(s.Steps)-1].Does, ")"), "%s ends with an expectation of pods that wait", e.file)
		}
	}
	require.Positive(t, waiting)
	quoting := withQuotes([]scenario.Expectation{scenario.Waits("a", 1, scenario.Reason{}), scenario.Scheduled("b", 1)}, []string{"x"})
	require.Equal(t, []string{"x"}, quoting[0].Reason.Quotes)
	require.Empty(t, quoting[1].Reason.Quotes)
}

// All files can be applied to one namespace, and each is complete.
func TestExamplesCanBeApplied(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for file, text := range exampleTexts(t) {
		objects, err := scenario.Decode([]byte(text))
		require.NoError(t, err, file)
		pods := 0
		for _, object := range objects {
			require.Empty(t, owner[title(object)], "%s of %s", title(object), file)
			owner[title(object)] = file
			template := podTemplateOf(object)
			if template == nil {
				continue
			}
			pods++
			require.Equal(t, builder.SchedulerName, template.Spec.SchedulerName, file)
			require.NotEmpty(t, template.Labels[builder.AppLabel], "%s: the demo finds pods by this label", file)
			require.NotContains(t, template.Spec.NodeSelector, fleet.NodePoolLabel, file)
			for _, container := range template.Spec.Containers {
				require.Regexp(t, `^[a-z0-9./]+:[0-9.]+$`, container.Image, file)
			}
		}
		require.Positive(t, pods, "%s has no pod", file)
	}
}

// The demo changes nothing of a file but the nodes of its pods.
func TestExamplesStayOnTheirNodes(t *testing.T) {
	t.Parallel()
	for _, e := range exampleRuns() {
		objects, err := scenario.Decode([]byte(exampleTexts(t)[e.file]))
		require.NoError(t, err)
		var s scenario.Scenario
		first, later := e.place(&s, objects)
		require.Len(t, later, len(e.later), e.file)
		for _, object := range append(first, later...) {
			if template := podTemplateOf(object); template != nil {
				require.Equal(t, map[string]string{fleet.NodePoolLabel: e.name()}, template.Spec.NodeSelector, e.file)
			}
		}
	}
}

// podTemplateOf returns labels and spec of the pods of an object, nil for one without pods.
func podTemplateOf(object any) *corev1.PodTemplateSpec {
	switch object := object.(type) {
	case *corev1.Pod:
		return &corev1.PodTemplateSpec{ObjectMeta: object.ObjectMeta, Spec: object.Spec}
	case *appsv1.Deployment:
		return &object.Spec.Template
	case *batchv1.Job:
		return &object.Spec.Template
	}
	return nil
}

func TestExampleWithoutComment(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"kind: Pod\n",
		"# Does something.\n# Needs: a driver.\n# Expect: the pod runs.\n",
		"# Does something.\n# Expect: the pod runs\n# Needs: a driver.\n",
	} {
		require.Nil(t, exampleComment.FindStringSubmatch(text), text)
	}
	require.NotNil(t, exampleComment.FindStringSubmatch("# Does something.\n# Expect: the pod runs.\n# Needs: a driver.\n"))
	_, err := example{file: "nothing"}.scenario()
	require.ErrorContains(t, err, "nothing.yaml", fmt.Sprint(err))
}
