package whatif_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const benchNodes = 5000

// benchCluster has 5,000 nodes with 8 GPUs each. On all nodes except one in a hundred, 5 GPUs are
// in use.
func benchCluster() whatif.Objects {
	o := cluster(benchNodes, 8)
	for i, slice := range o.Slices {
		for d := range slice.Spec.Devices { // As drivers have it: no two devices look the same.
			device := &slice.Spec.Devices[d]
			device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"uuid": {StringValue: new(fmt.Sprintf("gpu-%d-%d", i, d))}, "numa": {IntValue: new(int64(d / 4))},
			}
		}
		if i%100 != 99 {
			holding(&o, fmt.Sprintf("holder-%d", i), o.Nodes[i].Name, "gpu-0", "gpu-1", "gpu-4", "gpu-5", "gpu-6")
		}
	}
	return o
}

// questions are pods whose claims ask for a number of GPUs with an expression that is unique to the
// pod.
var questions = []struct {
	name string
	pod  func(i int) (*v1.Pod, *resourceapi.ResourceClaim)
}{
	{"fits on most nodes", func(i int) (*v1.Pod, *resourceapi.ResourceClaim) { return asking(i, 2, "") }},
	{"fits on one node in 100", func(i int) (*v1.Pod, *resourceapi.ResourceClaim) { return asking(i, 6, "") }},
	{"fits nowhere", func(i int) (*v1.Pod, *resourceapi.ResourceClaim) { return asking(i, 9, "") }},
	{"never asked before, fits", func(i int) (*v1.Pod, *resourceapi.ResourceClaim) {
		return asking(i, 2, fmt.Sprintf("device.attributes['gpu.example.com'].numa < %d", 10+i))
	}},
	{"never asked before, fits nowhere", func(i int) (*v1.Pod, *resourceapi.ResourceClaim) {
		return asking(i, 9, fmt.Sprintf("device.attributes['gpu.example.com'].numa < %d", 10+i))
	}},
}

func asking(i int, gpus int64, expression string) (*v1.Pod, *resourceapi.ResourceClaim) {
	request := builder.Request("gpu", builder.Driver).Count(gpus)
	if expression != "" {
		request = request.Where(expression)
	}
	name := fmt.Sprintf("asked-%d", i)
	return builder.Pod(name, builder.Using(builder.Uses(name)...)), builder.Claim(name, request).Obj()
}

// BenchmarkFit measures a question, and compares it with upstream's allocator, which kube-scheduler
// creates for each pod.
func BenchmarkFit(b *testing.B) {
	o := benchCluster()
	s := whatif.New(o, whatif.Options{})
	for _, q := range questions {
		b.Run(q.name+"/ours", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				pod, claim := q.pod(i)
				if _, err := s.With(whatif.Objects{Claims: []*resourceapi.ResourceClaim{claim}}).Fit(b.Context(), pod); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "questions/s")
		})
		b.Run(q.name+"/upstream", func(b *testing.B) {
			state, compiled := allocatedState(o), cel.NewCache(10, cel.Features{})
			for i := 0; b.Loop(); i++ {
				_, claim := q.pod(i)
				askUpstream(b, o, state, compiled, claim)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "questions/s")
		})
	}
}

func allocatedState(o whatif.Objects) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range o.Claims {
		for _, result := range claim.Status.Allocation.Devices.Results {
			state.AllocatedDevices.Insert(structured.MakeDeviceID(result.Driver, result.Pool, result.Device))
		}
	}
	return state
}

// askUpstream looks for the first node that fits.
func askUpstream(b *testing.B, o whatif.Objects, state structured.AllocatedState, compiled *cel.Cache, claim *resourceapi.ResourceClaim) {
	a, err := structured.NewAllocator(b.Context(), allocator.Supported, state, classLister(o.Classes), o.Slices, compiled)
	if err != nil {
		b.Fatal(err)
	}
	for _, node := range o.Nodes {
		results, err := a.Allocate(b.Context(), node, []*resourceapi.ResourceClaim{claim})
		if err != nil {
			b.Fatal(err)
		}
		if results != nil {
			return
		}
	}
}

type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("no class %s", name)
}
