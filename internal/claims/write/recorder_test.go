package write

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/ptr"
)

// change is one of a claim with so many devices, in that version.
func change(version string, released bool, devices int) Change {
	c := Change{
		Claim:      &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c-uid", ResourceVersion: version}},
		Allocation: &resourceapi.AllocationResult{},
		Released:   released,
	}
	for i := range devices {
		c.Allocation.Devices.Results = append(c.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Driver: "gpu.example.com", Pool: "n1", Device: fmt.Sprintf("gpu-%d", i)})
	}
	return c
}

// TestEvents looks at what gets to the API server, through client-go's own recorder and broadcaster.
func TestEvents(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	require.NoError(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	limit := NewLimit()
	limit.AtLeast(DefaultPerSecond)
	r := &Recorder{Events: broadcaster.NewRecorder(scheme.Scheme, "quartermaster"), Limit: limit, Versions: version("resource.k8s.io/v1beta1")}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p-uid"}}
	var notes []string
	list := func() []eventsv1.Event {
		list, err := client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return list.Items
	}
	// Twice the same way: the devices may be others, so the second one is not a repetition of the first.
	for i := range 2 {
		allocated := change(fmt.Sprint(10+2*i), false, 2)
		allocated.Cause = Cause{Pod: pod, Node: "n1", Why: "for pod p"}
		r.Changed(t.Context(), allocated)
		released := change(fmt.Sprint(11+2*i), true, 2)
		released.Cause = Cause{Why: "because nobody uses it"}
		r.Changed(t.Context(), released)
		require.Eventually(t, func() bool { return len(list()) == 2*(i+1) }, 3*time.Minute, 5*time.Millisecond)
	}
	for _, event := range list() {
		require.Nil(t, event.Series)
		require.Equal(t, "Normal", event.Type)
		require.Equal(t, "ResourceClaim", event.Regarding.Kind)
		require.Equal(t, "resource.k8s.io/v1beta1", event.Regarding.APIVersion)
		require.Equal(t, "default/c c-uid", event.Regarding.Namespace+"/"+event.Regarding.Name+" "+string(event.Regarding.UID))
		notes = append(notes, event.Reason+" "+event.Action+": "+event.Note)
		if event.Reason == ReasonAllocated {
			require.Equal(t, pod.UID, event.Related.UID)
		} else {
			require.Nil(t, event.Related)
		}
	}
	allocated := "DevicesAllocated Allocating: Allocated gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1 on node n1 for pod p"
	released := "DevicesReleased Releasing: Released gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1 because nobody uses it"
	require.ElementsMatch(t, []string{allocated, released, allocated, released}, notes)
}

func TestNotes(t *testing.T) {
	t.Parallel()
	on := func(c Change, selector *v1.NodeSelector) Change {
		c.Allocation.NodeSelector = selector
		return c
	}
	field := func(values ...string) *v1.NodeSelector {
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: values}}}}}
	}
	admin := change("1", false, 2)
	admin.Allocation.Devices.Results[1].AdminAccess = ptr.To(true)
	shares := change("1", false, 2)
	shares.Allocation.Devices.Results[1] = shares.Allocation.Devices.Results[0]
	long := change("1", true, 32)
	for i := range long.Allocation.Devices.Results {
		result := &long.Allocation.Devices.Results[i]
		result.Driver, result.Pool, result.Device = strings.Repeat("d", 63), strings.Repeat("p", 253), fmt.Sprintf("%063d", i)
	}
	elsewhere := on(change("1", true, 1), field("n1"))
	elsewhere.Cause.Node = "n2"
	for name, tc := range map[string]struct {
		change Change
		want   string
	}{
		"none":            {change("1", false, 0), "Allocated no devices"},
		"many":            {change("1", false, 10), "Allocated gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1, gpu.example.com/n1/gpu-2, gpu.example.com/n1/gpu-3, gpu.example.com/n1/gpu-4, gpu.example.com/n1/gpu-5, gpu.example.com/n1/gpu-6, gpu.example.com/n1/gpu-7 and 2 more"},
		"local to a node": {on(change("1", true, 1), field("n1")), "Allocated gpu.example.com/n1/gpu-0 on node n1"},
		"on some nodes":   {on(change("1", true, 1), field("n1", "n2")), "Allocated gpu.example.com/n1/gpu-0"},
		"on all nodes":    {on(change("1", true, 1), nil), "Allocated gpu.example.com/n1/gpu-0"},
		"the pod's node":  {elsewhere, "Allocated gpu.example.com/n1/gpu-0 on node n2"},
		"admin access":    {admin, "Allocated gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1 (admin access)"},
		"shares":          {shares, "Allocated gpu.example.com/n1/gpu-0"},
		"long names":      {long, "Allocated " + strings.Repeat("d", 63) + "/" + strings.Repeat("p", 253) + "/" + strings.Repeat("0", 63) + " and 31 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, note("Allocated", tc.change))
		})
	}
	// The API server would refuse longer ones.
	for cut := range 4 {
		long.Cause.Why = strings.Repeat("x", cut) + strings.Repeat("…", 500)
		text := note("Released", long)
		require.LessOrEqual(t, len(text), 1024)
		require.Greater(t, len(text), 1000)
		require.True(t, utf8.ValidString(text))
		require.True(t, strings.HasSuffix(text, "…"))
	}
}

// logged is a log that is read while others write.
type logged struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// TestLimit: events beyond the limit are dropped at once, and the log reports their number.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logged
		ctx := klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(2), textlogger.Output(&log))))
		recorder := events.NewFakeRecorder(1000)
		r := &Recorder{Events: recorder, Limit: NewLimit(), Versions: version("resource.k8s.io/v1")}
		send := func(n int) int {
			before := len(recorder.Events)
			for range n {
				r.Changed(ctx, change("1", false, 1))
			}
			return len(recorder.Events) - before
		}
		require.Zero(t, send(1), "there is no limit yet")
		r.Limit.AtLeast(10)
		r.Limit.AtLeast(5) // Another profile's; the larger one counts.
		start := time.Now()
		require.Equal(t, 100, send(150))
		require.Zero(t, time.Since(start), "nobody waits")
		time.Sleep(time.Second)
		require.Equal(t, 10, send(20))
		require.Empty(t, log.String())
		time.Sleep(tellInterval)
		synctest.Wait()
		require.Contains(t, log.String(), "leftOut=61 eventsPerSecond=10")
		require.Equal(t, 1, strings.Count(log.String(), "\n"))
		require.Equal(t, 100, send(100))
		time.Sleep(time.Hour)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "nothing was left out since")
	})
}

// version is the version of claims.
type version string

func (v version) ClaimVersion() string { return string(v) }
