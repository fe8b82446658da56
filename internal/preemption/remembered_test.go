package preemption

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unique"
	"weak"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// cluster has two pools in which claims and pods come, change and go.
type cluster struct {
	t       *testing.T
	rng     *rand.Rand
	ledger  *ledger.Ledger
	pods    cache.Indexer
	version int
	pools   []*inventory.NodePool
	node    *v1.Node
	// usual caches across looks, and known counts the cached verdicts that it used.
	usual *Holders
	known int
}

const claimsInCluster, podsInCluster = 5, 6

func newCluster(t *testing.T, seed int64) *cluster {
	t.Helper()
	c := &cluster{t: t, rng: rand.New(rand.NewSource(seed)), ledger: ledger.New(), pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), node: builder.Node("n1")}
	for _, name := range []string{"n1", "n2"} {
		id := inventory.PoolID{Driver: builder.Driver, Name: name}
		c.pools = append(c.pools, &inventory.NodePool{ID: id, Key: unique.Make(id)})
	}
	c.usual = c.holders()
	return c
}

// holders returns Holders with empty caches.
func (c *cluster) holders() *Holders {
	return &Holders{
		Ledger: c.ledger, Claims: &podclaims.Claims{Pods: c.pods}, Profiles: c,
	}
}

func (c *cluster) Trying(uid types.UID) *v1.Pod { return c.pod(string(uid)) }

// Binding implements Profiles.
func (c *cluster) Binding(types.UID) *v1.Pod { return nil }

func (c *cluster) Schedules(string) bool { return true }

func (c *cluster) pod(name string) *v1.Pod {
	return (&podclaims.Claims{Pods: c.pods}).Pod(builder.Namespace, name)
}

// claim is one of the claims, which always holds the same devices.
func (c *cluster) claim() *resourceapi.ResourceClaim {
	i := c.rng.Intn(claimsInCluster)
	device := "gpu-" + strconv.Itoa(i)
	claim := builder.Claim("claim-"+strconv.Itoa(i)).Allocated(c.pools[i%2].ID.Name, device, device+"b")
	if i == 4 {
		claim.Status.Allocation.Devices.Results[1].Pool = c.pools[1].ID.Name
	}
	claim.UID = types.UID(claim.Name)
	return claim
}

func (c *cluster) podName() string { return "pod-" + strconv.Itoa(c.rng.Intn(podsInCluster)) }

// step makes one random change, with the events of informers and attempts.
func (c *cluster) step() {
	switch claim := c.claim(); c.rng.Intn(12) {
	case 0, 1, 2, 3, 4:
		c.observe(claim)
	case 5:
		_ = c.ledger.AddInFlight(ledger.RefTo(claim), types.UID(c.podName()), claim.Status.Allocation) // It may be held.
	case 6, 7:
		c.ledger.RemoveInFlight(claim.UID, types.UID(c.podName()))
	default:
		c.changePod(c.podName())
	}
}

// observe reports the server's state of a claim.
func (c *cluster) observe(claim *resourceapi.ResourceClaim) {
	c.version++
	claim.ResourceVersion = strconv.Itoa(c.version)
	if c.rng.Intn(5) == 0 {
		claim.Status.Allocation = nil
	}
	for range 1 + c.rng.Intn(2) {
		name := c.podName()
		if c.rng.Intn(4) > 0 && c.pod(name) == nil {
			continue
		}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)})
	}
	c.ledger.Refresh(claim.Namespace+"/"+claim.Name, func() *resourceapi.ResourceClaim { return claim })
}

// changePod creates, binds, ends or deletes a pod.
func (c *cluster) changePod(name string) {
	before := c.pod(name)
	var after *v1.Pod
	switch {
	case before == nil:
		after = named(name)
		after.Spec.Priority = new([]int32{0, 5, 20}[c.rng.Intn(3)])
		if c.rng.Intn(12) == 0 {
			builder.InGroup("g")(after)
		}
		after.Spec.NodeName = []string{"", "n1", "n1", "n2"}[c.rng.Intn(4)]
	case c.rng.Intn(3) > 0:
		after = before.DeepCopy()
		switch {
		case after.Spec.NodeName == "":
			after.Spec.NodeName = "n2"
		case after.DeletionTimestamp == nil:
			after.DeletionTimestamp = &metav1.Time{}
		default:
			after.Status.Phase = v1.PodFailed
		}
	}
	if after != nil {
		require.NoError(c.t, c.pods.Add(after))
	} else {
		require.NoError(c.t, c.pods.Delete(before))
	}
	PodChanged(c.ledger, before, after)
}

// look returns all results of a Reclaimable, for a pod of some priority with some claims.
func (c *cluster) look(holders *Holders, priority int32, own ...types.UID) []string {
	s := NewReclaimable(holders, c.ledger, priority, own...)
	var said []string
	for _, pool := range c.pools {
		tally := s.In([]*inventory.NodePool{pool})
		said = append(said, fmt.Sprintf("%s: %d below, %d ending, apart from these %v and %v", pool.ID.Name, tally.Below, tally.Ending,
			used(s.WithoutLowerPriority, pool), used(s.WithoutEnding, pool)))
	}
	wanted := []*wanting{{pools: c.pools}, {pools: c.pools, names: []string{"gpu-0"}}, {pools: c.pools[1:]}}[c.version%3]
	anywhere := s.Elsewhere(c.t.Context(), c.pools, "", wanted)
	for _, pod := range anywhere {
		said = append(said, "has a wanted device: "+pod.Name)
	}
	for _, pod := range s.Elsewhere(c.t.Context(), c.pools, "n1", wanted) {
		require.True(c.t, slices.Contains(anywhere, pod), "pod %s", pod.Name)
		said = append(said, "elsewhere "+pod.Name)
	}
	if len(own) == 0 {
		said = append(said, c.verdict(s).Message())
	}
	return said
}

// verdict returns the verdict about a pod that fits while at most two devices are in use, on a node that reaches one
// pool or both. In half of the cases the pod wants devices of the first pool only.
func (c *cluster) verdict(s *Reclaimable) *fwk.Status {
	site := allocator.NodeView{Node: c.node, Pools: c.pools[:1+c.version%3/2]}
	counted := c.pools[:2-c.version%4/2]
	s.question = sha256.Sum256([]byte(fmt.Sprint(s.priority, len(counted))))
	if known := s.Known(site); known != nil {
		c.known++
		return known
	}
	count := func(view ledger.View) (n int) {
		for _, pool := range site.Pools {
			if slices.Contains(counted, pool) {
				n += len(used(view, pool))
			}
		}
		return n
	}
	reason := fmt.Sprintf("%d are in use in the eyes of priority %d", count(c.ledger), s.priority)
	status, _ := s.Reject(c.t.Context(), site, reason, true, &wanting{pools: counted}, func(view ledger.View) (bool, bool) { return count(view) <= 2, true })
	return status
}

func used(view ledger.View, pool *inventory.NodePool) (devices []string) {
	for name := range ledger.Of(view, pool).All() {
		devices = append(devices, name)
	}
	slices.Sort(devices)
	return devices
}

// TestRememberedAsFoundAnew: after random changes, cached results equal newly computed ones.
func TestRememberedAsFoundAnew(t *testing.T) {
	t.Parallel()
	remembered, known := 0, 0
	for seed := range int64(80) {
		c := newCluster(t, seed)
		for step := range 80 {
			c.step()
			for _, priority := range []int32{10, 30} {
				for _, own := range [][]types.UID{nil, {"claim-0"}} {
					require.Equal(t, c.look(c.holders(), priority, own...), c.look(c.usual, priority, own...), "seed %d, step %d, priority %d, own %v", seed, step, priority, own)
				}
			}
			for _, pool := range c.pools {
				if c.usual.heldPool(pool) != nil {
					remembered++
				}
			}
		}
		known += c.known
	}
	require.Greater(t, known, 100, "verdicts of which it was known")
	require.Greater(t, remembered, 300, "pools of which anything is remembered")
}

// TestForgotten: pools of deleted nodes leave nothing in the cache.
func TestForgotten(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	for i := range sweepAfter {
		c.usual.remember(&inventory.NodePool{Key: unique.Make(inventory.PoolID{Name: strconv.Itoa(i)})}, &heldPool{usage: weak.Make(ledger.NewPoolUsage(nil))})
	}
	c.usual.remembered.pools.Range(func(key, _ any) bool {
		require.Fail(t, "remembered", "%v", key)
		return true
	})
}

// TestVerdictsHaveABound: the cache stays bounded with long reasons, and with many nodes and questions.
func TestVerdictsHaveABound(t *testing.T) {
	// Not in parallel with others: it looks at the heap.
	var r remembered
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 20_000 {
		node := &v1.Node{}
		r.add(fmt.Sprint("node-", i%3000), &verdict{
			question: sha256.Sum256([]byte(strconv.Itoa(i % 17))), node: weak.Make(node), reason: strings.Repeat("x", i%5000),
			pools: make([]weak.Pointer[inventory.NodePool], 8), held: make([]*heldPool, 8),
		})
		require.LessOrEqual(t, r.bytes, verdictBytes)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(verdictBytes*5/4))
	counted := 0
	r.verdicts.Range(func(node, known any) bool {
		counted += sizeOf(node.(string), known.([]*verdict))
		return true
	})
	require.Equal(t, counted, r.bytes)
	r.verdicts.Range(func(node, _ any) bool {
		r.forget(node.(string))
		return true
	})
	require.Zero(t, r.bytes)
	runtime.KeepAlive(&r)
}

// TestNothingIsKeptOfPoolUsage: the cache keeps no usage that the ledger has replaced.
func TestNothingIsKeptOfPoolUsage(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	usage := ledger.NewPoolUsage(nil)
	gone := make(chan bool, 1)
	runtime.AddCleanup(usage, func(gone chan bool) { gone <- true }, gone)
	pool := &inventory.NodePool{Key: unique.Make(inventory.PoolID{Name: "gone"})}
	c.usual.remember(pool, &heldPool{usage: weak.Make(usage)})
	usage = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(gone) > 0
	}, 3*time.Minute, time.Millisecond, "what the ledger does not have any more is not kept")
	require.Nil(t, c.usual.heldPool(pool))
	runtime.KeepAlive(c)
}

// wanting is a pod that wants devices of some pools, all of them if none are named.
type wanting struct {
	pools []*inventory.NodePool
	names []string
}

// Interested implements Wanting.
func (w *wanting) Interested(_ context.Context, pool *inventory.NodePool, devices ...string) bool {
	return slices.Contains(w.pools, pool) && (len(w.names) == 0 || len(devices) == 0 ||
		slices.ContainsFunc(devices, func(device string) bool { return slices.Contains(w.names, device) }))
}
