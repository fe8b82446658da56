package catalogue

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"
)

// clusterObjects returns all cluster-scoped objects that exist from the start.
func clusterObjects() []string {
	var titles []string
	for _, object := range Classes() {
		titles = append(titles, title(object))
	}
	for _, s := range Scenarios() {
		for _, object := range s.Cluster {
			titles = append(titles, title(object))
		}
	}
	return titles
}

func title(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%T %s", object, accessor.GetName())
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range Scenarios() {
		require.Empty(t, validation.IsDNS1123Label(s.Name), "the name of a scenario is that of a namespace")
		require.False(t, seen[s.Name], "two scenarios are called %s", s.Name)
		seen[s.Name] = true
	}
	for _, object := range clusterObjects() {
		require.False(t, seen[object], "%s exists twice", object)
		seen[object] = true
	}
}

func TestEveryScenarioSaysWhatItShows(t *testing.T) {
	t.Parallel()
	for _, s := range Scenarios() {
		require.Regexp(t, `^[A-Z].*\.$`, s.Shows, "%s: one sentence", s.Name)
		require.NotEmpty(t, s.Steps, s.Name)
		last := s.Steps[len(s.Steps)-1]
		require.True(t, strings.HasPrefix(last.Does, "see "), "%s ends with %q, want an expectation", s.Name, last.Does)
	}
}

// Pods that may run anywhere take any device that they reach. Devices of a
// driver that more nodes reach must therefore belong to one scenario, or be
// within reach of its own nodes only.
func TestSharedDevicesBelongToOneScenario(t *testing.T) {
	t.Parallel()
	owners := map[string]string{}
	for _, s := range Scenarios() {
		for _, object := range s.Cluster {
			slice, isSlice := object.(*resourceapi.ResourceSlice)
			if !isSlice || !reachesAllNodes(slice) {
				continue
			}
			owner, found := owners[slice.Spec.Driver]
			require.True(t, !found || owner == s.Name, "devices of %s are on all nodes in %s and %s", slice.Spec.Driver, owner, s.Name)
			owners[slice.Spec.Driver] = s.Name
		}
	}
	require.NotEmpty(t, owners)
	for _, s := range Scenarios() {
		for _, object := range s.Cluster {
			if slice, isSlice := object.(*resourceapi.ResourceSlice); isSlice {
				owner, shared := owners[slice.Spec.Driver]
				require.True(t, !shared || owner == s.Name, "%s brings devices of %s, which %s has on all nodes", s.Name, slice.Spec.Driver, owner)
			}
		}
	}
}

func reachesAllNodes(slice *resourceapi.ResourceSlice) bool {
	if slice.Spec.AllNodes != nil && *slice.Spec.AllNodes {
		return true
	}
	for _, device := range slice.Spec.Devices {
		if device.AllNodes != nil && *device.AllNodes {
			return true
		}
	}
	return false
}

// A request for all devices fails on a node with an incomplete or invalid pool,
// whatever else is there. Such pools stay on nodes of their own.
func TestSlicesAreOnNodesOfTheirScenario(t *testing.T) {
	t.Parallel()
	for _, s := range Scenarios() {
		nodes := map[string]bool{}
		for _, object := range s.Cluster {
			if node, isNode := object.(*corev1.Node); isNode {
				nodes[node.Name] = true
			}
		}
		for _, object := range s.Cluster {
			if slice, isSlice := object.(*resourceapi.ResourceSlice); isSlice && slice.Spec.NodeName != nil {
				require.True(t, nodes[*slice.Spec.NodeName], "%s: slice %s is on node %s of another scenario", s.Name, slice.Name, *slice.Spec.NodeName)
			}
		}
	}
}

// causePattern finds the causes in the titles of steps.
var causePattern = regexp.MustCompile(`waiting \(([^)]*)\)`)

func TestEveryCauseHasWordsAndIsShown(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, s := range Scenarios() {
		for _, step := range s.Steps {
			for _, match := range causePattern.FindAllStringSubmatch(step.Does, -1) {
				shown[match[1]] = true
			}
		}
	}
	words := map[string]bool{}
	for cause, parts := range Quartermaster().Texts {
		words[string(cause)] = true
		require.NotEmpty(t, parts, cause)
	}
	require.Equal(t, words, shown, "causes with words, and causes that a scenario shows")
}

// A part of a reason that is part of a name as well would be found in every
// reason that mentions the name.
func TestWordsAreNoPartOfNames(t *testing.T) {
	t.Parallel()
	for cause, parts := range Quartermaster().Texts {
		hidden := true
		for _, part := range parts {
			hidden = hidden && isPartOfAName(part)
		}
		require.False(t, hidden, "%q: all of %q are found in names", cause, parts)
	}
}

func isPartOfAName(text string) bool {
	for _, s := range Scenarios() {
		if strings.Contains(s.Name, text) {
			return true
		}
	}
	return false
}

func TestDialectNamed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"quartermaster", "stock"} {
		dialect, err := DialectNamed(name)
		require.NoError(t, err)
		require.Equal(t, name, dialect.Name)
	}
	_, err := DialectNamed("klingon")
	require.ErrorContains(t, err, `"klingon"; use quartermaster or stock`)
}
