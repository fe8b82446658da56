package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/commit/conflicts"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// boundConflict makes two claims of bound pods hold the same device, c first.
func (f *fixture) boundConflict() {
	f.changeClaim("c", allocate("n1", "gpu-0"))
	f.changeClaim("c", reservedFor("p"))
	f.changeClaim("conflicting", allocate("n1", "gpu-0"))
	f.changeClaim("conflicting", reservedFor("q"))
}

func (f *fixture) eventTexts() []string {
	var texts []string
	for {
		select {
		case text := <-f.recorder.Events:
			texts = append(texts, text)
		default:
			return texts
		}
	}
}

func (f *fixture) evictions() []string {
	var names []string
	for _, action := range f.client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok && create.GetSubresource() == "eviction" {
			names = append(names, create.GetObject().(*policyv1.Eviction).Name)
		}
	}
	return names
}

func TestConflictsAreReported(t *testing.T) {
	tests := map[string]struct {
		policy  ConflictPolicy
		q       v1.PodStatus // of the pod of the later claim
		resolve bool         // within the time in which participating schedulers yield
		events  int
		evicted []string
	}{
		"report":           {policy: ReportConflicts, events: 4},
		"gone soon":        {policy: EvictOnConflict, resolve: true},
		"evict":            {policy: EvictOnConflict, events: 4, evicted: []string{"q"}},
		"evict, started":   {policy: EvictOnConflict, q: v1.PodStatus{Phase: v1.PodRunning}, events: 5},
		"evict, init runs": {policy: EvictOnConflict, q: v1.PodStatus{Phase: v1.PodPending, InitContainerStatuses: []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}, events: 5},
		"evict, pulls":     {policy: EvictOnConflict, q: v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}}, events: 4, evicted: []string{"q"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := plus(conflictWorld(), newPod("q", uses("conflicting"), podStatus(test.q)))
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				f.pl.args.OnConflict = test.policy
				counter := conflicts.Conflicts.WithLabelValues(builder.Driver, "n1")
				before, err := testutil.GetCounterMetricValue(counter)
				require.NoError(t, err)
				f.boundConflict()
				if test.resolve {
					f.changeClaim("conflicting", deallocate)
				}
				time.Sleep(2 * conflicts.Grace)
				f.settle()
				texts := f.eventTexts()
				require.Len(t, texts, test.events, "%q", texts)
				for _, text := range texts {
					require.Contains(t, text, "Warning DeviceConflict")
				}
				require.Equal(t, test.evicted, f.evictions())
				after, err := testutil.GetCounterMetricValue(counter)
				require.NoError(t, err)
				require.Equal(t, test.events > 0, after > before)
			})
		})
	}
}

// TestNoReportWhileSettling: a claim that will yield may settle for longer than conflicts usually last. Until then
// there are no events and no evictions.
func TestNoReportWhileSettling(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(conflictWorld(), gpus("late", 1).Obj(), gpus("before", 1).Obj()), func(t *testing.T, f *fixture) {
		f.pl.args.SettleTime.Duration = time.Second
		f.pl.args.OnConflict = EvictOnConflict
		f.changeClaim("before", theyAllocate("elsewhere", "gpu-0"))
		time.Sleep(time.Hour)
		f.beforeOurs(func() { f.changeClaim("late", announce) })
		time.AfterFunc(time.Millisecond, func() { f.changeClaim("conflicting", allocate("n1", "gpu-0")) })
		start := time.Now()
		result := f.schedule(f.pod("p"))
		require.Equal(t, "PreBind", result.phase, result.text())
		require.ErrorIs(t, result.status.AsError(), commit.ErrConflict)
		require.Greater(t, time.Since(start), conflicts.Grace)
		time.Sleep(time.Minute)
		for _, text := range f.eventTexts() {
			require.NotContains(t, text, "DeviceConflict")
		}
		require.Empty(t, f.evictions())
	})
}

// TestConflictThatComesBack: the time counts from when the conflict was last found, whichever claim was allocated
// again, and the conflict is reported once.
func TestConflictThatComesBack(t *testing.T) {
	t.Parallel()
	for anew, user := range map[string]string{"c": "p", "conflicting": "q"} {
		t.Run(anew, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(conflictWorld(), newPod("q", uses("conflicting"))), func(t *testing.T, f *fixture) {
				f.boundConflict()
				time.Sleep(conflicts.Grace * 4 / 5)
				f.changeClaim(anew, deallocate)
				f.settle()
				f.changeClaim(anew, allocate("n1", "gpu-0"))
				f.changeClaim(anew, reservedFor(user))
				time.Sleep(conflicts.Grace / 2)
				f.settle()
				require.Empty(t, f.eventTexts(), "too early")
				time.Sleep(time.Minute)
				require.Len(t, f.eventTexts(), 4)
			})
		})
	}
}
