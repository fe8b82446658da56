package coordinator

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
)

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
