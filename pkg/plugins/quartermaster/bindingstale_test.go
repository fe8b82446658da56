package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bindingcondition"
)

// TestBindingWithStaleInformer: the informer does not know yet what the server has
// answered. That is no reason to give up; what it knows later counts.
func TestBindingWithStaleInformer(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *fixture, before, after *resourceapi.ResourceClaim){
		"no such claim": func(f *fixture, _, after *resourceapi.ResourceClaim) { f.leave(after) },
		"older state": func(f *fixture, before, after *resourceapi.ResourceClaim) {
			f.leave(after)
			f.arrive(before)
		},
	}
	for name, forget := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, fabricWorld("p"), func(t *testing.T, f *fixture) {
				before := f.claim("c")
				p := f.scheduleMeanwhile(f.pod("p"))
				after := f.claim("c")
				forget(f, before, after)
				f.pl.devices.Changed.Tell(after.UID)
				p.stillWaits("the server has said that the claim is allocated")
				time.Sleep(5 * bindingcondition.UnlistedInterval)
				p.stillWaits("nor was it deleted meanwhile")
				f.arrive(after)
				f.changeClaim("c", report(attached))
				time.Sleep(2 * bindingcondition.UnlistedInterval)
				require.Empty(t, p.result().phase)
			})
		})
	}
}
