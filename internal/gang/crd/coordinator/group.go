package coordinator

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// exist returns an error unless a gang has enough pods, whether they can be scheduled or not.
func exist(group *Group, members *Members) error {
	if exist := members.all() + group.Succeeded; exist < group.MinMember {
		return fmt.Errorf("group %s: %d of %d pods exist (minMember); waiting for the others to be created", group.Name, exist, group.MinMember)
	}
	return nil
}

// errHeld returns the error for a gang with too few pods that can be scheduled.
func errHeld(group *Group, members *Members) error {
	return fmt.Errorf("group %s: %d of its pods cannot be scheduled with this one yet and at least %d are needed (minMember): %s",
		group.Name, len(members.Held), group.MinMember, members.HeldBy)
}

// Wants reports whether a pod takes any of the resources that the group requires (spec.minResources).
func (g *Group) Wants(pod *v1.Pod) bool {
	taken := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for name := range g.MinResources {
		if _, takes := taken[name]; takes || name == v1.ResourcePods {
			return true
		}
	}
	return false
}

// Enough returns an error if the nodes have less free than the group requires (spec.minResources). The requirement is for
// all pods of the group, so the resources of those that run count as free. Resources that devices back are not checked: no
// node has any.
func (c *Coordinator) Enough(group *Group, nodes []fwk.NodeInfo) error {
	if len(group.MinResources) == 0 {
		return nil
	}
	nodes = without(group.Name, nodes)
	for name, asked := range group.MinResources {
		if c.Backing != nil && c.Backing.Backed(name) {
			continue
		}
		free := int64(0)
		for _, node := range nodes {
			free += freeOf(name, node)
		}
		want := quantity.Value(asked)
		if name == v1.ResourceCPU {
			want = quantity.MilliValue(asked)
		}
		if free < want {
			return fmt.Errorf("group %s: less of %s is free in the cluster than it wants at least (minResources: %s)", group.Name, name, asked.String())
		}
	}
	return nil
}

// without returns nodes as they would be without the pods of a gang.
func without(gang string, nodes []fwk.NodeInfo) []fwk.NodeInfo {
	others := slices.Clone(nodes)
	for i, node := range nodes {
		for _, info := range node.GetPods() {
			if crd.KeyOf(info.GetPod()) != gang {
				continue
			}
			if others[i] == node {
				others[i] = node.Snapshot()
			}
			_ = others[i].RemovePod(klog.Background(), info.GetPod()) // The pod is there: the snapshot was taken just now.
		}
	}
	return others
}

// freeOf returns the free amount of a resource on a node; CPU in thousandths.
func freeOf(name v1.ResourceName, node fwk.NodeInfo) int64 {
	all, used := node.GetAllocatable(), node.GetRequested()
	switch name {
	case v1.ResourceCPU:
		return max(0, all.GetMilliCPU()-used.GetMilliCPU())
	case v1.ResourceMemory:
		return max(0, all.GetMemory()-used.GetMemory())
	case v1.ResourceEphemeralStorage:
		return max(0, all.GetEphemeralStorage()-used.GetEphemeralStorage())
	case v1.ResourcePods:
		return max(0, int64(all.GetAllowedPodNumber()-len(node.GetPods())))
	}
	return max(0, all.GetScalarResources()[name]-used.GetScalarResources()[name])
}

// A Group holds the requirements of a PodGroup.
type Group struct {
	// Name is "namespace/name".
	Name string
	UID  types.UID
	// MinMember is the number of pods that must run at the same time; otherwise none is scheduled. Pods that have succeeded
	// count.
	MinMember, Succeeded int
	// MinResources must be free in the cluster before the group is tried at all.
	MinResources v1.ResourceList
	// Timeout limits how long reserved pods wait for the others, 0 if the PodGroup has no limit.
	Timeout time.Duration
	// Wish is the domain that the nodes of its pods must or should share.
	Wish domain.Wish
}

// groupOf reads a PodGroup. It returns an error if the annotations are invalid.
func groupOf(from *v1alpha1.PodGroup) (*Group, error) {
	wish, err := domain.Of(from.Annotations)
	if err != nil {
		return nil, fmt.Errorf("group %s/%s: %w", from.Namespace, from.Name, err)
	}
	g := &Group{
		Name: from.Namespace + "/" + from.Name, UID: from.UID, MinMember: int(from.Spec.MinMember), Succeeded: int(from.Status.Succeeded),
		MinResources: from.Spec.MinResources, Wish: wish,
	}
	if from.Status.Phase == v1alpha1.PodGroupFinished || from.Status.Phase == v1alpha1.PodGroupFailed {
		g.Succeeded = 0 // The successes are those of an earlier run of the same job.
	}
	if seconds := from.Spec.ScheduleTimeoutSeconds; seconds != nil && *seconds > 0 {
		g.Timeout = time.Duration(*seconds) * time.Second
	}
	return g, nil
}

// lookup returns a pod's group.
func (c *Coordinator) lookup(pod *v1.Pod, name string) (*Group, error) {
	found, err := c.Groups.Get(pod.Namespace, name)
	if err != nil {
		return nil, err
	}
	return groupOf(found)
}
