package config

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// TestAllocatorFeatures: every single gate decides what it decides for the in-tree plugin.
func TestAllocatorFeatures(t *testing.T) {
	t.Parallel()
	require.Equal(t, structured.Features{}, AllocatorFeatures(feature.Features{}), "nothing is on by itself")
	var all feature.Features
	gates := reflect.ValueOf(&all).Elem()
	for i := range gates.NumField() {
		var one feature.Features
		reflect.ValueOf(&one).Elem().Field(i).SetBool(true)
		require.Equal(t, dynamicresources.AllocatorFeatures(one), AllocatorFeatures(one), gates.Type().Field(i).Name)
		gates.Field(i).SetBool(true)
	}
	require.Equal(t, dynamicresources.AllocatorFeatures(all), AllocatorFeatures(all))
}
