package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestWhoTakesPart: the writes of other schedulers show which of them take part in the protocol. PreBind does not wait
// for those. Fields that users can write prove nothing.
func TestWhoTakesPart(t *testing.T) {
	t.Parallel()
	theirs := func(claim, pool, device, pod string) func(*fixture) {
		return func(f *fixture) {
			f.changeClaim(claim, func(claim *resourceapi.ResourceClaim) {
				theyAllocate(pool, device)(claim)
				reservedFor(pod)(claim)
			})
		}
	}
	ours := func(edits ...func(*resourceapi.ResourceClaim)) func(*fixture) {
		return func(f *fixture) { f.otherInstanceAllocates("made", "n1", "gpu-1", edits...) }
	}
	unrecorded := func(claim *resourceapi.ResourceClaim) { claim.ManagedFields = nil }
	for name, test := range map[string]struct {
		allocate, then func(*fixture)
		want           time.Duration
	}{
		"ours": {allocate: ours(reservedFor("first"))},
		"ours, exchanged since": {
			allocate: ours(reservedFor("first")), want: time.Second,
			then: func(f *fixture) { // By which no pod has a claim from a template.
				f.create(newPod("second", of("other"), uses("named")))
				theirs("named", "elsewhere", "gpu-0", "second")(f)
			},
		},
		"ours, and a claim of which nobody knows who has allocated it": {
			allocate: ours(reservedFor("first")),
			then: func(f *fixture) {
				f.create(newPod("second", of("other"), uses("named")))
				f.otherInstanceAllocates("named", "elsewhere", "gpu-0", reservedFor("second"), unrecorded)
			},
		},
		"not ours":                     {allocate: theirs("made", "n1", "gpu-1", "first"), want: time.Second},
		"nobody knows":                 {allocate: ours(reservedFor("first"), unrecorded), want: time.Second},
		"a claim that others use, too": {allocate: ours(reservedFor("first", "user")), want: time.Second},
		"a claim that was allocated for another pod": {want: time.Second, allocate: func(f *fixture) {
			ours(reservedFor("user"))(f)
			f.changeClaim("made", func(claim *resourceapi.ResourceClaim) {
				claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{consumer("first")}
			})
		}},
		"a claim that was reserved later": {want: time.Second, allocate: func(f *fixture) {
			ours()(f)
			f.changeClaim("made", reservedFor("first"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newPod("first", of("other"), template("gpu"))
			first.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("made")}}
			made := gpus("made", 1).Obj()
			made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(first, v1.SchemeGroupVersion.WithKind("Pod"))}
			inCluster(t, plus(conflictWorld(), made, gpus("named", 1).Obj()), func(t *testing.T, f *fixture) {
				f.pl.args.SettleTime.Duration = time.Second
				f.create(first)
				f.settle()
				test.allocate(f)
				f.replace(boundTo(f.pod("first"), "n1"))
				time.Sleep(5 * time.Second)
				if test.then != nil {
					f.settle()
					f.pl.foreign.Look()
					test.then(f)
				}
				f.create(newPod("theirs", of("other"), uses("conflicting"), rejectedThere))
				f.settle()
				start := time.Now()
				require.Empty(t, f.schedule(f.pod("p")).phase)
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), oneStep(time.Second))
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestWhoTookPart: a replaced scheduler leaves pods behind, which still get updates. They prove nothing about the
// current scheduler of that name, however often and late they come.
func TestWhoTookPart(t *testing.T) {
	t.Parallel()
	old := boundTo(newPod("first", of("other"), template("gpu"), made("gpu", "made")), "n1")
	for name, test := range map[string]struct {
		first  *v1.Pod
		change func(*fixture)
		later  time.Duration
		want   float64 // how many seconds more than 1 PreBind takes
	}{
		"nothing happens": {first: old},
		"updates of its pod": {first: old, change: func(f *fixture) {
			for _, value := range []string{"b", "c", "d"} {
				labelled := f.pod("first").DeepCopy()
				labelled.Labels = map[string]string{"a": value}
				f.replace(labelled)
				f.settle()
			}
		}},
		"much later": {first: old, later: 2 * time.Minute},
		"waited, and was allocated since": {want: -1, first: newPod("first", of("other"), template("gpu"), made("gpu", "made")), change: func(f *fixture) {
			f.changeClaim("made", deallocate)
			f.otherInstanceAllocates("made", "n1", "gpu-1", reservedFor("first"))
		}},
		"bound by the next one": {first: newPod("first", of("other"), template("gpu"), made("gpu", "made")), change: func(f *fixture) {
			f.replace(boundTo(f.pod("first"), "n1"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := gpus("made", 1).Obj()
			recordManager(claim, gpus("made", 1).Allocated("n1", "gpu-1"))
			claim = with(claim, ownedBy("first"), reservedFor("first"), allocate("n1", "gpu-1"))
			inCluster(t, plus(conflictWorld(), test.first, claim), func(t *testing.T, f *fixture) {
				f.pl.args.SettleTime.Duration = time.Second
				ours, known := f.pl.state.Order.AllocatedBy(claim.UID)
				require.True(t, ours && known)
				if test.change != nil {
					test.change(f)
				}
				time.Sleep(5*time.Second + test.later)
				f.create(newPod("theirs", of("other"), uses("conflicting"), rejectedThere))
				f.settle()
				start := time.Now()
				require.Empty(t, f.schedule(f.pod("p")).phase)
				require.InDelta(t, 1+test.want, time.Since(start).Seconds(), oneStep(time.Second))
				time.Sleep(time.Minute)
			})
		})
	}
}
