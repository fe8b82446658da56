package simulation

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	arguments "github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// holds is the theme of histories in which devices are held for pods that have waited for longer than holdAfter.
	holds, holdAfter = "holds", 15 * time.Second
	// delays is the theme of histories in which pods are evicted only for those that have waited for preemptionDelay.
	delays, preemptionDelay = "preemption delay", 20 * time.Second
	// conditions is the theme of histories with devices that become ready after their allocation.
	conditions = "binding conditions"
	// attached is the binding condition of such devices, attachFailed their binding failure condition.
	attached, attachFailed = "example.com/attached", "example.com/attach-failed"
	// fabric is the pool of such devices that all nodes reach.
	fabric = "fabric"
	// bindingTimeout is the maximum time that pods wait for such devices.
	bindingTimeout = 25 * time.Second
)

// attaching is the driver's behaviour towards devices that are allocated from then on.
type attaching struct {
	// answer is the condition that the driver reports after a while, "" if it reports none.
	answer string
	takes  time.Duration
}

// setArguments sets the plugin's arguments of a history. With binding conditions, it sets a timeout that is shorter than the
// history.
func (h *History) setArguments(configured *config.KubeSchedulerConfiguration) {
	raw := fmt.Appendf(nil, `{"placePodsWithoutDevices": %t`, h.themes[withoutDevices])
	if h.themes[holds] {
		raw = fmt.Appendf(raw, `, "holdAfter": %q, "maxHeldPercent": 100`, holdAfter)
	}
	if h.themes[delays] {
		raw = fmt.Appendf(raw, `, "preemptionDelay": %q`, preemptionDelay)
	}
	if h.themes[conditions] {
		raw = fmt.Appendf(raw, `, "bindingTimeout": %q`, bindingTimeout)
	}
	args := &runtime.Unknown{ContentType: runtime.ContentTypeJSON, Raw: append(raw, '}')}
	for i := range configured.Profiles {
		profile := &configured.Profiles[i]
		profile.PluginConfig = append(profile.PluginConfig, config.PluginConfig{Name: arguments.Name, Args: args})
	}
}

// attachable makes the device one that becomes ready only after its allocation.
func attachable(device *builder.DeviceBuilder) *builder.DeviceBuilder {
	return device.BindingCondition(attached).BindingFailureCondition(attachFailed).BindsToNode()
}

func setupConditions(g *generator) {
	g.publishFabric(0)
	changeAttaching(g)
}

// publishFabric makes a driver publish the pool that all nodes reach again, with more or fewer devices.
func (g *generator) publishFabric(after time.Duration) {
	known := g.pools[fabric]
	if known == nil {
		known = &pool{}
		g.pools[fabric] = known
	}
	known.generation++
	generation, count := known.generation, 1+g.random.IntN(3)
	g.add(after, func(w *World) { w.publishFabric(generation, count) }, "publish %s in generation %d, for all nodes: %d devices that have to be attached", fabric, generation, count)
}

func (w *World) publishFabric(generation int64, count int) {
	var devices []*builder.DeviceBuilder
	for i := range count {
		devices = append(devices, attachable(deviceOf(i)))
	}
	w.putSlice(builder.Slice(fabric).OfDriver(driver).InPool(fabric, generation, 1).OnAllNodes().Devices(devices...).Obj())
}

// changeAttaching changes the driver's behaviour from then on, or publishes other devices.
func changeAttaching(g *generator) {
	if g.one(5) {
		g.publishFabric(g.soon())
		return
	}
	next := attaching{answer: pick(g, attached, attached, attached, attachFailed, ""), takes: time.Duration(g.random.IntN(8000)) * time.Millisecond}
	if g.one(6) {
		next.takes = bindingTimeout + time.Duration(g.random.IntN(2000)-1000)*time.Millisecond
	}
	g.add(g.soon(), func(w *World) { w.attaching.Store(&next) }, "the driver reports after %s of devices that have to be attached: %q", next.takes, next.answer)
}

// mend makes the driver attach all devices that are allocated from then on.
func (w *World) mend() { w.attaching.Store(&attaching{attached, time.Second}) }

// attach is called for each claim that is allocated: the driver attaches its devices.
func (w *World) attach(claim *resourceapi.ResourceClaim) {
	does := w.attaching.Load()
	if does == nil || does.answer == "" || w.ctx.Err() != nil || len(unattached(claim)) == 0 {
		return
	}
	w.afterwards(does.takes, func() { w.report(claim, does.answer) })
}

// report sets the condition of the devices of an allocation, if that still exists.
func (w *World) report(of *resourceapi.ResourceClaim, condition string) {
	for range 5 {
		claim, err := w.client.ResourceV1().ResourceClaims(of.Namespace).Get(w.ctx, of.Name, metav1.GetOptions{})
		if err != nil || claim.UID != of.UID || claim.Status.Allocation == nil {
			return
		}
		for _, result := range unattached(claim) {
			status := resourceapi.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Reported"})
			claim.Status.Devices = append(claim.Status.Devices, status)
		}
		if _, err = w.client.ResourceV1().ResourceClaims(of.Namespace).UpdateStatus(w.ctx, claim, metav1.UpdateOptions{}); err == nil {
			w.note("the driver says of devices of claim %s: %s", of.Name, condition)
			return
		}
	}
}

// unattached returns the allocated devices of a claim that wait for binding conditions and have no reported condition.
func unattached(claim *resourceapi.ResourceClaim) (all []resourceapi.DeviceRequestAllocationResult) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		if len(result.BindingConditions) > 0 && conditionsOf(claim, result) == nil {
			all = append(all, result)
		}
	}
	return all
}

// conditionsOf returns the reported conditions of an allocated device.
func conditionsOf(claim *resourceapi.ResourceClaim, result resourceapi.DeviceRequestAllocationResult) []metav1.Condition {
	for _, status := range claim.Status.Devices {
		if status.Driver == result.Driver && status.Pool == result.Pool && status.Device == result.Device {
			return status.Conditions
		}
	}
	return nil
}

// checkAttached: a pod is bound only when all devices of its claims are ready. The driver never withdraws a condition.
func (w *World) checkAttached(pod string, claim *resourceapi.ResourceClaim) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		reported := conditionsOf(claim, result)
		for _, condition := range result.BindingConditions {
			if !meta.IsStatusConditionTrue(reported, condition) {
				w.fail("pod %s is bound while device %s/%s of its claim %s is not ready: %s is not true", pod, result.Pool, result.Device, claim.Name, condition)
			}
		}
	}
}

// stillAttaching returns the claims with devices that still have no reported condition once nothing happens any more, while
// pods wait. By then either the driver has attached the device, or the timeout is over. Two kinds of pods are not tried at all,
// so they keep what a process has left: pods whose claim is being deleted, and pods in groups of Kubernetes that lack pods.
func (w *World) stillAttaching() (all []string) {
	s := w.server.store
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, o := range s.collections["resource.k8s.io/v1/resourceclaims"].sorted() {
		if o.text("deletionTimestamp") == "" && isAllocated(o.fields) && consumersOf(o) != "" && len(unattached(claimOfObject(o))) > 0 && !w.hasBound(o) && !w.isForGroup(o) {
			all = append(all, fmt.Sprintf("StillAttaching: claim %s: pods wait for its devices, although the timeout is over:%s", o.text("name"), consumersOf(o)))
		}
	}
	return all
}

// isForGroup reports whether a claim is reserved for a group of Kubernetes, or for a pod of one.
func (w *World) isForGroup(claim *object) bool {
	for _, consumer := range claimOfObject(claim).Status.ReservedFor {
		pod := w.server.store.collections["/v1/pods"].objects[types.NamespacedName{Namespace: claim.text("namespace"), Name: consumer.Name}]
		if consumer.Resource == "podgroups" || pod != nil && lookup(pod.fields, []string{"spec", "schedulingGroup", "podGroupName"}) != "" {
			return true
		}
	}
	return false
}
