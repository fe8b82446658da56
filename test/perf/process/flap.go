package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
)

const (
	// flapInterval is the time between two changes, flappingNodes the number of nodes that
	// change each time, but at most a tenth of all nodes.
	flapInterval  = 2 * time.Second
	flappingNodes = 100
)

// flapScenario measures nodes that come and go, every other time with their devices.
var flapScenario = scenario{
	name:  "flap",
	title: fmt.Sprintf("Pods with a claim, quiet and while %d nodes change every %s", flappingNodes, flapInterval),
	columns: []column{
		{title: "quiet pods/s", format: "%.1f"},
		{title: "pods/s", format: "%.1f"},
		{title: "of quiet", format: "%.2f", own: true},
		{title: "quiet cycle p99 ms", format: "%.2f"},
		{title: "cycle p99 ms", format: "%.2f"},
		{title: "quiet CPU s", format: "%.2f"},
		{title: "CPU s", format: "%.2f"},
		{title: "changes of nodes/s", format: "%.1f", own: true},
		{title: "others %", format: "%.0f", own: true},
	},
	measure: func(ctx context.Context, s *session) ([]float64, error) {
		var changes int
		quiet, disturbed, err := s.compare(ctx, "flap", s.options.pods, func(ctx context.Context) (disturbance, error) {
			f, err := newFlapper(ctx, s)
			return func(ctx context.Context, scheduled <-chan struct{}) error {
				err := f.run(ctx, scheduled)
				changes += f.changes
				return err
			}, err
		})
		if err != nil {
			return nil, err
		}
		return []float64{
			quiet.throughput(), disturbed.throughput(), ratio(disturbed.throughput(), quiet.throughput()),
			quiet.cycles.quantile(0.99) * 1000, disturbed.cycles.quantile(0.99) * 1000,
			quiet.cpuSeconds(), disturbed.cpuSeconds(), float64(changes) / disturbed.elapsed.Seconds(),
			max(quiet.othersPercent(), disturbed.othersPercent()),
		}, nil
	},
}

// flapper makes nodes come and go.
type flapper struct {
	session *session
	// slices has one slice of each node that changes.
	slices []*resourceapi.ResourceSlice
	// changes is the number of nodes that became ready or not ready while there were pods to schedule.
	changes int
}

func newFlapper(ctx context.Context, s *session) (*flapper, error) {
	f := &flapper{session: s}
	for _, index := range spread(s.options.nodes, min(flappingNodes, s.options.nodes/10)) {
		slice, err := s.client.ResourceV1().ResourceSlices().Get(ctx, fmt.Sprintf("gpus-%d", index), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		f.slices = append(f.slices, slice)
	}
	return f, nil
}

// spread returns wanted numbers below count at equal distances.
func spread(count, wanted int) []int {
	var result []int
	for i := range wanted {
		result = append(result, i*count/wanted)
	}
	return result
}

// run changes nodes until all pods are scheduled and the nodes are ready again. Every other
// time, drivers delete the slices of nodes that are not ready, as on a node that restarts.
func (f *flapper) run(ctx context.Context, scheduled <-chan struct{}) error {
	ticker := time.NewTicker(flapInterval)
	defer ticker.Stop()
	ready := true
	for step := 0; ; step++ {
		select {
		case <-scheduled:
			if ready {
				return nil
			}
		default:
			f.changes += len(f.slices)
		}
		ready = !ready
		if err := f.change(ctx, ready, step%4 >= 2); err != nil {
			return err
		}
		select {
		case <-scheduled:
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// change makes all the nodes ready or not ready. If restarts is set, it creates or deletes their slices, too.
func (f *flapper) change(ctx context.Context, ready, restarts bool) error {
	return cluster.InParallel(ctx, len(f.slices), func(i int) error {
		slice := f.slices[i]
		slices := f.session.client.ResourceV1().ResourceSlices()
		if err := setReady(ctx, f.session, *slice.Spec.NodeName, ready); err != nil {
			return err
		}
		switch {
		case !restarts:
			return nil
		case ready:
			_, err := slices.Create(ctx, fresh(slice), metav1.CreateOptions{})
			return err
		default:
			return slices.Delete(ctx, slice.Name, metav1.DeleteOptions{})
		}
	})
}

// fresh returns a slice as its driver creates it after a start.
func fresh(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: slice.Name}, Spec: slice.Spec}
}

// setReady writes the status and the taints that the kubelet and the node lifecycle controller write to a node.
func setReady(ctx context.Context, s *session, node string, ready bool) error {
	status, spec, err := readiness(ready)
	if err != nil {
		return err
	}
	nodes := s.client.CoreV1().Nodes()
	_, statusErr := nodes.Patch(ctx, node, types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status")
	_, specErr := nodes.Patch(ctx, node, types.MergePatchType, spec, metav1.PatchOptions{})
	return errors.Join(statusErr, specErr)
}

// readiness returns a strategic merge patch of a node's status, and a merge patch of its spec.
func readiness(ready bool) (status, spec []byte, err error) {
	condition := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}
	taints := []v1.Taint{}
	if !ready {
		condition.Status, condition.Reason = v1.ConditionFalse, "KubeletNotReady"
		taints = append(taints, v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule})
	}
	if status, err = json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}}); err != nil {
		return nil, nil, err
	}
	spec, err = json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}})
	return status, spec, err
}
