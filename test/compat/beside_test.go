package compat

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// An unchanged kube-scheduler of the release and one of ours hand out the same devices, to as many pods
// as there are, all created at once. With and without a guard all pods are bound, and no device is
// allocated twice: without, ours waits for what the other one writes, looks, and yields. These tests run alone:
// nobody else can allocate while there is no guard.
func TestBesideKubeScheduler(t *testing.T) {
	onlyStructured(t)
	t.Run("unguarded", testBesideKubeScheduler)
	t.Run("guarded", func(t *testing.T) {
		cluster.UseGuard(t, "guard-beside")
		testBesideKubeScheduler(t)
	})
}

func testBesideKubeScheduler(t *testing.T) {
	const (
		nodes, devicesPerNode, waves = 4, 8, 2
		pods                         = nodes * devicesPerNode
		requestsPerSecond            = 200
	)
	s := cluster.NewSpace(t, "beside-stock", "", nodes)
	for node := range nodes {
		s.Devices(node, harness.Numbered(devicesPerNode)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	ours := s.StartScheduler(harness.SchedulerOptions{})
	s.Log = ours.LogFile()
	profiles := []string{s.Profile, s.Name + "-stock"}
	stock, err := cluster.StartStockSchedulerFor(t.Context(), profiles[1], profiles[1], requestsPerSecond)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, stock.Err(), "the stock scheduler ended although nobody asked it to")
		require.NoError(t, stock.Stop())
	})
	for wave := range waves {
		var names []string
		for i := range pods {
			s.Profile = profiles[i%len(profiles)]
			names = append(names, fmt.Sprintf("user-%d-%02d", wave, i))
			s.Create(s.Pod(names[i], builder.FromTemplate("one")))
		}
		// As many pods as devices: who is told that a device has another holder has to find the one
		// that is left.
		s.Running(names...)
		requireOneHolderEach(s, pods)
		for _, name := range names {
			s.DeletePod(name)
		}
		for _, name := range names {
			s.Gone(name)
		}
	}
}

// requireOneHolderEach looks on the server whether so many claims have a device each that no other claim has.
func requireOneHolderEach(s *harness.Space, count int) {
	s.T.Helper()
	claims, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).List(s.T.Context(), metav1.ListOptions{})
	require.NoError(s.T, err)
	holders := make(map[string]string)
	for i := range claims.Items {
		claim := &claims.Items[i]
		require.NotNil(s.T, claim.Status.Allocation, "claim %s", claim.Name)
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := result.Pool + "/" + result.Device
			require.Empty(s.T, holders[device], "device %s is allocated to claim %s as well", device, claim.Name)
			holders[device] = claim.Name
		}
	}
	require.Len(s.T, holders, count)
}
