package quartermaster

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// TestAllocationsAreTold: who looks at a claim's events sees what it was allocated, what became of that, and why.
func TestAllocationsAreTold(t *testing.T) {
	t.Parallel()
	allocated := "Normal DevicesAllocated Allocated gpu.example.com/n1/gpu-0 on node n1 for pod p"
	refused := apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "c", errors.New("no"))
	for name, test := range map[string]struct {
		// during happens while the pod is being scheduled, and after with it being so.
		during func(f *fixture)
		after  func(f *fixture, a *attempt)
		want   []string
	}{
		"bound": {want: []string{allocated}},
		"bound after an error": {during: func(f *fixture) {
			f.fail(fault{on: "update/status", claim: "c", before: func() {
				f.changeClaim("c", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"changed": "yes"} })
			}})
		}, want: []string{allocated}},
		"the answer gets lost": {during: func(f *fixture) {
			f.fail(fault{on: "update/status", claim: "c", applied: true, err: io.ErrUnexpectedEOF})
		}, want: []string{allocated}},
		"refused":              {during: func(f *fixture) { f.fail(fault{on: "update/status", claim: "c", err: refused}) }},
		"a conflict":           {during: func(f *fixture) { f.beforeOurs(func() { f.otherInstanceAllocates("conflicting", "n1", "gpu-0") }) }, want: []string{allocated, "because of a conflict: claim default/conflicting was allocated device gpu-0 of pool gpu.example.com/n1 first"}},
		"not bound":            {after: func(_ *fixture, a *attempt) { a.unreserve("n1") }, want: []string{allocated, "Normal DevicesReleased Released gpu.example.com/n1/gpu-0 on node n1 because pod p was not bound"}},
		"planned and given up": {during: func(f *fixture) { f.mustBegin(f.pod("p")).filter().unreserve("n1") }, want: []string{allocated}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
				if test.during != nil {
					test.during(f)
				}
				a := f.mustBegin(f.pod("p")).filter()
				require.NoError(t, a.reserve("n1").AsError())
				require.Empty(t, f.events(), "a plan is not an allocation")
				_ = a.preBind("n1")
				if test.after != nil {
					test.after(f, a)
				}
				time.Sleep(time.Minute)
				events := f.events()
				require.Len(t, events, len(test.want), "%q", events)
				for i, want := range test.want {
					require.Contains(t, events[i], want)
				}
			})
		})
	}
}

// TestDeallocationsAreTold: a claim that is in the way of a pod.
func TestDeallocationsAreTold(t *testing.T) {
	t.Parallel()
	elsewhere := with(gpus("c", 1).Allocated("gone", "gpu-0"), onNode("gone"))
	inCluster(t, plus(gpuNodes(1, "n1"), elsewhere), func(t *testing.T, f *fixture) {
		require.Equal(t, "Filter", f.schedule(newPod("p", uses("c"))).phase)
		require.Equal(t, []string{"Normal DevicesReleased Released gpu.example.com/gone/gpu-0 because pod p fits no node where that can be used and nobody else uses it"}, f.events())
	})
}

// TestProfileWithoutClaimEvents: they can be turned off, for one profile.
func TestProfileWithoutClaimEvents(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(2, "n1"), gpus("c", 1).Obj(), gpus("d", 1).Obj()), func(t *testing.T, f *fixture) {
		silent := newProfile(f, "silent", &QuartermasterArgs{ClaimEventsPerSecond: ptr.To[int32](0)})
		f.settle()
		f.asProfile(silent, func() { require.Empty(t, f.schedule(newPod("p", uses("c"))).phase) })
		require.NotEmpty(t, deviceNames(f.claim("c")))
		require.Empty(t, f.events())
		require.Empty(t, f.schedule(newPod("q", uses("d"))).phase)
		require.Len(t, f.events(), 1)
	})
}
