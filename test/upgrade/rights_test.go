package upgrade

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// TestRightsOfPrevious: an upgrade applies the new roles while processes of the previous release still run under them. So
// these have every right that the previous release gave.
func TestRightsOfPrevious(t *testing.T) {
	needsPrevious(t, "scheduler")
	t.Parallel()
	before, now := rightsIn(t, previousManifests(t)), rightsIn(t, filepath.Join("..", "..", "manifests"))
	require.NotEmpty(t, before)
	for _, right := range before.Difference(now).UnsortedList() {
		assert.Fail(t, "a right of the previous release is gone", "%s; a process of that release has to live without it until it is replaced", right)
	}
}

// rightsIn are the single rights that the roles in a folder of manifests give, each with the name of its role.
func rightsIn(t *testing.T, folder string) sets.Set[string] {
	t.Helper()
	rights := sets.New[string]()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var role rbacv1.ClusterRole // A Role has the same fields.
			if err := yaml.Unmarshal(document, &role); err != nil || !strings.HasSuffix(role.Kind, "Role") {
				continue // Configurations of Grafana and the like.
			}
			for _, rule := range role.Rules {
				addRights(rights, role.Kind+" "+role.Namespace+"/"+role.Name, rule)
			}
		}
		return nil
	}))
	return rights
}

// addRights takes a rule apart.
func addRights(rights sets.Set[string], role string, rule rbacv1.PolicyRule) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{"any"}
	}
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			rights.Insert(fmt.Sprintf("%s: %s %s", role, verb, url))
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					rights.Insert(fmt.Sprintf("%s: %s %s of group %q, name %s", role, verb, resource, group, name))
				}
			}
		}
	}
}
