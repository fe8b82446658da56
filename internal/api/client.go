package api

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// startTimeout bounds the time for which Connect waits for discovery. An unreachable server does not keep a scheduler
// from starting.
const startTimeout = 15 * time.Second

// Connect returns a client set whose ResourceV1() works with the server's versions of resource.k8s.io. It logs which
// versions are used and why. If the server has v1 of everything, Connect returns the given client set. Otherwise,
// goroutines run until the context ends.
func Connect(ctx context.Context, client kubernetes.Interface) kubernetes.Interface {
	served := newServed(client.Discovery(), clock.RealClock{})
	asking, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := served.ask(asking, 0); err != nil {
		klog.FromContext(ctx).Info("The API server does not say which versions of the claim API it has; assuming v1 until it does", "err", err)
	}
	if served.everything(V1) {
		return client
	}
	go served.run(ctx)
	connected := newClientset(client, served)
	go connected.resources.resolver.run(ctx)
	return connected
}

// clientset is a client set with different clients for resource.k8s.io/v1 and for old pods.
type clientset struct {
	kubernetes.Interface
	resources *resources
	// oldPods is nil if the client set is a fake.
	oldPods coreclient.PodsGetter
}

func newClientset(client kubernetes.Interface, served *Served) *clientset {
	alpha2 := newAlpha2(client)
	return &clientset{
		Interface: client,
		resources: &resources{
			client: client, served: served,
			alpha3: newAlpha3(client), alpha2: alpha2, resolver: newResolver(served, alpha2),
		},
		oldPods: newOldPods(client.CoreV1(), client.Discovery(), served),
	}
}

// ResourceV1 implements kubernetes.Interface.
func (c *clientset) ResourceV1() resourceclient.ResourceV1Interface { return c.resources }

// IsAlpha reports whether the server's claims are in an alpha version, v1alpha2 or v1alpha3. Then the scheduler needs
// the rights of manifests/alpha-api.
func IsAlpha(client kubernetes.Interface) bool {
	served := Of(client)
	if served == nil {
		return false
	}
	version := served.Version(claimResource)
	return version == V1alpha2 || version == V1alpha3
}

// Of returns the versions of the server behind a client set. It is nil for client sets that are not from Connect or
// that Connect has returned unchanged: then v1 of everything.
func Of(client kubernetes.Interface) *Served {
	if c, ok := client.(*clientset); ok {
		return c.resources.served
	}
	return nil
}
