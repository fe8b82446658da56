package preemption

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"
	"weak"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// question identifies what is asked about nodes. It is a digest, because users choose the lengths of expressions and
// names. The zero value means that nothing is cached.
type question [sha256.Size]byte

// A verdict says that a node would have the devices for a pod once pods of lower priority are gone.
type verdict struct {
	question question
	node     weak.Pointer[v1.Node]
	pools    []weak.Pointer[inventory.NodePool]
	// held are the cached pools, in the order of pools; nil for pools without used devices.
	held   []*heldPool
	reason string
}

// size returns the bytes that a verdict takes. It does not count the held pools, which all verdicts share.
func (v *verdict) size() int {
	return int(unsafe.Sizeof(*v)) + len(v.reason) + len(v.pools)*int(unsafe.Sizeof(v.pools[0])+unsafe.Sizeof(v.held[0]))
}

// isAbout reports whether the verdict was made for the same node and pools.
func (v *verdict) isAbout(site allocator.NodeView) bool {
	return v.node.Value() == site.Node && slices.EqualFunc(v.pools, site.Pools, func(known weak.Pointer[inventory.NodePool], pool *inventory.NodePool) bool {
		return known.Value() == pool
	})
}

const (
	// verdictsPerNode limits the questions cached for a node.
	verdictsPerNode = 4
	// verdictBytes limits the size of all verdicts: users choose the lengths of the names that reasons quote.
	verdictBytes = 16 << 20
)

// Ask enables the cache of verdicts for this attempt, shared by all pods of this priority with the same question. The
// task must cover all claims of the pod. Claims count as the same if their names in the pod spec and the names of their
// requests are the same, because reasons use these names.
func (s *Reclaimable) Ask(task *allocator.Task, claims ...*resourceapi.ResourceClaim) {
	key := task.AppendKey(binary.AppendVarint(nil, int64(s.priority)))
	for _, claim := range claims {
		key = append(append(key, '/'), dra.Of(claim)...)
		for i := range claim.Spec.Devices.Requests {
			key = appendNames(key, &claim.Spec.Devices.Requests[i])
		}
	}
	s.question = sha256.Sum256(key)
}

// appendNames appends the parts of a request that reasons may quote.
func appendNames(key []byte, request *resourceapi.DeviceRequest) []byte {
	key = append(append(key, '/'), request.Name...)
	for r := range dra.Alternatives(request) {
		key = append(append(key, '/'), r.Alternative...)
		key = append(append(key, '/'), r.Class...)
	}
	return key
}

// Known returns the cached verdict about a node, nil if there is none or if something has changed since.
func (s *Reclaimable) Known(site allocator.NodeView) *fwk.Status {
	known, found := s.holders.remembered.verdicts.Load(site.Node.Name)
	if !found || s.question == (question{}) {
		return nil
	}
	for _, v := range known.([]*verdict) {
		if v.question == s.question && v.isAbout(site) && s.stillHeld(v, site) {
			return kube.New(fwk.Unschedulable, v.reason)
		}
	}
	return nil
}

// stillHeld reports whether pods of lower priority hold the same devices as at the time of the verdict, and
// all others are free.
func (s *Reclaimable) stillHeld(v *verdict, site allocator.NodeView) bool {
	for i, pool := range site.Pools {
		if v.held[i] == unwanted {
			continue
		}
		if v.held[i] == nil {
			if ledger.Of(s.usage, pool).Len() > 0 {
				return false
			}
		} else if s.heldBelow(pool) != v.held[i] {
			return false
		}
	}
	return true
}

// isOf reports whether the usage of at least one pool is the same in the ledger as at the time of the verdict.
func (v *verdict) isOf(claims *ledger.Ledger) bool {
	for i := range v.pools {
		if pool := v.pools[i].Value(); pool != nil && v.held[i] != nil && v.held[i].isOf(ledger.Of(claims, pool)) {
			return true
		}
	}
	return false
}

// Reject returns the status of a node that lacks devices for the pod, for the given reason: Unschedulable if it would
// fit without pods of lower priority, else UnschedulableAndUnresolvable, because no eviction helps. awaitsRelease is
// set if the node would fit as soon as claims of pods that have ended are deallocated. wouldFit reports whether the
// node fits with a given usage, and whether that is certain. certain says whether the reason is. The reason counts the claims that hold
// wanted devices.
func (s *Reclaimable) Reject(ctx context.Context, site allocator.NodeView, reason string, certain bool, by Wanting,
	wouldFit func(ledger.View) (fits, certain bool)) (status *fwk.Status, awaitsRelease bool) {
	tally := s.In(site.Pools)
	if tally.Ending > 0 {
		if fits, _ := wouldFit(s.WithoutEnding); fits {
			return kube.New(fwk.UnschedulableAndUnresolvable, reason+"; waiting for claims of pods that have ended to be deallocated"), true
		}
	}
	if tally.Below > 0 {
		if fits, sure := wouldFit(s.WithoutLowerPriority); fits {
			reason = fmt.Sprintf("%s; devices are held by %s of lower-priority pods", reason, numberOfClaims(cmp.Or(len(s.inTheWay(ctx, site.Pools, "", by)), tally.Below)))
			if certain && sure {
				s.remember(ctx, site, reason, by)
			}
			return kube.New(fwk.Unschedulable, reason), false
		}
	}
	return kube.New(fwk.UnschedulableAndUnresolvable, reason), false
}

// unwanted stands for a pool that has no devices for the pod: whatever becomes of it, the verdict holds.
var unwanted = &heldPool{}

// remember caches a verdict, unless it depends on a pool that is not cached.
func (s *Reclaimable) remember(ctx context.Context, site allocator.NodeView, reason string, by Wanting) {
	if s.question == (question{}) {
		return
	}
	v := &verdict{question: s.question, node: weak.Make(site.Node), reason: reason}
	for _, pool := range site.Pools {
		held := s.heldBelow(pool)
		if held == nil && ledger.Of(s.usage, pool).Len() > 0 {
			if by.Interested(ctx, pool) {
				return
			}
			held = unwanted
		}
		v.pools, v.held = append(v.pools, weak.Make(pool)), append(v.held, held)
	}
	s.holders.remembered.add(site.Node.Name, v)
}

// add caches a verdict about a node as its latest one. If the size limit is exceeded, it clears the cache.
func (r *remembered) add(node string, v *verdict) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	known, _ := r.verdicts.Load(node)
	before, _ := known.([]*verdict)
	others := slices.DeleteFunc(slices.Clone(before), func(other *verdict) bool { return other.question == v.question })
	after := slices.Insert(others[:min(len(others), verdictsPerNode-1)], 0, v)
	if r.bytes += sizeOf(node, after) - sizeOf(node, before); r.bytes > verdictBytes {
		r.verdicts.Clear()
		r.bytes = 0
		return
	}
	r.verdicts.Store(node, after)
}

// forget drops the verdicts about a node.
func (r *remembered) forget(node string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known, found := r.verdicts.LoadAndDelete(node); found {
		r.bytes -= sizeOf(node, known.([]*verdict))
	}
}

// entrySize is the approximate size in bytes of a node's entry, besides its name and its verdicts.
const entrySize = 200

func sizeOf(node string, verdicts []*verdict) int {
	if len(verdicts) == 0 {
		return 0
	}
	size := entrySize + len(node)
	for _, v := range verdicts {
		size += v.size()
	}
	return size
}

// numberOfClaims returns a number of claims in words.
func numberOfClaims(n int) string {
	if n == 1 {
		return "1 claim"
	}
	return fmt.Sprintf("%d claims", n)
}
