package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

func TestCheckPodGroups(t *testing.T) {
	t.Parallel()
	podGroups := &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "podgroups"}}}
	others := &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/v1alpha3", APIResources: []metav1.APIResource{{Name: "podgroups"}}}
	stable := &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "priorityclasses"}, {Name: "podgroups"}}}
	newer := &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/v2", APIResources: []metav1.APIResource{{Name: "podgroups"}}}
	priorities := &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "priorityclasses"}}}
	foreign := &metav1.APIResourceList{GroupVersion: "scheduling.x-k8s.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "podgroups"}}}
	for name, tc := range map[string]struct {
		gates     []featuregate.Feature
		resources []*metav1.APIResourceList
		down      bool
		want      string
	}{
		"gates off":          {},
		"served":             {gates: []featuregate.Feature{features.GenericWorkload}, resources: []*metav1.APIResourceList{podGroups}},
		"not served":         {gates: []featuregate.Feature{features.GenericWorkload}, want: "--runtime-config=scheduling.k8s.io/v1beta1=true"},
		"served in v1":       {gates: []featuregate.Feature{features.GenericWorkload}, resources: []*metav1.APIResourceList{stable, foreign}},
		"served in v1alpha3": {gates: []featuregate.Feature{features.GenericWorkload}, resources: []*metav1.APIResourceList{others, foreign}},
		"served in another version": {
			gates: []featuregate.Feature{features.GenericWorkload}, resources: []*metav1.APIResourceList{newer, priorities},
			want: "does not have podgroups of scheduling.k8s.io in v1beta1 or v1 or v1alpha3, only in v2, which this scheduler does not read; turn the gate off",
		},
		"other resources in a newer version": {
			gates: []featuregate.Feature{features.GenericWorkload}, resources: []*metav1.APIResourceList{priorities, foreign},
			want: "does not have podgroups of scheduling.k8s.io in v1beta1 or v1 or v1alpha3; turn the gate off",
		},
		"no answer":                     {gates: []featuregate.Feature{features.GenericWorkload}, down: true},
		"version without that resource": {gates: []featuregate.Feature{features.CompositePodGroup}, resources: []*metav1.APIResourceList{others}, want: "compositepodgroups"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gates := featuregate.NewFeatureGate()
			for _, gate := range []featuregate.Feature{features.GenericWorkload, features.CompositePodGroup} {
				require.NoError(t, gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{gate: {}}))
			}
			for _, gate := range tc.gates {
				require.NoError(t, gates.Set(string(gate)+"=true"))
			}
			client := &fake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: tc.resources}}
			if tc.down {
				client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
			}
			err := checkPodGroups(client, gates)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, string(tc.gates[0]))
		})
	}
}
