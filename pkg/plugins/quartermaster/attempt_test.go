package quartermaster

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// attempt is one attempt to schedule a pod. Its methods are the phases in the
// order in which the scheduler runs them; a test can stop after any of them.
type attempt struct {
	f     *fixture
	pod   *v1.Pod
	state fwk.CycleState
	// skipped: PreFilter said that the plugin has nothing to do.
	skipped bool
	// feasible nodes in the order of names, and for the others the reason.
	feasible []string
	reasons  map[string]string
}

// outcome is the result of an attempt.
type outcome struct {
	// phase is the failed phase, "" if the pod could be bound.
	phase  string
	node   string
	status *fwk.Status
	// reasons of nodes that did not fit.
	reasons map[string]string
}

func (o outcome) text() string { return o.status.Message() }

// schedule runs a whole attempt.
func (f *fixture) schedule(pod *v1.Pod) outcome {
	if status := f.pl.PreEnqueue(f.ctx, pod); !status.IsSuccess() {
		return outcome{phase: "PreEnqueue", status: status}
	}
	a, status := f.begin(pod)
	if !status.IsSuccess() {
		return outcome{phase: "PreFilter", status: status}
	}
	a.filter()
	if len(a.feasible) == 0 {
		_, status := f.pl.PostFilter(f.ctx, a.state, pod, nil)
		return outcome{phase: "Filter", status: status, reasons: a.reasons}
	}
	node := a.best()
	if status := a.reserve(node); !status.IsSuccess() {
		return outcome{phase: "Reserve", node: node, status: status, reasons: a.reasons}
	}
	if status := a.preBind(node); !status.IsSuccess() {
		return outcome{phase: "PreBind", node: node, status: status, reasons: a.reasons}
	}
	return outcome{node: node, reasons: a.reasons}
}

// begin runs PreFilter.
func (f *fixture) begin(pod *v1.Pod) (*attempt, *fwk.Status) {
	a := &attempt{f: f, pod: pod, state: framework.NewCycleState(), reasons: make(map[string]string)}
	_, status := f.pl.PreFilter(f.ctx, a.state, pod, f.nodeInfos())
	if status.IsSkip() {
		a.skipped = true
		return a, nil
	}
	return a, status
}

// mustBegin is begin for a pod that PreFilter has to accept.
func (f *fixture) mustBegin(pod *v1.Pod) *attempt {
	a, status := f.begin(pod)
	require.NoError(f.t, status.AsError())
	return a
}

// filter runs Filter for all nodes, concurrently like the scheduler.
func (a *attempt) filter() *attempt {
	infos := a.f.nodeInfos()
	statuses := make([]*fwk.Status, len(infos))
	done := make(chan struct{})
	for i, info := range infos {
		go func() {
			if !a.skipped {
				statuses[i] = a.f.pl.Filter(a.f.ctx, a.state, a.pod, info)
			}
			done <- struct{}{}
		}()
	}
	for range infos {
		<-done
	}
	for i, info := range infos {
		if name := info.Node().Name; statuses[i].IsSuccess() {
			a.feasible = append(a.feasible, name)
		} else {
			a.reasons[name] = statuses[i].Message()
		}
	}
	return a
}

// scores runs Score and NormalizeScore for the feasible nodes.
func (a *attempt) scores() (raw, normalized map[string]int64) {
	raw, normalized = make(map[string]int64), make(map[string]int64)
	require.NoError(a.f.t, a.f.pl.PreScore(a.f.ctx, a.state, a.pod, a.feasibleInfos()).AsError())
	var list fwk.NodeScoreList
	for _, info := range a.f.nodeInfos() {
		if name := info.Node().Name; slices.Contains(a.feasible, name) {
			score, status := a.f.pl.Score(a.f.ctx, a.state, a.pod, info)
			require.NoError(a.f.t, status.AsError())
			raw[name] = score
			list = append(list, fwk.NodeScore{Name: name, Score: score})
		}
	}
	require.NoError(a.f.t, a.f.pl.NormalizeScore(a.f.ctx, a.state, a.pod, list).AsError())
	for _, score := range list {
		normalized[score.Name] = score.Score
	}
	return raw, normalized
}

// feasibleInfos are the feasible nodes.
func (a *attempt) feasibleInfos() (nodes []fwk.NodeInfo) {
	for _, info := range a.f.nodeInfos() {
		if slices.Contains(a.feasible, info.Node().Name) {
			nodes = append(nodes, info)
		}
	}
	return nodes
}

// best returns the feasible node with the best score, the first of several. Like in the
// scheduler, a single one is neither pre-scored nor scored.
func (a *attempt) best() string {
	if len(a.feasible) == 1 {
		return a.feasible[0]
	}
	if a.skipped {
		require.True(a.f.t, a.f.pl.PreScore(a.f.ctx, a.state, a.pod, a.feasibleInfos()).IsSkip())
		return a.feasible[0]
	}
	_, scores := a.scores()
	return slices.MaxFunc(a.feasible, func(x, y string) int { return int(scores[x] - scores[y]) })
}

// reserve runs Reserve and, if that fails, Unreserve.
func (a *attempt) reserve(node string) *fwk.Status {
	status := a.f.pl.Reserve(a.f.ctx, a.state, a.pod, node)
	if !status.IsSuccess() {
		a.unreserve(node)
	}
	return status
}

// preBind runs PreBindPreFlight and PreBind and, if that fails, Unreserve. Like in
// the scheduler the context of the cycle ends with the failure.
func (a *attempt) preBind(node string) *fwk.Status {
	ctx, cancel := context.WithCancel(a.f.ctx)
	defer cancel()
	_, status := a.f.pl.PreBindPreFlight(ctx, a.state, a.pod, node)
	if status.IsSkip() {
		return nil
	}
	require.NoError(a.f.t, status.AsError())
	status = a.f.pl.PreBind(ctx, a.state, a.pod, node)
	if !status.IsSuccess() {
		a.f.pl.Unreserve(ctx, a.state, a.pod, node)
	}
	return status
}

func (a *attempt) unreserve(node string) { a.f.pl.Unreserve(a.f.ctx, a.state, a.pod, node) }

// nodeInfos returns the nodes on the server by name.
func (f *fixture) nodeInfos() []fwk.NodeInfo {
	nodes, err := f.client.CoreV1().Nodes().List(f.ctx, metav1.ListOptions{})
	require.NoError(f.t, err)
	var infos []fwk.NodeInfo
	for i := range nodes.Items {
		info := framework.NewNodeInfo()
		info.SetNode(&nodes.Items[i])
		for _, pod := range f.running {
			if pod.Spec.NodeName == nodes.Items[i].Name {
				info.AddPod(pod)
			}
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b fwk.NodeInfo) int {
		if a.Node().Name < b.Node().Name {
			return -1
		}
		return 1
	})
	return infos
}

// inFlight returns the known claims that have an allocation in flight.
func (f *fixture) inFlight() map[types.UID]bool {
	found := make(map[types.UID]bool)
	claims, err := f.client.ResourceV1().ResourceClaims("").List(f.ctx, metav1.ListOptions{})
	require.NoError(f.t, err)
	for _, claim := range claims.Items {
		if f.pl.state.Ledger.InFlight(claim.UID) != nil {
			found[claim.UID] = true
		}
	}
	return found
}
