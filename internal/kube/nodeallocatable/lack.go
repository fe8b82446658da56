package nodeallocatable

import (
	"context"
	"fmt"
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// insufficient begins the plugin's reasons for nodes that have not enough of a resource. Its name follows.
const insufficient = "Insufficient "

// lack returns the status of a node that has not enough, with what the pod asks for and what is left. The plugin says only which
// resources they are. The mutex must be held.
func (c *Account) lack(ctx context.Context, refused *fwk.Status, node fwk.NodeInfo) *fwk.Status {
	asked := c.asked(ctx, refused, node)
	if asked == nil {
		return refused
	}
	told := fwk.NewStatus(refused.Code())
	for _, reason := range refused.Reasons() {
		if text, of := strings.CutPrefix(reason, insufficient); of {
			name := v1.ResourceName(text)
			has, used := amountOf(node.GetAllocatable(), name), amountOf(node.GetRequested(), name)
			reason = fmt.Sprintf("%s: %s asked with the pod's devices; %s of %s left on the node",
				reason, textOf(name, amountOf(asked, name)), textOf(name, max(has-used, 0)), textOf(name, has))
		}
		told.AppendReason(reason)
	}
	return told
}

// asked returns what the pod takes of the node, nil if that is unknown. It asks the plugin about a node with room for anything, in a
// state of its own: what that says must not count.
func (c *Account) asked(ctx context.Context, refused *fwk.Status, node fwk.NodeInfo) fwk.Resource {
	roomy := framework.NewNodeInfo()
	roomy.SetNode(node.Node())
	roomy.Allocatable = &framework.Resource{
		MilliCPU: math.MaxInt64, Memory: math.MaxInt64, EphemeralStorage: math.MaxInt64, ScalarResources: make(map[v1.ResourceName]int64),
	}
	for name := range node.GetAllocatable().GetScalarResources() {
		roomy.Allocatable.ScalarResources[name] = math.MaxInt64
	}
	for _, reason := range refused.Reasons() {
		if name, of := strings.CutPrefix(reason, insufficient); of {
			roomy.Allocatable.ScalarResources[v1.ResourceName(name)] = math.MaxInt64
		}
	}
	state, plugin := fwk.CycleState(framework.NewCycleState()), c.accountant.plugin
	if _, status := plugin.PreFilter(ctx, state, c.pod, nil); !status.IsSuccess() {
		return nil
	}
	if status := plugin.Filter(ctx, state, c.pod, roomy); !status.IsSuccess() {
		return nil
	}
	info, err := framework.NewPodInfo(taking(c.pod, takenOf(ctx, state, node.Node().Name)))
	if err != nil {
		return nil
	}
	resources := info.CalculateResource()
	return resources.Resource
}

// amountOf returns the amount of a resource as kube-scheduler counts it.
func amountOf(resources fwk.Resource, name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return resources.GetMilliCPU()
	case v1.ResourceMemory:
		return resources.GetMemory()
	case v1.ResourceEphemeralStorage:
		return resources.GetEphemeralStorage()
	}
	return resources.GetScalarResources()[name]
}

// textOf returns an amount as users write it.
func textOf(name v1.ResourceName, amount int64) string {
	if name == v1.ResourceCPU {
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	}
	return resource.NewQuantity(amount, resource.BinarySI).String()
}
