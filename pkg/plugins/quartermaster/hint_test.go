package quartermaster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestEvents: with a feature, the queue hears of more.
func TestEvents(t *testing.T) {
	t.Parallel()
	actions := func(features feature.Features) map[fwk.EventResource]fwk.ActionType {
		result := make(map[fwk.EventResource]fwk.ActionType)
		for _, event := range (&quartermaster.Hints{}).Events(features) {
			require.NotNil(t, event.QueueingHintFn)
			result[event.Event.Resource] |= event.Event.ActionType
		}
		return result
	}
	node := fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable
	want := map[fwk.EventResource]fwk.ActionType{
		fwk.TargetPod: fwk.UpdatePodGeneratedResourceClaim, fwk.DeviceClass: fwk.Add | fwk.Update, fwk.Node: node,
	}
	require.Equal(t, want, actions(feature.Features{}))
	want[fwk.Node], want[fwk.AssignedPod] = node|fwk.UpdateNodeDeclaredFeature, fwk.Delete
	require.Equal(t, want, actions(feature.Features{EnableDRAOptionalNodeOperations: true, EnableAsyncPreemption: true}))
	want[fwk.Node], want[fwk.AssignedPod] = node, fwk.Add|fwk.Delete|fwk.UpdatePodScaleDown
	require.Equal(t, want, actions(feature.Features{EnableDRANodeAllocatableResources: true}))
}

// TestHintsWithoutPods: what can be said without anything in memory.
func TestHintsWithoutPods(t *testing.T) {
	t.Parallel()
	hints := &quartermaster.Hints{
		Needs:   &eligibility.Finder{Claims: &claims.Claims{}},
		Waiting: &queue.Events{Pods: queue.NewPods(cache.NewStore(cache.MetaNamespaceKeyFunc))},
	}
	node, labelled := builder.Node("n1"), builder.Node("n1")
	labelled.Annotations = map[string]string{"changed": "yes"}
	tests := map[string]struct {
		resource       fwk.EventResource
		oldObj, newObj any
		want           fwk.QueueingHint
	}{
		"pod without claims":     {resource: fwk.TargetPod, newObj: &v1.Pod{}, want: fwk.Queue},
		"no pod":                 {resource: fwk.TargetPod, newObj: "what is this", want: fwk.Queue},
		"no node":                {resource: fwk.Node, newObj: "what is this", want: fwk.Queue},
		"no class":               {resource: fwk.DeviceClass, newObj: "what is this", want: fwk.Queue},
		"another annotation":     {resource: fwk.Node, oldObj: node, newObj: labelled},
		"class without a change": {resource: fwk.DeviceClass, oldObj: builder.Class("gpu", "true"), newObj: builder.Class("gpu", "true")},
		"a victim that is gone":  {resource: fwk.AssignedPod, oldObj: &v1.Pod{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			for _, event := range hints.Events(feature.Features{EnableAsyncPreemption: true}) {
				if event.Event.Resource != test.resource {
					continue
				}
				asked++
				got, err := event.QueueingHintFn(klog.Background(), &v1.Pod{}, test.oldObj, test.newObj)
				require.NoError(t, err)
				require.Equal(t, test.want, got)
			}
			require.Equal(t, 1, asked)
		})
	}
}
