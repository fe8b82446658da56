// Package manifests embeds the kustomize folders that install Quartermaster and
// renders them, so that tests and the demo run exactly what a user applies.
package manifests

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The overlays that Render knows, by the name of their folder.
const (
	// Secondary runs Quartermaster beside the default scheduler, for pods with
	// schedulerName "quartermaster".
	Secondary = "secondary"
	// ReplaceDefault runs Quartermaster in the default scheduler's place.
	ReplaceDefault = "replace-default"
	// AlphaAPI is no way of running Quartermaster but an addition to both: rights for
	// clusters that have claims in no version but v1alpha2 or v1alpha3.
	AlphaAPI = "alpha-api"
	// Guard runs the guard, with or without our scheduler.
	Guard = "guard"
	// GuardCertManager is Guard with a certificate by cert-manager.
	GuardCertManager = "guard-cert-manager"
	// GuardRestricted is Guard for API servers that have a certificate and a known address.
	GuardRestricted = "guard-restricted"
	// GuardInScheduler is Secondary with the guard in the scheduler.
	GuardInScheduler = "guard-in-scheduler"
	// PodGroups is an addition to Secondary and ReplaceDefault: PodGroups of scheduler-plugins, with their
	// CustomResourceDefinition.
	PodGroups = "pod-groups"
	// DeviceBookings is an addition to Secondary and ReplaceDefault: DeviceBookings, with their CustomResourceDefinition.
	DeviceBookings = "device-bookings"
	// GangScheduling is Secondary with plugin QuartermasterGangs.
	GangScheduling = "gang-scheduling"
	// Monitoring is an addition to Secondary and ReplaceDefault, for clusters with the Prometheus operator.
	Monitoring = "monitoring"
	// FinalizerAtCreation is an addition to all: claims get their finalizer when they are created (Kubernetes 1.36 and later).
	FinalizerAtCreation = "finalizer-at-creation"
)

// What the manifests create, for callers that look it up in a cluster.
const (
	// Namespace holds everything that is namespaced.
	Namespace = "kube-system"
	// Name is the name of the ServiceAccount, the ClusterRole and the Deployment.
	Name = "quartermaster"
	// ConfigKey is the key of the scheduler configuration in its ConfigMap, and
	// the name of the file that the container reads.
	ConfigKey = "scheduler-config.yaml"
)

//go:embed base secondary replace-default alpha-api guard guard-cert-manager guard-restricted guard-in-scheduler pod-groups device-bookings gang-scheduling monitoring finalizer-at-creation
var folders embed.FS

// Overlays returns the names of all overlays that run Quartermaster.
func Overlays() []string { return []string{Secondary, ReplaceDefault} }

// Render builds one overlay, as `kubectl kustomize manifests/<overlay>` does. It
// needs neither files nor a cluster.
func Render(overlay string) ([]*unstructured.Unstructured, error) {
	if known := append(Overlays(), AlphaAPI, Guard, GuardCertManager, GuardRestricted, GuardInScheduler, PodGroups, DeviceBookings, GangScheduling, Monitoring, FinalizerAtCreation); !slices.Contains(known, overlay) {
		return nil, fmt.Errorf("render manifests: there is no overlay %q; use one of %s", overlay, strings.Join(known, ", "))
	}
	inMemory, err := copyToMemory(folders)
	if err != nil {
		return nil, fmt.Errorf("render manifests of overlay %q: %w", overlay, err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(inMemory, overlay)
	if err != nil {
		return nil, fmt.Errorf("render manifests of overlay %q: %w", overlay, err)
	}
	return toUnstructured(resources)
}

// SchedulerConfig returns the KubeSchedulerConfiguration (YAML) that the overlay
// ships in its ConfigMap.
func SchedulerConfig(overlay string) ([]byte, error) {
	objects, err := Render(overlay)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetKind() != "ConfigMap" {
			continue
		}
		config, found, err := unstructured.NestedString(object.Object, "data", ConfigKey)
		if err != nil {
			return nil, fmt.Errorf("read %s of ConfigMap %s in overlay %q: %w", ConfigKey, object.GetName(), overlay, err)
		}
		if found {
			return []byte(config), nil
		}
	}
	return nil, fmt.Errorf("read the scheduler configuration of overlay %q: none of its %d objects is a ConfigMap with the key %s; check the configMapGenerator in its kustomization", overlay, len(objects), ConfigKey)
}

// copyToMemory returns the embedded files as the kind of file system that
// kustomize reads.
func copyToMemory(source fs.FS) (filesys.FileSystem, error) {
	target := filesys.MakeFsInMemory()
	err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		return target.WriteFile(path, content)
	})
	return target, err
}

func toUnstructured(resources resmap.ResMap) ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, 0, resources.Size())
	for _, resource := range resources.Resources() {
		// Through JSON, so that numbers have the types that unstructured
		// content must have.
		encoded, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", resource.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(encoded); err != nil {
			return nil, fmt.Errorf("decode %s: %w", resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
