package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/checker"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// An unchanged kube-scheduler of the release and one of ours hand out the same devices, to as many pods
// as there are, all created one after the other. All pods are bound. With a guard no device is allocated twice. Without,
// ours waits for what the other one writes, looks, and yields: no claim of ours has a device that another claim has. These
// tests run alone: nobody else can allocate while there is no guard.
func TestBesideKubeScheduler(t *testing.T) {
	onlyStructured(t)
	t.Run("unguarded", func(t *testing.T) {
		b := newBeside(t, "unguarded")
		b.play(b.oursShareNothing)
	})
	t.Run("guarded", func(t *testing.T) {
		cluster.UseGuard(t, "guard-beside")
		b := newBeside(t, "guarded")
		b.play(func() { require.Empty(t, b.shared()) })
	})
}

// beside are the pods of both schedulers and their devices.
type beside struct {
	*harness.Space
	held     *harness.Holders
	profiles []string // ours, the other one's
	wave     int
	names    []string // of the wave's pods: SIDE-WAVE-NUMBER
}

// besideSides are the schedulers in the names of their pods, and of the claims of these.
var besideSides = []string{"ours", "other"}

const besideNodes, besideDevices = 4, 8

func newBeside(t *testing.T, name string) *beside {
	t.Helper()
	const requestsPerSecond = 200
	b := &beside{Space: cluster.NewSpace(t, "stock-"+name, "", besideNodes)}
	for node := range besideNodes {
		b.Devices(node, harness.Numbered(besideDevices)...)
	}
	b.Create(builder.Claim("one", b.Want(1)).Template())
	b.held = harness.WatchHolders(b.Space)
	ours := b.StartScheduler(harness.SchedulerOptions{})
	b.Log = ours.LogFile()
	b.profiles = []string{b.Profile, b.Name + "-stock"}
	stock, err := cluster.StartStockSchedulerFor(t.Context(), b.profiles[1], b.profiles[1], requestsPerSecond)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, stock.Err(), "the stock scheduler ended although nobody asked it to")
		require.NoError(t, stock.Stop())
	})
	return b
}

// play has two waves of pods come and go, and looks while all of one run.
func (b *beside) play(look func()) {
	b.T.Helper()
	const pods = besideNodes * besideDevices
	for b.wave = range 2 {
		b.names = nil
		for i := range pods {
			side := i % len(b.profiles)
			b.Profile = b.profiles[side]
			b.names = append(b.names, fmt.Sprintf("%s-%d-%02d", besideSides[side], b.wave, i))
			b.Create(b.Pod(b.names[i], builder.FromTemplate("one")))
		}
		// As many pods as devices: who is told that a device has another holder has to find the one
		// that is left.
		b.Running(b.names...)
		look()
		for _, name := range b.names {
			b.DeletePod(name)
		}
		for _, name := range b.names {
			b.Gone(name)
		}
	}
}

// shared returns the claims of each device (pool/device) that more than one has, as the server knows them. All claims
// have to have one device each.
func (b *beside) shared() map[string][]string {
	b.T.Helper()
	claims, err := b.Cluster.Client.ResourceV1().ResourceClaims(b.Name).List(b.T.Context(), metav1.ListOptions{})
	require.NoError(b.T, err)
	require.Len(b.T, claims.Items, len(b.names))
	holders := make(map[string][]string)
	for i := range claims.Items {
		claim := &claims.Items[i]
		results := checker.Results(claim)
		require.Len(b.T, results, 1, "claim %s", claim.Name)
		device := results[0].Pool + "/" + results[0].Device
		holders[device] = append(holders[device], claim.Name)
	}
	maps.DeleteFunc(holders, func(_ string, claims []string) bool { return len(claims) == 1 })
	return holders
}

// oursShareNothing looks whether only claims of the other scheduler have a device twice, and only one that ours has released
// because of a conflict: that scheduler keeps the devices in use as a set, and takes such a device for free
// (docs/design/commit-protocol.md).
func (b *beside) oursShareNothing() {
	b.T.Helper()
	isOurs := func(claim string) bool {
		return strings.HasPrefix(claim, fmt.Sprintf("%s-%d-", besideSides[0], b.wave))
	}
	for device, claims := range b.shared() {
		b.T.Logf("claims %v of the other scheduler have device %s; before: %v", claims, device, b.held.Had(device))
		require.False(b.T, slices.ContainsFunc(claims, isOurs), "claims %v, one of them of ours, have device %s", claims, device)
		require.True(b.T, slices.ContainsFunc(b.held.Had(device), isOurs), "ours had no part in it that claims %v have device %s", claims, device)
	}
}
