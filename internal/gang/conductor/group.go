package conductor

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
)

// Group is what a PodGroup asks for.
type Group struct {
	// Name is "namespace/name".
	Name string
	UID  types.UID
	// MinMember is how many pods have to run at the same time, or none is scheduled. Those that have succeeded count.
	MinMember, Succeeded int
	// MinResources is what has to be free in the cluster for the group to be tried at all.
	MinResources v1.ResourceList
	// Timeout is for how long pods that are reserved wait for the others, 0 if the group does not say.
	Timeout time.Duration
	// Wish is what the nodes of its pods are to have in common.
	Wish domain.Wish
}

// groupOf reads a PodGroup. The error says what is wrong with it.
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
		g.Succeeded = 0 // Pods of another run of the same job begin anew.
	}
	if seconds := from.Spec.ScheduleTimeoutSeconds; seconds != nil && *seconds > 0 {
		g.Timeout = time.Duration(*seconds) * time.Second
	}
	return g, nil
}

// lookup returns a pod's group.
func (c *Conductor) lookup(pod *v1.Pod, name string) (*Group, error) {
	found, err := c.Lookup(pod.Namespace, name)
	if err != nil {
		return nil, err
	}
	return groupOf(found)
}
