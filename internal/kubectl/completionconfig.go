package kubectl

import (
	"context"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/pager"
)

func (o *options) kubeconfig() clientcmdapi.Config {
	config, err := o.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return clientcmdapi.Config{}
	}
	return config
}

func (o *options) contextNames() []string { return slices.Sorted(maps.Keys(o.kubeconfig().Contexts)) }
func (o *options) clusterNames() []string { return slices.Sorted(maps.Keys(o.kubeconfig().Clusters)) }
func (o *options) userNames() []string    { return slices.Sorted(maps.Keys(o.kubeconfig().AuthInfos)) }

// slicesForCompletion bounds the slices of one request: each may have 128 devices.
const slicesForCompletion = 50

// eachSlice calls a function for each slice until it returns an error.
func (o *options) eachSlice(ctx context.Context, use func(*resourceapi.ResourceSlice) error) {
	objects, source := o.dumped(ctx)
	switch {
	case objects != nil:
		for _, slice := range objects.Slices {
			if use(slice) != nil {
				return
			}
		}
	case source != nil:
		pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
			return source.Client().ResourceV1().ResourceSlices().List(ctx, page)
		})
		_ = pages.EachListItem(ctx, metav1.ListOptions{Limit: slicesForCompletion}, func(item runtime.Object) error {
			if slice, is := item.(*resourceapi.ResourceSlice); is {
				return use(slice)
			}
			return nil
		})
	}
}
