package quartermaster

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// The scheduler sets up its metrics before it makes plugins.
func init() { schedmetrics.Register() }

const attached, broken = "attached", "broken"

// fabricNodes makes class gpu and nodes with one device each, gpu-0, that has to be
// attached first.
func fabricNodes(names ...string) []runtime.Object {
	objects := []runtime.Object{builder.Class("gpu")}
	for _, name := range names {
		device := builder.Device("gpu-0").BindingCondition(attached).Modify(func(device *resourceapi.Device) {
			device.BindingFailureConditions = []string{broken}
		})
		objects = append(objects, builder.Node(name), builder.NodeSlice(name, device).Obj())
	}
	return objects
}

// fabricWorld is one such node, and pods that share claim c.
func fabricWorld(pods ...string) []runtime.Object {
	objects := plus(fabricNodes("n1"), gpus("c", 1).Obj())
	for _, pod := range pods {
		objects = append(objects, newPod(pod, uses("c")))
	}
	return objects
}

// attachable is claim c, allocated some time ago, whose device is not attached yet.
func attachable(ago time.Duration, edits ...func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	claim := with(gpus("c", 1).Allocated("n1", "gpu-0"), onNode("n1"), func(claim *resourceapi.ResourceClaim) {
		allocated := metav1.NewTime(time.Now().Add(-ago))
		claim.Status.Allocation.AllocationTimestamp = &allocated
		result := &claim.Status.Allocation.Devices.Results[0]
		result.BindingConditions, result.BindingFailureConditions = []string{attached}, []string{broken}
	})
	return with(claim, edits...)
}

// report is what a driver says about all devices of a claim: that a condition is true.
func report(condition string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Status.Devices = nil
		for _, result := range claim.Status.Allocation.Devices.Results {
			claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: result.Driver, Pool: result.Pool, Device: result.Device,
				Conditions: []metav1.Condition{{
					Type: condition, Status: metav1.ConditionTrue, Reason: "Tested", Message: "said the driver",
				}},
			})
		}
	}
}

// pending is an attempt that goes on while the test does other things.
type pending struct {
	f    *fixture
	done chan outcome
}

// scheduleMeanwhile begins to schedule a pod, and returns when there is nothing to do but
// to wait.
func (f *fixture) scheduleMeanwhile(pod *v1.Pod) *pending {
	p := &pending{f: f, done: make(chan outcome, 1)}
	go func() { p.done <- f.schedule(pod) }()
	f.settle()
	return p
}

// stillWaits fails the test if the attempt has ended.
func (p *pending) stillWaits(why string) {
	p.f.t.Helper()
	p.f.settle()
	select {
	case result := <-p.done:
		require.FailNow(p.f.t, "the attempt has ended", "%s: %s %v", why, result.phase, result.status)
	default:
	}
}

// result fails the test if the attempt has not ended by now.
func (p *pending) result() outcome {
	p.f.t.Helper()
	p.f.settle()
	select {
	case result := <-p.done:
		return result
	default:
		require.FailNow(p.f.t, "the attempt goes on")
		return outcome{}
	}
}

// events returns what was recorded since the last call.
func (f *fixture) events() []string {
	var list []string
	for {
		select {
		case event := <-f.recorder.Events:
			list = append(list, event)
		default:
			return list
		}
	}
}

// cancellable is the context of one binding, which somebody can end.
func (f *fixture) cancellable() (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(f.ctx)
}
