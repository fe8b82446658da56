package main

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
)

const (
	// republishPods is the number of pods to schedule while drivers republish.
	republishPods = 500
	// versionAttribute is the attribute of each device that an upgrade of the driver changes.
	versionAttribute = "driverVersion"
	// slicesPerPage limits the number of slices in one answer of the API server.
	slicesPerPage = 500
)

// republishScenario measures a driver that is upgraded on all nodes at once.
var republishScenario = scenario{
	name:  "republish",
	title: fmt.Sprintf("%d pods with a claim, quiet and while all drivers republish", republishPods),
	columns: []column{
		{title: "quiet pods/s", format: "%.1f"},
		{title: "pods/s", format: "%.1f"},
		{title: "quiet cycle mean ms", format: "%.2f"},
		{title: "cycle mean ms", format: "%.2f"},
		{title: "quiet cycle p99 ms", format: "%.2f"},
		{title: "cycle p99 ms", format: "%.2f"},
		{title: "p99 : quiet", format: "%.2f", own: true},
		{title: "quiet CPU s", format: "%.2f"},
		{title: "CPU s", format: "%.2f"},
		{title: "republished in s", format: "%.1f"},
		{title: "others %", format: "%.0f", own: true},
	},
	measure: func(ctx context.Context, s *session) ([]float64, error) {
		var took time.Duration
		quiet, disturbed, err := s.compare(ctx, "republish", republishPods, func(ctx context.Context) (disturbance, error) {
			slices, err := upgraded(ctx, s)
			return func(ctx context.Context, _ <-chan struct{}) error {
				begin := time.Now()
				defer func() { took += time.Since(begin) }()
				return cluster.Republish(ctx, s.client, slices)
			}, err
		})
		if err != nil {
			return nil, err
		}
		return []float64{
			quiet.throughput(), disturbed.throughput(),
			quiet.cycles.mean() * 1000, disturbed.cycles.mean() * 1000,
			quiet.cycles.quantile(0.99) * 1000, disturbed.cycles.quantile(0.99) * 1000,
			ratio(disturbed.cycles.quantile(0.99), quiet.cycles.quantile(0.99)),
			quiet.cpuSeconds(), disturbed.cpuSeconds(), took.Seconds() / float64(s.options.rounds),
			max(quiet.othersPercent(), disturbed.othersPercent()),
		}, nil
	},
}

// upgraded returns the slices as the next version of their driver publishes them.
func upgraded(ctx context.Context, s *session) ([]*resourceapi.ResourceSlice, error) {
	var result []*resourceapi.ResourceSlice
	page := metav1.ListOptions{Limit: slicesPerPage}
	for {
		list, err := s.client.ResourceV1().ResourceSlices().List(ctx, page)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			upgrade(&list.Items[i])
			result = append(result, &list.Items[i])
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return result, nil
		}
	}
}

// upgrade changes a slice as an upgrade of its driver does: in the next generation of the
// pool, each device has another driver version.
func upgrade(slice *resourceapi.ResourceSlice) {
	slice.Spec.Pool.Generation++
	version := fmt.Sprintf("600.%d.0", slice.Spec.Pool.Generation)
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes[versionAttribute] = resourceapi.DeviceAttribute{VersionValue: ptr.To(version)}
	}
}

// ratio returns value/to, 0 if there is nothing to compare with.
func ratio(value, to float64) float64 {
	if to == 0 {
		return 0
	}
	return value / to
}
