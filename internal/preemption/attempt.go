package preemption

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube/preemption"
)

// attempt caches results of one attempt to make room for a pod. It is safe for concurrent use.
type attempt struct {
	// state is the pod's cycle state, which upstream does not pass to PodEligibleToPreemptOthers.
	state fwk.CycleState
	// chosen is Preemption.chosen.
	chosen func() map[types.UID]string

	mutex sync.Mutex
	// onNode holds the victims that were selected, by the node that they make room on.
	onNode map[string][]*v1.Pod
	// possible holds all pods as victims, by their node. Those on other nodes are the same for each node that they would make room on.
	possible map[string][]*preemption.DomainVictim
}

type attemptKey struct{}

// attemptIn returns the attempt in a context, nil if there is none.
func attemptIn(ctx context.Context) *attempt {
	found, _ := ctx.Value(attemptKey{}).(*attempt)
	return found
}

func (p *Preemption) newAttempt(state fwk.CycleState) *attempt {
	return &attempt{state: state, chosen: sync.OnceValue(p.chosen), onNode: make(map[string][]*v1.Pod), possible: make(map[string][]*preemption.DomainVictim)}
}

func (a *attempt) set(node string, victims []*v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.onNode[node] = victims
}

func (a *attempt) victimsOn(node string) []*v1.Pod {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.onNode[node]
}

// victimsOnNode returns all pods of a node of the snapshot as victims.
func (p *Preemption) victimsOnNode(ctx context.Context, node fwk.NodeInfo) ([]*preemption.DomainVictim, error) {
	attempt, name := attemptIn(ctx), node.Node().Name
	if attempt == nil {
		return p.Evaluator.GetVictimsOnNode(ctx, node)
	}
	attempt.mutex.Lock()
	victims, found := attempt.possible[name]
	attempt.mutex.Unlock()
	if found {
		return victims, nil
	}
	victims, err := p.Evaluator.GetVictimsOnNode(ctx, node)
	if err != nil {
		return nil, err
	}
	attempt.mutex.Lock()
	defer attempt.mutex.Unlock()
	attempt.possible[name] = victims
	return victims, nil
}

// chosen returns the node of each pod in the snapshot, including pods that are assumed and not bound yet.
func (p *Preemption) chosen() map[types.UID]string {
	nodes, err := p.handle.MutableSnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil
	}
	chosen := make(map[types.UID]string)
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			chosen[info.GetPod().UID] = node.Node().Name
		}
	}
	return chosen
}
