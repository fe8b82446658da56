package compat

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	releaseVariable = "QUARTERMASTER_COMPAT_RELEASE"
	// defaultsVariable has features that the release has off by default stay off, if it is set.
	// That is for tests called TestOff.
	defaultsVariable = "QUARTERMASTER_COMPAT_DEFAULTS"
	// current is the name of the release that needs no binaries.
	current = "1.37"
)

// release is what a Kubernetes release has when everything that it knows is turned on.
type release struct {
	// claims is the version in which claims are to be used.
	claims api.Version
	// rules is the version of DeviceTaintRules, None if there is none.
	rules api.Version
	// classic says that controllers of drivers can allocate claims, onlyClassic that nobody
	// else can.
	classic, onlyClassic bool
	// gates and apis are those of the API server that are off by default, without which
	// there are no claims.
	gates, apis []string
	// moreGates and moreAPIs are off by default as well, each for a feature.
	moreGates, moreAPIs []string
}

var releases = map[string]release{
	"1.29.3": {
		claims: api.V1alpha2, rules: api.None, classic: true, onlyClassic: true,
		gates: []string{"DynamicResourceAllocation"},
		apis:  []string{"resource.k8s.io/v1alpha2"},
	},
	"1.30.4": {
		claims: api.V1alpha2, rules: api.None, classic: true,
		gates: []string{"DynamicResourceAllocation"},
		apis:  []string{"resource.k8s.io/v1alpha2"},
	},
	"1.31.4": {
		claims: api.V1alpha3, rules: api.None, classic: true,
		gates: []string{"DynamicResourceAllocation", "DRAControlPlaneController"},
		apis:  []string{"resource.k8s.io/v1alpha3"},
	},
	"1.32.2": {
		claims: api.V1beta1, rules: api.None,
		gates:     []string{"DynamicResourceAllocation"},
		apis:      []string{"resource.k8s.io/v1beta1"},
		moreGates: []string{"DRAAdminAccess", "DRAResourceClaimDeviceStatus"},
	},
	"1.33.13": {
		claims: api.V1beta2, rules: api.V1alpha3,
		gates:     []string{"DynamicResourceAllocation"},
		apis:      []string{"resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"},
		moreGates: []string{"DRAAdminAccess", "DRADeviceTaints", "DRAPartitionableDevices", "DRAPrioritizedList"},
		moreAPIs:  []string{"resource.k8s.io/v1alpha3"},
	},
	"1.34.4": {
		claims: api.V1, rules: api.V1alpha3,
		moreGates: []string{
			"DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaints", "DRAExtendedResource", "DRAPartitionableDevices",
		},
		moreAPIs: []string{"resource.k8s.io/v1alpha3"},
	},
	"1.35.4": {
		claims: api.V1, rules: api.V1alpha3,
		moreGates: []string{
			"DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaintRules", "DRADeviceTaints", "DRAExtendedResource",
			"DRAPartitionableDevices",
		},
		moreAPIs: []string{"resource.k8s.io/v1alpha3"},
	},
	"1.36.3": {
		claims: api.V1, rules: api.V1beta2,
		moreGates: []string{"DRADeviceTaintRules"},
		moreAPIs:  []string{"resource.k8s.io/v1beta2"},
	},
	current: {claims: api.V1, rules: api.V1},
}

// options are those of a control plane of the release. In one as it is by default, only
// what claims need is turned on.
func (r release) options(name string, byDefault bool) controlplane.Options {
	gates, apis := r.gates, r.apis
	if !byDefault {
		gates, apis = slices.Concat(gates, r.moreGates), slices.Concat(apis, r.moreAPIs)
	}
	o := controlplane.Options{FeatureGates: on(gates), RuntimeConfig: on(apis)}
	if name != current {
		o.Release = name
	}
	return o
}

func on(names []string) map[string]bool {
	values := make(map[string]bool, len(names))
	for _, name := range names {
		values[name] = true
	}
	return values
}

var (
	// cluster is what all tests share.
	cluster *harness.Cluster
	// tested is the release that the cluster has, minor its number behind the dot.
	tested release
	minor  uint
	// byDefault is true if features are off that are off by default.
	byDefault bool
)

func TestMain(m *testing.M) {
	name := os.Getenv(releaseVariable)
	if name == "" {
		name = current
	}
	var known bool
	if tested, known = releases[name]; !known {
		fmt.Fprintf(os.Stderr, "%s is %q; known are %s\n", releaseVariable, name, strings.Join(slices.Sorted(maps.Keys(releases)), ", "))
		os.Exit(1)
	}
	minor = version.MustParseGeneric(name).Minor()
	byDefault = os.Getenv(defaultsVariable) != ""
	os.Exit(harness.Main(m, harness.Options{Name: "compat-" + name, ControlPlane: tested.options(name, byDefault)},
		func(c *harness.Cluster) { cluster = c }, shared.Stop))
}

// The scheduler says which version it uses, and why.
func TestVersion(t *testing.T) {
	_, path := sharedScheduler(t)
	log, err := os.ReadFile(path)
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "Versions of the claim API in use") {
			lines = append(lines, line)
		}
	}
	require.Len(t, lines, 1, "there has to be one line about it")
	require.Contains(t, lines[0], fmt.Sprintf("resourceclaims %s,", tested.claims))
	require.Contains(t, lines[0], fmt.Sprintf("devicetaintrules %s,", tested.rules))
	if tested.claims != api.V1 {
		require.Contains(t, lines[0], "the API server has none that is newer")
	}
	server, err := cluster.Client.Discovery().ServerVersion()
	require.NoError(t, err)
	t.Logf("API server %s: %s", server.GitVersion, lines[0])
}
