package planning

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// tries is a search that tries all assignments. It runs kube-scheduler's plugins for each pod from scratch, with the
// earlier pods on their nodes in the snapshot.
type tries struct {
	*world
	free  []int64
	known map[string]int
	// rack is the only rack to try, "" for all.
	rack string
}

// mostIn returns the largest number of pods that fit: in one rack, if they must share one.
func (tr *tries) mostIn(g Gang) (most int) {
	racks := []string{""}
	if g.Wish.Required {
		racks = []string{"a", "b"}
	}
	for _, tr.rack = range racks {
		tr.known = make(map[string]int)
		most = max(most, tr.most(g.Pods))
	}
	tr.rack = ""
	return most
}

// most returns the largest number of pods that fit, in any order of placement. Pods that are alike have the same name
// up to the first hyphen.
func (tr *tries) most(left []*v1.Pod) int {
	var at []string
	for _, pod := range tr.running {
		at = append(at, kindOf(pod)+"@"+pod.Spec.NodeName)
	}
	slices.Sort(at)
	key := strings.Join(at, " ")
	if most, found := tr.known[key]; found {
		return most
	}
	most := 0
	tried := make(map[string]bool)
	for i, pod := range left {
		if tried[kindOf(pod)] {
			continue
		}
		tried[kindOf(pod)] = true
		for _, node := range tr.nodesFor(pod) {
			placed := pod.DeepCopy()
			placed.Spec.NodeName = tr.nodes[node].Name
			tr.running = append(tr.running, placed)
			tr.free[node] -= tr.gpus(pod)
			most = max(most, 1+tr.most(slices.Delete(slices.Clone(left), i, i+1)))
			tr.free[node] += tr.gpus(pod)
			tr.running = tr.running[:len(tr.running)-1]
			if most == len(left) {
				break
			}
		}
	}
	tr.known[key] = most
	return most
}

func kindOf(pod *v1.Pod) string { kind, _, _ := strings.Cut(pod.Name, "-"); return kind }

// nodesFor returns the nodes that take a pod in the current state.
func (tr *tries) nodesFor(pod *v1.Pod) (nodes []int) {
	tr.lister.Snapshot = schedulercache.NewSnapshot(tr.running, tr.nodes)
	state := framework.NewCycleState()
	named, status, _ := tr.framework.RunPreFilterPlugins(tr.tb.Context(), state, pod)
	if !status.IsSuccess() {
		return nil
	}
	for i, node := range tr.nodes {
		if tr.rack != "" && node.Labels["rack"] != tr.rack || tr.free[i] < tr.gpus(pod) || !named.AllNodes() && !named.NodeNames.Has(node.Name) {
			continue
		}
		info, err := tr.lister.NodeInfos().Get(node.Name)
		require.NoError(tr.tb, err)
		if tr.framework.RunFilterPlugins(tr.tb.Context(), state, pod, info).IsSuccess() {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// carryOut checks that a plan can be carried out pod by pod, in its order.
func (tr *tries) carryOut(o *Outcome) {
	racks := make(map[string]bool)
	for _, assignment := range o.Plan.Assignments {
		at := slices.IndexFunc(tr.nodes, func(n *v1.Node) bool { return n.Name == assignment.Node })
		require.Contains(tr.tb, tr.nodesFor(assignment.Pod), at, "pod %s on node %s", assignment.Pod.Name, assignment.Node)
		racks[tr.nodes[at].Labels["rack"]] = true
		placed := assignment.Pod.DeepCopy()
		placed.Spec.NodeName = assignment.Node
		tr.running = append(tr.running, placed)
		tr.free[at] -= tr.gpus(assignment.Pod)
	}
	tr.running = tr.running[:len(tr.running)-len(o.Plan.Assignments)]
	require.True(tr.tb, !o.Wish.Required || len(racks) == 1, "in racks %v", racks)
}

// randomGang is a gang of one or two kinds of pods, with rules that some pods have.
func randomGang(r *rand.Rand, number int, ties bool) Gang {
	g := Gang{Name: fmt.Sprint("default/gang", number)}
	if wish := r.IntN(6); wish < 2 {
		g.Wish = domain.Wish{Key: domain.Key{Label: "rack"}, Required: wish == 0}
	}
	rules := []func(*v1.Pod){
		onPort(80), onPort(81), tolerating, requiring(v1.NodeSelectorOpNotIn, "n0"), requiring(v1.NodeSelectorOpIn, "n1", "n2"),
	}
	if ties {
		rules = append(rules, apart(hostname, "a"), apart("rack", "b"), apart(hostname, "b"), together("rack", "a"), together(hostname, "b"), spread("rack", "a"), spread(hostname, "b"))
	}
	for kind := range 1 + r.IntN(2) {
		name := fmt.Sprintf("g%dk%d", number, kind)
		edits := []func(*v1.Pod){builder.Container("c", "cpu", fmt.Sprint(1+r.IntN(2))), labeled("app", string(rune('a'+r.IntN(2))))}
		if r.IntN(3) > 0 {
			edits = append(edits, rules[r.IntN(len(rules))])
		}
		for i := range 1 + r.IntN(3) {
			pod := builder.Pod(fmt.Sprintf("%s-%d", name, i), edits...)
			pod.UID = types.UID(pod.Name)
			g.Pods = append(g.Pods, pod)
		}
	}
	g.Need = len(g.Pods)
	if r.IntN(3) == 0 {
		g.Need = 1 + r.IntN(len(g.Pods))
	}
	return g
}

// TestAgainstTryingEverything: in random small clusters, gangs are placed if and only if there is a way to place them, one
// gang after the other.
func TestAgainstTryingEverything(t *testing.T) {
	t.Parallel()
	for name, ties := range map[string]bool{"nodes apart": false, "with ties": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, 4))
			gangs, fit, gaveUp := 0, 0, 0
			for i := range 150 {
				w := randomWorld(t, r)
				tr := &tries{world: w}
				for _, n := range w.nodes {
					tr.free = append(tr.free, int64(len(w.store.OnNode(n))))
				}
				for at, free := range tr.free {
					if free > 0 {
						tr.free[at] = int64(len(w.store.OnNode(w.nodes[at])[0].Devices))
					}
				}
				for number := range 3 {
					g := randomGang(r, number, ties)
					outcome, err := w.planner().Plan(t.Context(), g)
					require.NoError(t, err)
					gangs++
					if outcome.GaveUp {
						gaveUp++
						continue
					}
					most := tr.mostIn(g)
					require.Equal(t, most >= g.Need, outcome.Plan != nil, "world %d, gang %d: %d of %d fit: %s\n%s", i, number, most, g.Need,
						outcome.Reason(func([]string) string { return "" }), w.describe(g))
					if outcome.Plan == nil {
						require.NotContains(t, outcome.Reason(func([]string) string { return "" }), "pods fit;")
						require.Regexp(t, " pods fit( into one domain .*)?: ", outcome.Reason(func([]string) string { return "" }), "world %d, gang %d", i, number)
						continue
					}
					fit++
					tr.carryOut(outcome)
					w.bind(outcome.Plan)
				}
			}
			t.Logf("%d gangs, %d fit, gave up on %d (%.1f %%)", gangs, fit, gaveUp, 100*float64(gaveUp)/float64(gangs))
			require.Greater(t, fit, gangs/4)
			require.Less(t, fit, gangs*9/10)
			require.LessOrEqual(t, gaveUp, gangs/50)
		})
	}
}

// randomWorld is a small cluster in which some pods run already.
func randomWorld(t *testing.T, r *rand.Rand) *world {
	var nodes []node
	for range 2 + r.IntN(4) {
		n := node{gpus: r.IntN(4), cpu: fmt.Sprint(1 + r.IntN(4)), rack: string(rune('a' + r.IntN(2)))}
		if r.IntN(6) == 0 {
			n.edit = tainted
		}
		nodes = append(nodes, n)
	}
	w := newWorld(t, nodes...)
	wants := make(map[string]int64)
	for number := range 3 {
		for kind := range 2 {
			wants[fmt.Sprintf("g%dk%d", number, kind)] = int64(r.IntN(3))
		}
	}
	w.gpus = func(pod *v1.Pod) int64 { return wants[kindOf(pod)] }
	for i := range r.IntN(3) {
		pod := builder.Pod(fmt.Sprint("running", i), builder.Container("c", "cpu", "1"), labeled("app", "a"))
		if r.IntN(2) == 0 {
			apart("rack", "b")(pod)
		}
		pod.UID = types.UID(pod.Name)
		pod.Spec.NodeName = w.nodes[r.IntN(len(w.nodes))].Name
		w.running = append(w.running, pod)
	}
	return w
}

// describe prints a world in which the result is wrong.
func (w *world) describe(g Gang) string {
	var b strings.Builder
	for _, n := range w.nodes {
		fmt.Fprintln(&b, n.Name, n.Labels, n.Status.Allocatable.Cpu(), n.Spec.Taints, len(w.store.OnNode(n)))
	}
	for _, pod := range slices.Concat(w.running, g.Pods) {
		fmt.Fprintln(&b, pod.Name, pod.Spec.NodeName, slices.Sorted(maps.Values(pod.Labels)), pod.Spec.Containers[0].Resources.Requests.Cpu(),
			pod.Spec.Containers[0].Ports, pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints, w.gpus(pod))
	}
	return b.String()
}
