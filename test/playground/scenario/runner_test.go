package scenario

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// world is a Source that tests change while a runner looks at it.
type world struct {
	mu        sync.Mutex
	snapshots map[string]*Snapshot
	asked     int
	// onAsk, if set, is called before each answer with the number of requests so far.
	onAsk func(w *world, asked int)
}

func (w *world) Snapshot(_ context.Context, namespace string) (*Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.onAsk != nil {
		w.onAsk(w, w.asked)
	}
	if snapshot := w.snapshots[namespace]; snapshot != nil {
		return snapshot, nil
	}
	return &Snapshot{Namespace: namespace}, nil
}

func (w *world) set(namespace string, snapshot *Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshots[namespace] = snapshot
}

// newRunner returns a runner for worlds.
func newRunner(cached, live *world) *Runner {
	return &Runner{
		Objects:  NewObjects(dynamicfake.NewSimpleDynamicClient(scheme.Scheme)),
		Cached:   cached,
		Live:     live,
		Dialect:  testDialect,
		Patience: 30 * time.Second,
		Ended:    func(Result) {},
	}
}

func worldOf(snapshots map[string]*Snapshot) *world { return &world{snapshots: snapshots} }

// soon makes steps that wait in vain give up soon.
func soon(r *Runner) *Runner {
	r.Patience = 10 * time.Millisecond
	return r
}

func expecting(name string, expectations ...Expectation) Scenario {
	return Scenario{Name: name, Steps: []Step{Expect(expectations...)}}
}

func TestRunConfirmsWithTheServer(t *testing.T) {
	t.Parallel()
	placed := snapshotOf(boundPod("app", "a"))
	cached := worldOf(map[string]*Snapshot{"s": placed})
	live := worldOf(map[string]*Snapshot{"s": snapshotOf(waitingPod("app", "a", "not yet"))})
	// The server catches up after it has been asked a few times.
	live.onAsk = func(w *world, asked int) {
		if asked == 3 {
			w.snapshots["s"] = placed
		}
	}
	runner := newRunner(cached, live)
	results := runner.Run(t.Context(), []Scenario{expecting("s", Scheduled("app", 1))})
	require.NoError(t, results[0].Err)
	require.Equal(t, 3, live.asked, "the cache alone is not believed")

	tally := runner.Confirm(t.Context(), results)
	require.Empty(t, tally.Problems)
	require.Equal(t, "demo: 1 pods scheduled, 0 not schedulable as expected, 0 failed", tally.Summary())
}

func TestRunStopsAtTheFirstFailedStep(t *testing.T) {
	t.Parallel()
	reached := false
	s := Scenario{Name: "s", Steps: []Step{
		{Does: "work", Run: func(context.Context, *Env) error { return nil }},
		{Does: "break", Run: func(context.Context, *Env) error { return errors.New("broken") }},
		{Does: "go on", Run: func(context.Context, *Env) error { reached = true; return nil }},
	}}
	var ended []string
	runner := newRunner(worldOf(nil), worldOf(nil))
	runner.Ended = func(r Result) { ended = append(ended, r.Scenario.Name) }
	results := runner.Run(t.Context(), []Scenario{s, {Name: "other"}})
	require.EqualError(t, results[0].Err, "step 2 of 3 failed to break: broken")
	require.False(t, reached)
	require.NoError(t, results[1].Err, "one scenario does not stop another")
	require.ElementsMatch(t, []string{"s", "other"}, ended)

	tally := runner.Confirm(t.Context(), results)
	require.Equal(t, []string{"s: step 2 of 3 failed to break: broken"}, tally.Problems)
	require.Equal(t, "demo: 0 pods scheduled, 0 not schedulable as expected, 1 failed", tally.Summary())
}

func TestExpectGivesUp(t *testing.T) {
	t.Parallel()
	waiting := worldOf(map[string]*Snapshot{"s": snapshotOf(waitingPod("app", "a", "no room"))})
	results := soon(newRunner(waiting, waiting)).Run(t.Context(), []Scenario{expecting("s", Scheduled("app", 1))})
	require.ErrorContains(t, results[0].Err, "failed to see 1 × app scheduled")
	require.ErrorContains(t, results[0].Err, "not seen within 10ms: pod a is not bound; Unschedulable: no room")
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	held := Reason{Cause: "held"}
	begin := snapshotOf(boundPod("placed", "a"), waitingPod("waits", "b", "held by others"), waitingPod("waits", "c", "held by others"))
	expected := []Expectation{Scheduled("placed", 1), Waits("waits", 2, held)}
	for name, tc := range map[string]struct {
		end      *Snapshot
		more     []Step
		problems []string
		summary  string
	}{
		"nothing changed": {
			end:     begin,
			summary: "demo: 1 pods scheduled, 2 not schedulable as expected, 0 failed",
		},
		"a pod was bound later": {
			end: snapshotOf(boundPod("placed", "a"), boundPod("waits", "b"), waitingPod("waits", "c", "held by others")),
			problems: []string{
				"s: no longer at the end: pod b is bound to n, want it to wait (held)",
			},
			summary: "demo: 1 pods scheduled, 0 not schedulable as expected, 1 failed",
		},
		"a pod is not spoken of": {
			end:      snapshotOf(append(asObjects(begin.Pods), boundPod("stray", "z"))...),
			problems: []string{"s: nothing is expected of the pods z"},
			summary:  "demo: 1 pods scheduled, 2 not schedulable as expected, 1 failed",
		},
		"an app was meant to go": {
			end:     snapshotOf(asObjects(begin.Pods[1:])...),
			more:    []Step{Deleted("placed")},
			summary: "demo: 1 pods scheduled, 2 not schedulable as expected, 0 failed",
		},
		"an app was not meant to go": {
			end:      snapshotOf(asObjects(begin.Pods[1:])...),
			problems: []string{"s: no longer at the end: app placed has 0 pods, want 1"},
			summary:  "demo: 0 pods scheduled, 2 not schedulable as expected, 1 failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldOf(map[string]*Snapshot{"s": begin})
			runner := newRunner(w, w)
			s := expecting("s", expected...)
			s.Steps = append(s.Steps, tc.more...)
			results := runner.Run(t.Context(), []Scenario{s})
			require.NoError(t, results[0].Err)
			w.set("s", tc.end)
			tally := runner.Confirm(t.Context(), results)
			require.Equal(t, tc.problems, tally.Problems)
			require.Equal(t, tc.summary, tally.Summary())
		})
	}
}

// A later expectation about an app takes the place of an earlier one.
func TestLastExpectationCounts(t *testing.T) {
	t.Parallel()
	waiting := snapshotOf(waitingPod("app", "a", "held by others"))
	w := worldOf(map[string]*Snapshot{"s": waiting})
	s := Scenario{Name: "s", Steps: []Step{
		Expect(Waits("app", 1, Reason{Cause: "held"})),
		{Does: "free a device", Run: func(context.Context, *Env) error {
			w.set("s", snapshotOf(boundPod("app", "a")))
			return nil
		}},
		Expect(Scheduled("app", 1)),
	}}
	runner := newRunner(w, w)
	tally := runner.Confirm(t.Context(), runner.Run(t.Context(), []Scenario{s}))
	require.Empty(t, tally.Problems)
	require.Equal(t, Tally{Scheduled: 1}, tally)
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	runner := newRunner(worldOf(nil), worldOf(nil))
	scenarios := []Scenario{
		{Name: "first", Cluster: Nodes("first", 2)},
		{Name: "second", NamespaceLabels: map[string]string{"k": "v"}, Cluster: []runtime.Object{fleet.LocalSlice("d", "n").Obj()}},
	}
	var waitedFor []string
	accounts := func(_ context.Context, namespaces []string) error {
		waitedFor = namespaces
		return nil
	}
	require.NoError(t, runner.Prepare(t.Context(), scenarios, accounts))
	require.Equal(t, []string{"first", "second"}, waitedFor)
	for _, object := range []runtime.Object{fleet.Node("first-0", "", nil), fleet.Node("first-1", "", nil), fleet.LocalSlice("d", "n").Obj()} {
		require.NoError(t, runner.Objects.Delete(t.Context(), "", object), "it was created")
	}
	require.ErrorContains(t, runner.Prepare(t.Context(), scenarios, accounts), "scenario first: create Namespace first")
}

// The API server forbids a slice for as long as it does not know what the node declares.
func TestPrepareForbidden(t *testing.T) {
	t.Parallel()
	client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
	asked := 0
	client.PrependReactor("create", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		if asked++; asked < 3 {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "resourceslices"}, "d", nil)
		}
		return false, nil, nil
	})
	runner := newRunner(worldOf(nil), worldOf(nil))
	runner.Objects = NewObjects(client)
	accounts := func(context.Context, []string) error { return nil }
	scenarios := []Scenario{{Name: "s", Cluster: []runtime.Object{fleet.LocalSlice("d", "n").Obj()}}}
	require.NoError(t, runner.Prepare(t.Context(), scenarios, accounts))
	require.Equal(t, 3, asked)
}

func TestSteps(t *testing.T) {
	t.Parallel()
	runner := newRunner(worldOf(nil), worldOf(nil))
	claim := builder.Claim("c").Obj()
	s := Scenario{Name: "s", Steps: []Step{
		Create(claim, builder.Claim("t").Template()),
		Refused(claim, "already exists"),
		Delete(claim),
		Create(claim),
		Refused(claim, "already exists", "on the moon"),
	}}
	results := runner.Run(t.Context(), []Scenario{s})
	require.ErrorContains(t, results[0].Err, "step 5 of 5 failed to be refused ResourceClaim c")
	require.ErrorContains(t, results[0].Err, `["on the moon"]`)

	s.Steps = []Step{Refused(builder.Claim("new").Obj(), "already exists")}
	results = runner.Run(t.Context(), []Scenario{s})
	require.ErrorContains(t, results[0].Err, "the API server accepted it")
}

func asObjects(pods []*corev1.Pod) []metav1.Object {
	objects := make([]metav1.Object, 0, len(pods))
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	return objects
}
