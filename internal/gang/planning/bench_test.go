package planning

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// bigCluster has nodes with 8 GPUs, in racks of 50. On some nodes all GPUs are taken; those come first in each rack.
func bigCluster(b *testing.B, nodes int, full func(int) bool) *world {
	list := make([]node, nodes)
	for i := range list {
		list[i] = node{gpus: 8, rack: fmt.Sprint("rack-", i/50)}
	}
	w := newWorld(b, list...)
	for i := range nodes {
		name := fmt.Sprint("n", i)
		for j := range 4 {
			pod := builder.Pod(fmt.Sprint("running-", name, "-", j), builder.Container("c", "cpu", "1"))
			pod.Spec.NodeName = name
			w.running = append(w.running, pod)
		}
		if full(i) {
			var devices []string
			for _, device := range builder.NodeSlice(name, builder.NumberedDevices("gpu", 8)...).Obj().Spec.Devices {
				devices = append(devices, device.Name)
			}
			w.uses = append(w.uses, ledger.Use{Claim: ledger.ClaimRef{Name: name}, Allocation: builder.Claim(name, builder.Request("gpu", "gpu").Count(8)).Allocated(name, devices...).Status.Allocation})
		}
	}
	return w
}

// BenchmarkPlan plans gangs with all plugins of kube-scheduler.
func BenchmarkPlan(b *testing.B) {
	rack := domain.Key{Label: "rack"}
	for name, full := range map[string]func(int) bool{
		"empty": func(int) bool { return false }, "half": func(i int) bool { return i%2 == 0 }, "full": func(int) bool { return true },
	} {
		for _, nodes := range []int{500, 5000} {
			w := bigCluster(b, nodes, full)
			p := w.planner()
			for _, pods := range []int{8, 64, 256} {
				for kind, c := range map[string]struct {
					wish  domain.Wish
					edits []func(*v1.Pod)
				}{
					"plain":            {},
					"required rack":    {wish: domain.Wish{Key: rack, Required: true}},
					"preferred":        {wish: domain.Wish{Key: rack}},
					"none alike":       {edits: []func(*v1.Pod){func(pod *v1.Pod) { pod.Spec.SchedulerName = pod.Name }}},
					"none alike, rack": {wish: domain.Wish{Key: rack, Required: true}, edits: []func(*v1.Pod){func(pod *v1.Pod) { pod.Spec.SchedulerName = pod.Name }}},
					"apart":            {edits: []func(*v1.Pod){labeled("app", "a"), apart(hostname, "a")}},
					"spread":           {edits: []func(*v1.Pod){labeled("app", "a"), spread("rack", "a")}},
				} {
					b.Run(fmt.Sprintf("%s/%d nodes/%d pods/%s", name, nodes, pods, kind), func(b *testing.B) {
						for b.Loop() {
							o, err := p.Plan(b.Context(), gangOf(pods, pods, c.wish, c.edits...))
							require.NoError(b, err)
							if name == "half" && pods > 200 && kind != "plain" && kind != "preferred" && (nodes == 500 || strings.Contains(kind, "rack")) {
								continue // There is too little.
							}
							require.Equal(b, name != "full", o.Plan != nil, "%s", o.Reason(func([]string) string { return "" }))
						}
					})
				}
			}
		}
	}
}
