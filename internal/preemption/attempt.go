package preemption

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
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
}

type attemptKey struct{}

// attemptIn returns the attempt in a context, nil if there is none.
func attemptIn(ctx context.Context) *attempt {
	found, _ := ctx.Value(attemptKey{}).(*attempt)
	return found
}

func (p *Preemption) newAttempt(state fwk.CycleState) *attempt {
	return &attempt{state: state, chosen: sync.OnceValue(p.chosen), onNode: make(map[string][]*v1.Pod)}
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
