package main

import (
	"fmt"
	"log"
	"math/rand"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
	nearNodes = 64
)

// nearDevice is a device whose neighbours matter.
type nearDevice struct {
	name, driver string
	group        [2]int // by level of closeness
}

// nearAsk holds the devices that a pod asks for. If level is not negative, they should be in one group of
// that level.
type nearAsk struct {
	name       string
	gpus, nics int
	part       float64 // of the pods
	level      int
}

// nearby is a world of equal nodes, where pods come and go.
type nearby struct {
	name    string
	levels  [2]resourceapi.FullyQualifiedName // most important first
	devices []nearDevice                      // in the drivers' order
	asks    []nearAsk
}

// near are the worlds for measuring how close devices are.
var near = []nearby{
	{
		"64 nodes of 8 GPUs in 4 NVLink pairs, 2 on each NUMA node",
		[2]resourceapi.FullyQualifiedName{"gpu.example.com/nvlinkPair", "resource.kubernetes.io/numaNode"},
		nearDevices(8, 0, 4),
		[]nearAsk{{"1", 1, 0, 0.5, -1}, {"2 in a pair", 2, 0, 0.25, 0}, {"4 on a NUMA node", 4, 0, 0.15, 1}, {"8", 8, 0, 0.1, -1}},
	},
	{
		"64 nodes of 8 GPUs and 4 NICs: 2 GPUs and a NIC on each PCIe root",
		[2]resourceapi.FullyQualifiedName(allocator.DefaultCloseness),
		nearDevices(8, 4, 4),
		[]nearAsk{{"1", 1, 0, 0.4, -1}, {"1 with a NIC", 1, 1, 0.3, 0}, {"2 with a NIC", 2, 1, 0.2, 0}, {"8 with 4 NICs", 8, 4, 0.1, -1}},
	},
	{
		"64 nodes of 8 GPUs and 8 NICs: a GPU and a NIC on each PCIe root",
		[2]resourceapi.FullyQualifiedName(allocator.DefaultCloseness),
		nearDevices(8, 8, 8),
		[]nearAsk{{"1", 1, 0, 0.3, -1}, {"NIC", 0, 1, 0.1, -1}, {"1 with a NIC", 1, 1, 0.5, 0}, {"8 with 8 NICs", 8, 8, 0.1, -1}},
	},
}

// nearDevices spreads GPUs and NICs over groups. Each half of the groups is on one NUMA node.
func nearDevices(gpus, nics, groups int) (list []nearDevice) {
	of := func(driver, name string, count int) {
		for i := range count {
			list = append(list, nearDevice{fmt.Sprintf("%s-%d", name, i), driver, [2]int{i * groups / count, 2 * i / count}})
		}
	}
	of(gpuDriver, "gpu", gpus)
	of(nicDriver, "nic", nics)
	return list
}

// nearNode is a node as a policy sees it: its free devices, and the allocator's view.
type nearNode struct {
	free    []bool // by device
	site    allocator.NodeView
	version int
}

func (n *nearNode) count(devices []nearDevice, driver string) (free int) {
	for i := range devices {
		if n.free[i] && devices[i].driver == driver {
			free++
		}
	}
	return free
}

// nearWorld holds the free devices while pods come and go, and the allocator's view of them.
type nearWorld struct {
	*nearby
	nodes  []nearNode
	tasks  []*allocator.Task // by ask
	ledger *ledger.Ledger
}

type nearClasses map[string]*resourceapi.DeviceClass

// Get implements structured.DeviceClassLister.
func (c nearClasses) Get(name string) (*resourceapi.DeviceClass, error) { return c[name], nil }

// List implements structured.DeviceClassLister.
func (nearClasses) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func newNearWorld(of *nearby) *nearWorld {
	w := &nearWorld{nearby: of, nodes: make([]nearNode, nearNodes), ledger: ledger.New()}
	solver := &allocator.Solver{
		Features:  allocator.Supported,
		Classes:   nearClasses{gpuDriver: b.DriverClass(gpuDriver), nicDriver: b.DriverClass(nicDriver)},
		Evaluator: selector.NewEvaluator(cel.NewCache(10, cel.Features{EnableListTypeAttributes: true, EnableConsumableCapacity: true})),
	}
	for i := range of.asks {
		w.tasks = append(w.tasks, solver.Prepare([]*resourceapi.ResourceClaim{of.asks[i].claim("ask").Obj()}))
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		n.free = make([]bool, len(of.devices))
		for d := range n.free {
			n.free[d] = true
		}
		node := b.Node(fmt.Sprintf("node-%02d", i))
		store := inventory.FromSlices(of.slices(node.Name), allocator.InventoryOptions(solver.Features))
		n.site = allocator.NodeView{Node: node, Pools: store.OnNode(node), Usage: w.ledger}
	}
	return w
}

// slices returns the slices that the drivers publish for a node.
func (of *nearby) slices(node string) []*resourceapi.ResourceSlice {
	published := map[string][]*b.DeviceBuilder{}
	for _, d := range of.devices {
		device := b.Device(d.name)
		for level, name := range of.levels {
			device.Attr(string(name), fmt.Sprint(d.group[level]))
		}
		published[d.driver] = append(published[d.driver], device)
	}
	slices := []*resourceapi.ResourceSlice{b.NodeSlice(node, published[gpuDriver]...).OfDriver(gpuDriver).Obj()}
	if nics := published[nicDriver]; len(nics) > 0 {
		slices = append(slices, b.Slice(node+"-nics").OnNode(node).OfDriver(nicDriver).InPool(node, 1, 1).Devices(nics...).Obj())
	}
	return slices
}

// claim returns a claim for the devices without any constraint.
func (a *nearAsk) claim(name string) *b.ClaimBuilder {
	var requests []*b.RequestBuilder
	if a.gpus > 0 {
		requests = append(requests, b.Request(gpuDriver[:3], gpuDriver).Count(int64(a.gpus)))
	}
	if a.nics > 0 {
		requests = append(requests, b.Request(nicDriver[:3], nicDriver).Count(int64(a.nics)))
	}
	return b.Claim(name, requests...)
}

// fits reports whether a node has enough free devices. The devices of a driver are interchangeable.
func (w *nearWorld) fits(n *nearNode, a *nearAsk) bool {
	return n.count(w.devices, gpuDriver) >= a.gpus && n.count(w.devices, nicDriver) >= a.nics
}

// nearPod holds devices of a node.
type nearPod struct {
	name, node int
	ask        int
	devices    []int
}

func (p *nearPod) key() string { return fmt.Sprintf("%s/pod-%d", b.Namespace, p.name) }

// put gives a pod its devices.
func (w *nearWorld) put(p *nearPod) {
	n := &w.nodes[p.node]
	claim := w.asks[p.ask].claim(fmt.Sprintf("pod-%d", p.name)).Obj()
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, d := range p.devices {
		if !n.free[d] {
			log.Panicf("%s of node %d is given away twice", w.devices[d].name, p.node)
		}
		n.free[d] = false
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: w.devices[d].driver[:3], Driver: w.devices[d].driver, Pool: n.site.Node.Name, Device: w.devices[d].name,
		})
	}
	n.version++
	w.ledger.Refresh(p.key(), func() *resourceapi.ResourceClaim { return claim })
}

// remove takes a pod's devices back.
func (w *nearWorld) remove(p *nearPod) {
	n := &w.nodes[p.node]
	for _, d := range p.devices {
		n.free[d] = true
	}
	n.version++
	w.ledger.Refresh(p.key(), func() *resourceapi.ResourceClaim { return nil })
}

// together reports whether devices are in one group of a level.
func (of *nearby) together(devices []int, level int) bool {
	for _, d := range devices {
		if of.devices[d].group[level] != of.devices[devices[0]].group[level] {
			return false
		}
	}
	return true
}

// nearCount counts the results of the pods, by ask.
type nearCount []struct{ asked, refused, together int }

// play lets pods come and go by chance, so that a constant part of the GPUs is held.
func (of *nearby) play(held float64, steps int, seed int64, policy nearPolicy) nearCount {
	rng := rand.New(rand.NewSource(seed))
	w := newNearWorld(of)
	counts := make(nearCount, len(of.asks))
	var pods []*nearPod
	used := 0
	gpus := nearNodes * w.nodes[0].count(of.devices, gpuDriver)
	for now := range steps {
		if float64(used) >= held*float64(gpus) {
			i := rng.Intn(len(pods))
			w.remove(pods[i])
			used -= of.asks[pods[i].ask].gpus
			pods[i] = pods[len(pods)-1]
			pods = pods[:len(pods)-1]
			continue
		}
		ask, draw := 0, rng.Float64()
		for ask = range of.asks {
			if draw -= of.asks[ask].part; draw < 0 {
				break
			}
		}
		p := &nearPod{name: now, ask: ask}
		ok := false
		p.node, p.devices, ok = policy(w, ask)
		if ok {
			w.put(p)
			pods = append(pods, p)
			used += of.asks[ask].gpus
		}
		if now < steps/8 {
			continue // The nodes are filled first.
		}
		c := &counts[ask]
		c.asked++
		switch level := of.asks[ask].level; {
		case !ok:
			c.refused++
		case level >= 0 && of.together(p.devices, level):
			c.together++
		}
	}
	return counts
}
