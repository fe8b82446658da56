package devicescmd

import (
	"context"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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

// slicesForCompletion is how many slices are asked for: each may have 128 devices.
const slicesForCompletion = 50

func (o *options) someSlices(ctx context.Context) []*resourceapi.ResourceSlice {
	objects, source := o.dumped(ctx)
	switch {
	case objects != nil:
		return objects.Slices
	case source != nil:
		some := someObjects
		some.Limit = slicesForCompletion
		if list, err := source.Client().ResourceV1().ResourceSlices().List(ctx, some); err == nil {
			all := make([]*resourceapi.ResourceSlice, len(list.Items))
			for i := range list.Items {
				all[i] = &list.Items[i]
			}
			return all
		}
	}
	return nil
}
