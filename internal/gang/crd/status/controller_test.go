package status

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
)

var podGroups = v1alpha1.SchemeGroupVersion.WithResource("podgroups")

// cluster has PodGroups and a controller that follows them.
type cluster struct {
	t          *testing.T
	pods       *fake.Clientset
	groups     *dynamicfake.FakeDynamicClient
	known      *crd.Groups
	controller *Controller

	mutex sync.Mutex
	// refuses is the error for all writes, follower the error of leads.
	refuses, follower error
	// lags hides the writes from the controller.
	lags bool
	// undoes has somebody else write other counts after each write.
	undoes bool
	// written are the phases, and patches the bodies, of all writes that succeeded; tried counts all of them.
	written []v1alpha1.PodGroupPhase
	patches []string
	tried   int
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, pods: fake.NewClientset()}
	c.groups = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{podGroups: "PodGroupList"})
	c.groups.PrependReactor("patch", "podgroups", c.patch)
	known, err := crd.New(nil)
	require.NoError(t, err)
	c.known = known
	c.controller = New(c.pods, c.groups, known, c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.controller.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return c
}

// patch acts like a server: it rejects a patch for another version, and increments versions.
func (c *cluster) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	patch := action.(clienttesting.PatchActionImpl)
	c.tried++
	if c.refuses != nil {
		return true, nil, c.refuses
	}
	if patch.GetSubresource() != "status" {
		return true, nil, errors.New("only the status is to be written")
	}
	current, err := c.groups.Tracker().Get(podGroups, patch.Namespace, patch.Name)
	if err != nil {
		return true, nil, err
	}
	version := current.(*unstructured.Unstructured).GetResourceVersion()
	var of struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(patch.Patch, &of); err != nil || of.Metadata.ResourceVersion != version {
		return true, nil, apierrors.NewConflict(podGroups.GroupResource(), patch.Name, err)
	}
	_, result, err := clienttesting.ObjectReaction(c.groups.Tracker())(action)
	if err != nil {
		return true, nil, err
	}
	group := c.store(result.(*unstructured.Unstructured), version)
	c.written, c.patches = append(c.written, group.Status.Phase), append(c.patches, string(patch.Patch))
	if !c.lags {
		c.known.Set(group)
	}
	if c.undoes {
		object := result.(*unstructured.Unstructured).DeepCopy()
		if err := unstructured.SetNestedField(object.Object, int64(9), "status", "succeeded"); err != nil {
			c.t.Error(err)
		}
		c.known.Set(c.store(object, group.ResourceVersion))
	}
	return true, result, nil
}

// store stores a group with a version after the given one.
func (c *cluster) store(object *unstructured.Unstructured, version string) *v1alpha1.PodGroup {
	n, _ := strconv.Atoi(version)
	object.SetResourceVersion(strconv.Itoa(n + 1))
	if err := c.groups.Tracker().Update(podGroups, object, object.GetNamespace()); err != nil {
		c.t.Error(err)
	}
	group := &v1alpha1.PodGroup{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, group); err != nil {
		c.t.Error(err)
	}
	return group
}

// create creates PodGroup ml/train, which needs two pods.
func (c *cluster) create() {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "ml", "name": "train"}, "spec": map[string]any{"minMember": int64(2)},
	}}
	require.NoError(c.t, c.groups.Tracker().Create(podGroups, object, "ml"))
	c.mutex.Lock()
	group := c.store(object, "0")
	c.mutex.Unlock()
	c.known.Set(group)
}

// group returns PodGroup ml/train as the server has it.
func (c *cluster) group() *v1alpha1.PodGroup {
	object, err := c.groups.Tracker().Get(podGroups, "ml", "train")
	require.NoError(c.t, err)
	group := &v1alpha1.PodGroup{}
	require.NoError(c.t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, group))
	return group
}

// pod creates a pod of ml/train, or changes its phase.
func (c *cluster) pod(name string, phase v1.PodPhase, labels map[string]string) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, Labels: labels}, Status: v1.PodStatus{Phase: phase}}
	if err := c.pods.Tracker().Add(pod); err != nil {
		require.NoError(c.t, c.pods.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, "ml"))
	}
}

// wrote returns the phases that were written since the last call.
func (c *cluster) wrote() []v1alpha1.PodGroupPhase {
	time.Sleep(10 * time.Second)
	synctest.Wait()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	written := c.written
	c.written = nil
	return written
}

func (c *cluster) set(change func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change()
}

var ofTrain = map[string]string{v1alpha1.PodGroupLabel: "train"}

func TestWholeLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t)
		c.create()
		require.Equal(t, []v1alpha1.PodGroupPhase{"Pending"}, c.wrote())
		c.pod("a", v1.PodPending, ofTrain)
		require.Empty(t, c.wrote())
		c.pod("b", v1.PodPending, ofTrain)
		require.Equal(t, []v1alpha1.PodGroupPhase{"Scheduling"}, c.wrote())
		started := c.group().Status.ScheduleStartTime
		require.False(t, started.IsZero())
		c.pod("a", v1.PodRunning, ofTrain)
		c.pod("b", v1.PodRunning, ofTrain)
		require.Equal(t, []v1alpha1.PodGroupPhase{"Running"}, c.wrote(), "both pods in one write")
		require.EqualValues(t, 2, c.group().Status.Running)

		c.pod("b", v1.PodRunning, map[string]string{v1alpha1.PodGroupLabel: "other"})
		require.Equal(t, []v1alpha1.PodGroupPhase{"Pending"}, c.wrote(), "a pod has left the group")
		c.pod("b", v1.PodRunning, ofTrain)
		require.Equal(t, []v1alpha1.PodGroupPhase{"Scheduling", "Running"}, c.wrote())
		require.NoError(t, c.pods.Tracker().Delete(v1.SchemeGroupVersion.WithResource("pods"), "ml", "b"))
		require.Equal(t, []v1alpha1.PodGroupPhase{"Pending"}, c.wrote(), "a pod is gone")
		c.pod("c", v1.PodRunning, ofTrain)
		require.Equal(t, []v1alpha1.PodGroupPhase{"Scheduling", "Running"}, c.wrote())
		require.True(t, started.Before(&c.group().Status.ScheduleStartTime))

		c.pod("a", v1.PodSucceeded, ofTrain)
		c.pod("c", v1.PodSucceeded, ofTrain)
		require.Equal(t, []v1alpha1.PodGroupPhase{"Finished"}, c.wrote())
		status := c.group().Status
		require.EqualValues(t, 2, status.Succeeded)
		require.Zero(t, status.Running, "what is zero is taken away")
		c.pod("c", v1.PodFailed, ofTrain)
		require.Empty(t, c.wrote(), "final states stay")
	})
}

// A patch contains only the changed fields and the version that it applies to.
func TestPatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t)
		c.create()
		c.wrote()
		c.pod("a", v1.PodRunning, ofTrain)
		c.wrote()
		c.pod("a", v1.PodPending, ofTrain)
		c.wrote()
		require.Equal(t, []string{
			`{"metadata":{"resourceVersion":"1"},"status":{"phase":"Pending"}}`,
			`{"metadata":{"resourceVersion":"2"},"status":{"running":1}}`,
			`{"metadata":{"resourceVersion":"3"},"status":{"running":null}}`,
		}, c.patches)
	})
}

func TestOnlyWhileItLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t)
		c.set(func() { c.follower = errors.New("somebody else leads") })
		c.create()
		c.pod("a", v1.PodRunning, ofTrain)
		c.pod("b", v1.PodRunning, ofTrain)
		require.Empty(t, c.wrote())
		require.Empty(t, c.pods.Actions(), "pods are not watched")
		c.set(func() { c.follower = nil })
		require.Equal(t, []v1alpha1.PodGroupPhase{"Pending", "Scheduling", "Running"}, c.wrote())
		c.set(func() { c.follower = errors.New("somebody else leads") })
		c.pod("b", v1.PodFailed, ofTrain)
		require.Empty(t, c.wrote())
		require.Equal(t, 3, c.tried)
	})
}

// Most clusters have no PodGroups.
func TestNothingIsWatchedWithoutGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t)
		c.known.Set()
		c.pod("a", v1.PodRunning, ofTrain)
		require.Empty(t, c.wrote())
		require.Empty(t, c.pods.Actions())
	})
}

// Pods may name groups that do not exist.
func TestNoSuchGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t)
		c.create()
		c.pod("a", v1.PodRunning, map[string]string{v1alpha1.PodGroupLabel: "other"})
		require.Equal(t, []v1alpha1.PodGroupPhase{"Pending"}, c.wrote())
		require.Equal(t, 1, c.tried)

		require.NoError(t, c.groups.Tracker().Delete(podGroups, "ml", "train"))
		c.pod("b", v1.PodRunning, ofTrain)
		require.Empty(t, c.wrote())
		require.Equal(t, 2, c.tried, "one that is gone is not written again")
	})
}

func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	for name, refuses := range map[string]error{
		"a server that is not well": apierrors.NewInternalError(errors.New("no storage")),
		"no right":                  apierrors.NewForbidden(podGroups.GroupResource(), "train", errors.New("no role")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t)
				c.set(func() { c.refuses = refuses })
				c.create()
				time.Sleep(time.Hour)
				require.Empty(t, c.wrote())
				require.Less(t, c.tried, 80)
				require.Greater(t, c.tried, 60, "tried again every minute at least")
				c.set(func() { c.refuses = nil })
				time.Sleep(time.Minute)
				require.Equal(t, []v1alpha1.PodGroupPhase{"Pending"}, c.wrote())
			})
		})
	}
}

// TestUndone: if somebody else writes other values again and again, the controller does not answer each time.
func TestUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t)
		c.create()
		c.pod("a", v1.PodRunning, ofTrain)
		require.NotEmpty(t, c.wrote())
		c.set(func() { c.undoes = true })
		c.pod("a", v1.PodFailed, ofTrain)
		require.NotEmpty(t, c.wrote())
		time.Sleep(time.Hour)
		require.InDelta(t, 60+steps+6, len(c.wrote()), 10)
		c.set(func() { c.undoes = false })
		time.Sleep(time.Minute)
		require.Len(t, c.wrote(), 1)
		require.Zero(t, c.group().Status.Succeeded)
		c.pod("a", v1.PodRunning, ofTrain)
		c.pod("b", v1.PodRunning, ofTrain)
		require.Equal(t, []v1alpha1.PodGroupPhase{"Scheduling", "Running"}, c.wrote(), "without a pause")
	})
}

// A write computed from an old version of the group is rejected.
func TestOldKnowledge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t)
		c.create()
		require.Equal(t, []v1alpha1.PodGroupPhase{"Pending"}, c.wrote())
		c.set(func() { c.lags = true })
		c.pod("a", v1.PodRunning, ofTrain)
		c.pod("b", v1.PodRunning, ofTrain)
		require.Equal(t, []v1alpha1.PodGroupPhase{"Scheduling"}, c.wrote())
		c.pod("b", v1.PodSucceeded, ofTrain)
		require.Empty(t, c.wrote())
		require.Greater(t, c.tried, 3, "it was refused, and is tried again")
		started := c.group().Status.ScheduleStartTime
		c.known.Set(c.group())
		time.Sleep(time.Minute)
		require.Equal(t, []v1alpha1.PodGroupPhase{"Running"}, c.wrote()[:1])
		require.Equal(t, started, c.group().Status.ScheduleStartTime)
	})
}

// Leads implements lease.Leadership.
func (c *cluster) Leads() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.follower
}
