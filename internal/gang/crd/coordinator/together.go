package coordinator

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
)

// Together returns the given pods and those that must go with them: all pods of a gang that would have fewer than minMember left.
func (c *Coordinator) Together(pods []*v1.Pod) []*v1.Pod {
	going := make(map[types.UID]bool)
	gangs := sets.New[string]()
	for _, pod := range pods {
		going[pod.UID] = true
		if key := crd.KeyOf(pod); key != "" {
			gangs.Insert(key)
		}
	}
	for key := range gangs {
		members, gone := c.assigned(key), 0
		for _, member := range members { // Pods that are being deleted are not among them.
			if going[member.UID] {
				gone++
			}
		}
		if gone <= c.beyond(members) {
			continue
		}
		for _, member := range members {
			if !going[member.UID] {
				going[member.UID] = true
				pods = append(slices.Clip(pods), member)
			}
		}
	}
	return pods
}

// Beyond returns how many pods of a pod's gang can go without stopping the gang; 0 if the gang does not run anyway, and all
// pods if it has no PodGroup. The pod must be in a gang.
func (c *Coordinator) Beyond(pod *v1.Pod) int {
	key := crd.KeyOf(pod)
	return c.beyond(c.assigned(key))
}

// assigned returns the pods of a gang that have a node, have not ended and are not about to.
func (c *Coordinator) assigned(key string) []*v1.Pod {
	return slices.DeleteFunc(c.podsOf(key), func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" || dra.HasEnded(pod) || isLeaving(pod) })
}

func (c *Coordinator) beyond(members []*v1.Pod) int {
	if len(members) == 0 {
		return 0
	}
	group, err := c.lookup(members[0], crd.NameOf(members[0]))
	if err != nil {
		return len(members) // Without a PodGroup, nothing requires them to run together.
	}
	return max(0, len(members)+group.Succeeded-group.MinMember)
}

// Pending returns a pod's group, the pods of the group, and how many more of them must be placed.
func (c *Coordinator) Pending(pod *v1.Pod) (*Group, *Members, int, error) {
	group, err := c.lookup(pod, crd.NameOf(pod))
	if err != nil {
		return nil, nil, 0, err
	}
	members := c.MembersOf(pod)
	return group, members, group.MinMember - len(members.Assigned) - group.Succeeded, nil
}

// Await stores the victims that a gang waits for.
func (c *Coordinator) Await(gang string, victims []*v1.Pod) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.awaited[gang] = victims
}

// Evicted records that all requests to evict the victims that Await stored are through, and which of them stay: the gang does
// not wait for these, and looks for victims again.
func (c *Coordinator) Evicted(gang string, stay []*v1.Pod) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.awaited[gang] = slices.DeleteFunc(slices.Clone(c.awaited[gang]), func(victim *v1.Pod) bool {
		return slices.ContainsFunc(stay, func(pod *v1.Pod) bool { return pod.UID == victim.UID })
	})
	if len(c.awaited[gang]) == 0 {
		delete(c.awaited, gang)
	}
	c.stir(gang, c.waitingFor(gang))
}

// Awaited returns how many of those for whose end a gang waits are still there.
func (c *Coordinator) Awaited(gang string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	left := slices.DeleteFunc(slices.Clone(c.awaited[gang]), func(victim *v1.Pod) bool {
		known, exists, _ := c.pods.GetByKey(victim.Namespace + "/" + victim.Name)
		now, ok := known.(*v1.Pod)
		return !exists || !ok || now.UID != victim.UID || dra.HasEnded(now)
	})
	if len(left) == 0 {
		delete(c.awaited, gang)
	}
	return len(left)
}
