package crd

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// While the resource is missing, it is looked for often at first and after a pod has named a PodGroup, because it may
// be installed soon; otherwise rarely.
const (
	lookSoon, lookLater = 10 * time.Second, time.Minute
	// looksSoon is the number of looks at the short interval.
	looksSoon = 6
)

var resource = v1alpha1.SchemeGroupVersion.WithResource("podgroups")

// Run follows the PodGroups until the context ends. While the server does not have the resource, Run looks for it from
// time to time. It must be called only once.
func (g *Groups) Run(ctx context.Context) {
	if g.resource.Client == nil {
		<-ctx.Done()
		return
	}
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("resource", resource.GroupResource().String()))
	for g.awaitResource(ctx) {
		g.follow(ctx)
	}
}

// awaitResource returns true once the server has the resource, false when the context ends.
func (g *Groups) awaitResource(ctx context.Context) bool {
	logger := klog.FromContext(ctx)
	for looks, said := 1, false; ; looks++ {
		err := g.look(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			logger.V(2).Info("Following PodGroups")
			return true
		}
		if g.note(err) {
			logger.V(2).Info("No PodGroups are known", "reason", err)
		}
		asked := g.pause(ctx, looks >= looksSoon)
		if asked == "" {
			continue
		}
		looks = 0 // The resource may be installed soon, now that pods name groups.
		if !said {
			logger.Info("A pod names a PodGroup, but the API server has no such resource. Such pods wait until it is installed: kubectl apply -k manifests/pod-groups",
				"podGroup", asked, "label", v1alpha1.PodGroupLabel)
			said = true
		}
	}
}

// pause waits until it is time to look again, and returns a PodGroup that was requested meanwhile, "" if none was.
func (g *Groups) pause(ctx context.Context, long bool) (asked string) {
	select {
	case <-ctx.Done():
		return ""
	case <-time.After(lookSoon):
	}
	if long {
		select {
		case <-ctx.Done():
			return ""
		case asked = <-g.asked:
			return asked
		case <-time.After(lookLater - lookSoon):
		}
	}
	select {
	case asked = <-g.asked:
	default:
	}
	return asked
}

// look returns nil if the server has the resource, and ErrNotInstalled if it has not. Any other error means that the
// server gave no answer.
func (g *Groups) look(ctx context.Context) error {
	served, err := g.resource.Served(ctx)
	if err == nil && !served {
		return ErrNotInstalled
	}
	return err
}
