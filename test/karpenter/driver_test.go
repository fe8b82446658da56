package karpenter

import (
	"context"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// drive publishes the devices of all nodes of the space until the end of the test, as a driver does.
func (s *space) drive() {
	s.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactoryWithOptions(cluster.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = fleet.NodePoolLabel + "=" + s.Name
	}))
	_, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(node any) {
		err := harness.Poll(ctx, harness.Patience, func(ctx context.Context) error { return s.publish(ctx, node.(*corev1.Node)) })
		if err != nil && ctx.Err() == nil {
			s.T.Errorf("publish the devices of a node: %v", err)
		}
	}})
	require.NoError(s.T, err)
	factory.StartWithContext(ctx)
	s.T.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
}

// publish publishes the devices of a node, which go with the node.
func (s *space) publish(ctx context.Context, node *corev1.Node) error {
	has := devices(node.Labels[corev1.LabelInstanceTypeStable])
	if len(has) == 0 {
		return nil
	}
	slice := builder.Unsaved("", builder.NodeSlice(node.Name, has...).OfDriver(s.Driver).Obj())
	slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	_, err := cluster.Client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
