package preemption

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"
	"weak"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/internal/podstatus"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// question tells apart what is asked about nodes: a digest, because users choose how long expressions and names are. It is the zero
// value if nothing is to be remembered.
type question [sha256.Size]byte

// verdict is that a node would have the devices for a pod without pods of lower priority.
type verdict struct {
	question question
	node     weak.Pointer[v1.Node]
	pools    []weak.Pointer[inventory.NodePool]
	// held are these pools, nil for those of which nothing is in use.
	held   []*heldPool
	reason string
}

// size is how many bytes a verdict takes, without the pools, which remembered has once for all verdicts.
func (v *verdict) size() int {
	return int(unsafe.Sizeof(*v)) + len(v.reason) + len(v.pools)*int(unsafe.Sizeof(v.pools[0])+unsafe.Sizeof(v.held[0]))
}

// isAbout reports whether the node and what it sees are those of the verdict.
func (v *verdict) isAbout(site allocator.Site) bool {
	return v.node.Value() == site.Node && slices.EqualFunc(v.pools, site.Pools, func(known weak.Pointer[inventory.NodePool], pool *inventory.NodePool) bool {
		return known.Value() == pool
	})
}

const (
	// verdictsPerNode is how many questions are remembered for a node.
	verdictsPerNode = 4
	// verdictBytes is what all verdicts take: users choose how long the names are that reasons quote.
	verdictBytes = 16 << 20
)

// Ask has verdicts about nodes remembered for all that ask for the same, in the eyes of pods of this priority. The task has
// to be for all claims of the pod. Claims of the same name in their pods, with requests of the same names, are taken to be the same:
// that is how reasons call them.
func (s *Standing) Ask(task *allocator.Task, claims ...*resourceapi.ResourceClaim) {
	key := task.AppendKey(binary.AppendVarint(nil, int64(s.priority)))
	for _, claim := range claims {
		key = append(append(key, '/'), claimname.Of(claim)...)
		for i := range claim.Spec.Devices.Requests {
			key = appendNames(key, &claim.Spec.Devices.Requests[i])
		}
	}
	s.question = sha256.Sum256(key)
}

// appendNames appends what reasons may quote of a request.
func appendNames(key []byte, request *resourceapi.DeviceRequest) []byte {
	key = append(append(key, '/'), request.Name...)
	if request.Exactly != nil {
		key = append(append(key, '/'), request.Exactly.DeviceClassName...)
	}
	for i := range request.FirstAvailable {
		key = append(append(key, '/'), request.FirstAvailable[i].Name...)
		key = append(append(key, '/'), request.FirstAvailable[i].DeviceClassName...)
	}
	return key
}

// Known returns the verdict about a node if it was found out before and nothing has changed since, else nil.
func (s *Standing) Known(site allocator.Site) *fwk.Status {
	known, found := s.holders.remembered.verdicts.Load(site.Node.Name)
	if !found || s.question == (question{}) {
		return nil
	}
	for _, v := range known.([]*verdict) {
		if v.question == s.question && v.isAbout(site) && s.stillHeld(v, site) {
			return podstatus.New(fwk.Unschedulable, v.reason)
		}
	}
	return nil
}

// stillHeld reports whether pods of lower priority hold what they held then, and nobody holds anything else.
func (s *Standing) stillHeld(v *verdict, site allocator.Site) bool {
	for i, pool := range site.Pools {
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

// isOf reports whether the ledger still has what it had then of some pool.
func (v *verdict) isOf(claims *ledger.Ledger) bool {
	for i := range v.pools {
		if pool := v.pools[i].Value(); pool != nil && v.held[i] != nil && v.held[i].isOf(ledger.Of(claims, pool)) {
			return true
		}
	}
	return false
}

// Reject is the status of a node that has no devices for the pod, for some reason: Unschedulable if it would have them
// without pods of lower priority, else UnschedulableAndUnresolvable, because no eviction helps. It also reports whether
// it would have them as soon as claims of pods that have ended are deallocated. wouldFit says whether the node has devices if
// what is in use is as in a view, and whether that is certain; certain whether the reason is.
func (s *Standing) Reject(site allocator.Site, reason string, certain bool, wouldFit func(ledger.View) (fits, certain bool)) (status *fwk.Status, awaitsRelease bool) {
	tally := s.In(site.Pools)
	if tally.Ending > 0 {
		if fits, _ := wouldFit(s.WithoutEnding); fits {
			return podstatus.New(fwk.UnschedulableAndUnresolvable, reason+"; waiting for claims of pods that have ended to be deallocated"), true
		}
	}
	if tally.Below > 0 {
		if fits, sure := wouldFit(s.WithoutBelow); fits {
			reason = fmt.Sprintf("%s; devices are held by %s of lower-priority pods", reason, claims(tally.Below))
			if certain && sure {
				s.remember(site, reason)
			}
			return podstatus.New(fwk.Unschedulable, reason), false
		}
	}
	return podstatus.New(fwk.UnschedulableAndUnresolvable, reason), false
}

// remember has a verdict remembered, unless it may change without a change of what it rests on.
func (s *Standing) remember(site allocator.Site, reason string) {
	if s.question == (question{}) {
		return
	}
	v := &verdict{question: s.question, node: weak.Make(site.Node), reason: reason}
	for _, pool := range site.Pools {
		held := s.heldBelow(pool)
		if held == nil && ledger.Of(s.usage, pool).Len() > 0 {
			return
		}
		v.pools, v.held = append(v.pools, weak.Make(pool)), append(v.held, held)
	}
	s.holders.remembered.add(site.Node.Name, v)
}

// add remembers a verdict about a node as the latest one. If all take too much then, it begins anew.
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

// entrySize is what a node takes besides its name and its verdicts.
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

// claims is a number of claims in words.
func claims(n int) string {
	if n == 1 {
		return "1 claim"
	}
	return fmt.Sprintf("%d claims", n)
}
