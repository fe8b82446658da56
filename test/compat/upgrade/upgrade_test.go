package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// upgradePatience is how long the scheduler may take to notice an upgrade. While it is
// without any version, it looks once a minute.
const upgradePatience = 3 * time.Minute

// step is what the control plane is like for a while.
type step struct {
	name    string
	options controlplane.Options
	// claims are the versions of claims that may be in use then, nil for none.
	claims []api.Version
}

func steps(t *testing.T) []step {
	t.Helper()
	releases := strings.Fields(os.Getenv("QUARTERMASTER_COMPAT_UPGRADE"))
	if len(releases) == 0 {
		// 1.37 cannot stand for them: kube-apiserver does not get ready there without v1.
		t.Skip("this needs the control planes of older releases; run make test-compat")
	}
	var result []step
	for _, release := range releases {
		next, known := stepOf(t, release)
		if !known {
			continue // Only controllers of drivers can allocate claims there.
		}
		if len(result) == 0 && len(next.options.RuntimeConfig) > 0 { // Off by default.
			result = append(result, step{release + " without claims", controlplane.Options{Release: release}, nil})
		}
		result = append(result, next)
	}
	return append(result, step{current, controlplane.Options{}, []api.Version{api.V1}})
}

// current is the release that needs no binaries.
const current = "1.37"

// stepOf is a release with claims turned on, and nothing else that is off by default. It is not known
// of those in which schedulers do not allocate claims.
func stepOf(t *testing.T, release string) (_ step, known bool) {
	t.Helper()
	result := step{name: release, options: controlplane.Options{Release: release}}
	var apis []string
	switch minor := minorOf(t, release); {
	case minor < 30:
		return step{}, false
	case minor == 30:
		apis, result.claims = []string{"v1alpha2"}, []api.Version{api.V1alpha2}
	case minor == 31:
		apis, result.claims = []string{"v1alpha3"}, []api.Version{api.V1alpha3}
	case minor == 32:
		apis, result.claims = []string{"v1beta1"}, []api.Version{api.V1beta1}
	case minor == 33:
		// 1.33 needs v1beta1 itself, so that the scheduler may go on with that.
		apis, result.claims = []string{"v1beta1", "v1beta2"}, []api.Version{api.V1beta1, api.V1beta2}
	default:
		result.claims = []api.Version{api.V1}
		return result, true
	}
	result.options.FeatureGates = map[string]bool{"DynamicResourceAllocation": true}
	result.options.RuntimeConfig = make(map[string]bool)
	for _, version := range apis {
		result.options.RuntimeConfig["resource.k8s.io/"+version] = true
	}
	return result, true
}

func minorOf(t *testing.T, release string) uint {
	t.Helper()
	parsed, err := version.ParseGeneric(release)
	require.NoError(t, err)
	return parsed.Minor()
}

// One scheduler process lives through all upgrades.
func TestUpgradesUnderneath(t *testing.T) {
	dir := t.TempDir()
	var scheduler *harness.Scheduler
	var logs []string // The scheduler's is in the first folder.
	for i, step := range steps(t) {
		step.options.Dir = dir
		t.Run(step.name, func(t *testing.T) {
			cluster, err := harness.Start(t.Context(), harness.Options{Name: "upgrade", ControlPlane: step.options})
			require.NoError(t, err)
			logs = append(logs, cluster.Logs)
			t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
			if scheduler == nil {
				scheduler, err = cluster.StartScheduler(t.Context(), harness.SchedulerOptions{Name: "upgrade"})
				require.NoError(t, err, "a server without claims must not keep the scheduler from starting")
			}
			name := fmt.Sprintf("step-%d", i)
			if len(step.claims) == 0 {
				testWithoutClaims(t, cluster, scheduler, name)
			} else {
				testClaims(t, cluster, scheduler, name)
			}
			requireVersion(t, scheduler, step.claims)
			require.NoError(t, scheduler.Err(), "the scheduler has to live through all steps")
		})
		if t.Failed() {
			break
		}
	}
	if scheduler != nil {
		require.NoError(t, scheduler.Stop())
	}
	for _, folder := range logs {
		if t.Failed() {
			t.Log("logs are in", folder)
		} else {
			require.NoError(t, os.RemoveAll(folder))
		}
	}
}

// testWithoutClaims runs pods without claims.
func testWithoutClaims(t *testing.T, cluster *harness.Cluster, scheduler *harness.Scheduler, name string) {
	s := &harness.Space{T: t, Cluster: cluster, Name: name, Profile: scheduler.Profile, Log: scheduler.LogFile(), Patience: upgradePatience}
	s.CreateNamespace()
	s.AddNode(0, nil)
	s.Create(s.Pod("plain", nil))
	s.Running("plain")
}

// testClaims runs pods with claims, and looks at those of the steps before.
func testClaims(t *testing.T, cluster *harness.Cluster, scheduler *harness.Scheduler, name string) {
	s := cluster.NewSpace(t, name, scheduler.Profile, 1)
	s.Log, s.Patience = scheduler.LogFile(), upgradePatience
	s.Devices(0, harness.Numbered(3)...)
	s.ClaimAndPod("first", s.Want(2))
	s.Running("first")
	s.ClaimAndPod("second", s.Want(2))
	s.Waiting("second", "claim "+s.Name+"/second", "held by")
	s.DeletePod("first")
	s.RunningSoon("second")
	requireEarlierAllocations(s)
	if served := api.Of(cluster.Client); served != nil && served.Version("resourceclaims") == api.V1alpha2 {
		deleteAlpha2(s, "second")
		return
	}
	storeAnew(s)
}

// storeAnew writes everything as it is, so that the server stores it in its own version.
// Whoever upgrades has to have that done: 1.37 does not read what 1.31 has stored.
func storeAnew(s *harness.Space) {
	s.T.Helper()
	s.Eventually("store all objects anew", func(ctx context.Context) error {
		return errors.Join(
			rewrite(ctx, s.Cluster.Client.ResourceV1().DeviceClasses(), func(l *resourceapi.DeviceClassList) []resourceapi.DeviceClass { return l.Items }),
			rewrite(ctx, s.Cluster.Client.ResourceV1().ResourceSlices(), func(l *resourceapi.ResourceSliceList) []resourceapi.ResourceSlice { return l.Items }),
			rewriteClaims(ctx, s.Cluster.Client),
		)
	})
}

func rewriteClaims(ctx context.Context, client kubernetes.Interface) error {
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range namespaces.Items {
		claims := client.ResourceV1().ResourceClaims(namespaces.Items[i].Name)
		if err := rewrite(ctx, claims, func(l *resourceapi.ResourceClaimList) []resourceapi.ResourceClaim { return l.Items }); err != nil {
			return err
		}
	}
	return nil
}

// storage is a client for objects T in lists L.
type storage[T, L any] interface {
	List(context.Context, metav1.ListOptions) (*L, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
}

func rewrite[T, L any](ctx context.Context, client storage[T, L], items func(*L) []T) error {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	objects := items(list)
	for i := range objects {
		if _, err := client.Update(ctx, &objects[i], metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// requireEarlierAllocations checks that claims of earlier steps are as they were: each
// has left "second" running with two devices.
func requireEarlierAllocations(s *harness.Space) {
	s.T.Helper()
	s.Eventually("see the claims of earlier steps", func(ctx context.Context) error {
		pods, err := s.Cluster.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=second"})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			claim, err := s.Cluster.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, "second", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if pod.Spec.NodeName == "" || claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) != 2 {
				return fmt.Errorf("pod %s/second is on node %q, its claim has the status %+v", pod.Namespace, pod.Spec.NodeName, claim.Status)
			}
		}
		return nil
	})
}

// requireVersion checks what the scheduler has said last about versions.
func requireVersion(t *testing.T, scheduler *harness.Scheduler, claims []api.Version) {
	t.Helper()
	log, err := os.ReadFile(scheduler.LogFile())
	require.NoError(t, err)
	last := ""
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "version of the claim API that this scheduler knows") || strings.Contains(line, "Versions of the claim API in use") {
			last = line
		}
	}
	t.Log(last)
	if len(claims) == 0 {
		require.Contains(t, last, "has no version of the claim API")
		require.Contains(t, last, "runtime-config", "it has to say what to do")
		return
	}
	require.True(t, slices.ContainsFunc(claims, func(version api.Version) bool {
		return strings.Contains(last, fmt.Sprintf("resourceclaims %s,", version))
	}), "one of %v has to be in use", claims)
}
