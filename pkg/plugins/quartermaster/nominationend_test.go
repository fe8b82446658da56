package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestNominationEndsWithPreFilter: a pod for which others were evicted is rejected by PreFilter of this plugin or of
// another one. Its devices are no longer kept, and its nomination ends, unless an eviction could make its node usable.
func TestNominationEndsWithPreFilter(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// happens changes the cluster, or the pod as the attempt sees it.
		happens func(f *fixture, pod *v1.Pod)
		ends    bool
	}{
		"a class is gone": {happens: func(f *fixture, _ *v1.Pod) { f.remove(builder.Class("second")) }, ends: true},
		"a claim is gone": {happens: func(f *fixture, _ *v1.Pod) { f.remove(f.claim("two")) }, ends: true},
		"another plugin says that no node suits it": {happens: func(_ *fixture, pod *v1.Pod) { pod.Spec.Affinity = onlyOnBoth("n1", "n2") }, ends: true},
		"nothing": {happens: func(*fixture, *v1.Pod) {}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := high("p", of("default"), uses("c"), uses("two"))
			objects := plus(gpuNodes(2, "n1"), builder.Class("second"), held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), low("a", "n1", uses("a")),
				held(gpus("b", 1).Obj(), "n1", []string{"gpu-1"}, "b"), low("b", "n1", uses("b"), leaves, endsLate),
				gpus("c", 1).Obj(), builder.Claim("two", builder.Request("x", "second")).Obj(), gpus("other", 1).Obj(), pod)
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				profile := withDefaultPreemption(f)
				require.Equal(t, "n1", preemptIn(t, f, profile, pod).node)
				require.NotNil(t, f.pl.state.nominations.Of(pod.UID))
				f.remove(f.claim("a"))
				f.settle()
				other := high("q", uses("other"))
				require.False(t, f.fits(other), "the device is kept")

				now := pod.DeepCopy()
				now.Status.NominatedNodeName = "n1"
				test.happens(f, now)
				f.settle()
				result, rejected := attemptPostFilter(t, f, profile, now)
				require.Equal(t, test.ends, rejected, "whether PreFilter turns it away")
				require.Equal(t, test.ends, f.pl.state.nominations.Of(pod.UID) == nil)
				require.Equal(t, test.ends, result != nil && result.Mode() == fwk.ModeOverride && result.NominatedNodeName == "", "%v", result)
				require.Equal(t, test.ends, f.fits(other))
			})
		})
	}
}

// TestNominationThatOnlyTheSchedulerKnows: nothing is kept for a gang that no eviction helps, also if the API server has not got the
// nomination or has lost it.
func TestNominationThatOnlyTheSchedulerKnows(t *testing.T) {
	t.Parallel()
	pod := high("p", uses("c"))
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), pod), func(t *testing.T, f *fixture) {
		for _, verdict := range []coordinator.Verdict{{Said: "waiting"}, {Said: "no", Hopeless: true}} {
			f.pl.state.nominations.Set(&preemption.Nomination{Pod: pod.UID, Node: "n1"})
			require.Nil(t, f.pl.unlessKept(pod, verdict))
			require.Equal(t, verdict.Hopeless, f.pl.state.nominations.Of(pod.UID) == nil)
		}
	})
}

// attemptPostFilter tries a pod up to PostFilter, as the scheduler does, and returns whether PreFilter rejected it.
func attemptPostFilter(t *testing.T, f *fixture, profile framework.Framework, pod *v1.Pod) (*fwk.PostFilterResult, bool) {
	t.Helper()
	state, statuses := framework.NewCycleState(), framework.NewDefaultNodeToStatus()
	_, rejected, _ := profile.RunPreFilterPlugins(f.ctx, state, pod)
	if rejected.IsRejected() {
		statuses.SetAbsentNodesStatus(rejected)
	} else {
		infos, err := profile.SnapshotSharedLister().NodeInfos().List()
		require.NoError(t, err)
		for _, info := range infos {
			statuses.Set(info.Node().Name, profile.RunFilterPluginsWithNominatedPods(f.ctx, state, pod, info))
		}
	}
	result, status := profile.RunPostFilterPlugins(f.ctx, state, pod, statuses)
	require.True(t, status.IsRejected(), "%v", status)
	return result, rejected.IsRejected()
}

// onlyOnBoth requires a node to have several names at once, so that none matches.
func onlyOnBoth(names ...string) *v1.Affinity {
	var term v1.NodeSelectorTerm
	for _, name := range names {
		term.MatchFields = append(term.MatchFields, v1.NodeSelectorRequirement{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}})
	}
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}}
}

// endsLate sets the deletion of a pod to the distant future.
func endsLate(pod *v1.Pod) {
	pod.DeletionTimestamp = new(metav1.NewTime(time.Now().AddDate(1000, 0, 0)))
}

// TestAwaitsWhatIsInTheWay: of the claims of victims, those with devices in the pools of the plan are released for the nominated pod.
// A victim may be one that others delete, far away: a claim of its PodGroup stays the group's.
func TestAwaitsWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	objects := append(gpuNodes(1, "n1", "n2"), holder("a", "n1", "gpu-0")...)
	objects = append(objects, holder("b", "n2", "gpu-0")...)
	high := newPod("high", uses("high"))
	inCluster(t, append(objects, high, gpus("high", 1).Obj()), func(t *testing.T, f *fixture) {
		plan := []ledger.Use{{Claim: ledger.RefTo(f.claim("high")), Allocation: f.claim("a").Status.Allocation}}
		require.True(t, f.pl.nominated.Keep(f.ctx, high, "n1", plan, nil, []*v1.Pod{f.pod("a"), f.pod("b")}))
		require.Equal(t, []ledger.ClaimRef{ledger.RefTo(f.claim("a"))}, f.pl.state.nominations.Of(high.UID).Awaited)
	})
}
