package preemption

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unique"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// question tells apart what is asked about nodes. It is the zero value if nothing is to be remembered.
type question unique.Handle[string]

// verdict is that a node would have the devices for a pod without pods of lower priority.
type verdict struct {
	question question
	node     *v1.Node
	pools    []*inventory.NodePool
	// held are these pools, nil for those of which nothing is in use.
	held   []*heldPool
	reason string
}

// verdictsPerNode is how many questions are remembered for a node.
const verdictsPerNode = 4

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
	s.question = question(unique.Make(string(key)))
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
		if v.question == s.question && v.node == site.Node && slices.Equal(v.pools, site.Pools) && s.stillHeld(v) {
			return fwk.NewStatus(fwk.Unschedulable, v.reason)
		}
	}
	return nil
}

// stillHeld reports whether pods of lower priority hold what they held then, and nobody holds anything else.
func (s *Standing) stillHeld(v *verdict) bool {
	for i, pool := range v.pools {
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
	for i, pool := range v.pools {
		if v.held[i] != nil && ledger.Of(claims, pool) == v.held[i].usage {
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
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason+"; waiting for claims of pods that have ended to be deallocated"), true
		}
	}
	if tally.Below > 0 {
		if fits, sure := wouldFit(s.WithoutBelow); fits {
			reason = fmt.Sprintf("%s; devices are held by %s of lower-priority pods", reason, claims(tally.Below))
			if certain && sure {
				s.remember(site, reason)
			}
			return fwk.NewStatus(fwk.Unschedulable, reason), false
		}
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason), false
}

// remember has a verdict remembered, unless it may change without a change of what it rests on.
func (s *Standing) remember(site allocator.Site, reason string) {
	if s.question == (question{}) {
		return
	}
	v := &verdict{question: s.question, node: site.Node, pools: site.Pools, reason: reason}
	for _, pool := range site.Pools {
		held := s.heldBelow(pool)
		if held == nil && ledger.Of(s.usage, pool).Len() > 0 {
			return
		}
		v.held = append(v.held, held)
	}
	known, _ := s.holders.remembered.verdicts.Load(site.Node.Name)
	others, _ := known.([]*verdict)
	others = slices.DeleteFunc(slices.Clone(others), func(other *verdict) bool { return other.question == v.question })
	s.holders.remembered.verdicts.Store(site.Node.Name, slices.Insert(others[:min(len(others), verdictsPerNode-1)], 0, v))
}

// claims is a number of claims in words.
func claims(n int) string {
	if n == 1 {
		return "1 claim"
	}
	return fmt.Sprintf("%d claims", n)
}
