package telemetry

import (
	"sync"

	"k8s.io/client-go/tools/cache"
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
)

// newDesc returns the description of a gauge.
func newDesc(opts *k8smetrics.GaugeOpts, labels ...string) *k8smetrics.Desc {
	return k8smetrics.NewDesc(k8smetrics.BuildFQName("", opts.Subsystem, opts.Name), opts.Help, labels, nil, k8smetrics.ALPHA, "")
}

// collector computes metrics about devices at each scrape.
type collector struct {
	k8smetrics.BaseStableCollector
	all func() []Scheduler

	devices, pools, room, most, classes, waiting *k8smetrics.Desc

	// mutex serializes scrapes; no other code waits for it.
	mutex sync.Mutex
	// known has the counts of the latest scrape.
	known map[*cluster.State]counts
}

func newCollector(all func() []Scheduler) *collector {
	return &collector{
		all: all,
		devices: newDesc(&k8smetrics.GaugeOpts{
			Subsystem: metricsSubsystem, Name: "devices",
			Help: "Devices in ResourceSlices, by driver (50 at most, the rest is other), by pool_kind (node: all slices of the pool are for one node; shared), and by the first state that applies: unusable (the pool is incomplete or invalid), allocated (to a claim, or about to be), shared (allocated several times, something may be left), tainted (NoSchedule or NoExecute), exhausted (too little is left of the counters that it consumes), free. Partitions of one device count each.",
		}, "driver", "pool_kind", "state"),
		pools: newDesc(&k8smetrics.GaugeOpts{
			Subsystem: metricsSubsystem, Name: "pools",
			Help: "Resource pools by driver, pool_kind and state: complete, incomplete (the driver is updating it, or a feature is off), invalid. Nothing is allocated from the latter two.",
		}, "driver", "pool_kind", "state"),
		room: newDesc(&k8smetrics.GaugeOpts{
			Subsystem: metricsSubsystem, Name: "node_free_devices",
			Help: "Free devices in pools of single nodes, by how many devices of the driver are free on their node (free_on_node: 1, 2-3, 4-7, 8-15, 16+). Many of them on nodes with few are fragmentation: a request for more than that fits none of these nodes. Partitions count each, though not all of them may be available together. Classes, selectors, CPU and memory are not looked at.",
		}, "driver", "free_on_node"),
		most: newDesc(&k8smetrics.GaugeOpts{
			Subsystem: metricsSubsystem, Name: "node_free_devices_max",
			Help: "The greatest number of devices of a driver that are free on one node, in pools of single nodes: no request for more fits at the moment. Partitions count each, though not all of them may be available together.",
		}, "driver"),
		classes: newDesc(&k8smetrics.GaugeOpts{
			Subsystem: metricsSubsystem, Name: "allocated_devices",
			Help: "Devices that are allocated to claims, and shares of devices, by the class of the request (50 at most, the rest is other). Admin access does not count. Free devices are not counted by class: a device can be of several.",
		}, "device_class"),
		waiting: newDesc(&k8smetrics.GaugeOpts{
			Subsystem: metricsSubsystem, Name: "waiting_pods",
			Help: "Pods that this plugin has rejected in their latest attempt, on at least one node, or that are kept out of the queue because a claim does not exist, or that wait for their group, or whose claims are being written; by cause. A pod with several causes counts for the cause that is nearest to an end. It may wait for something else as well.",
		}, "cause"),
	}
}

// DescribeWithStability implements k8smetrics.StableCollector.
func (c *collector) DescribeWithStability(to chan<- *k8smetrics.Desc) {
	for _, desc := range []*k8smetrics.Desc{c.devices, c.pools, c.room, c.most, c.classes, c.waiting} {
		to <- desc
	}
}

// CollectWithStability implements k8smetrics.StableCollector.
func (c *collector) CollectWithStability(to chan<- k8smetrics.Metric) {
	gauge := func(desc *k8smetrics.Desc, value int, labels ...string) {
		to <- k8smetrics.NewLazyConstMetric(desc, k8smetrics.GaugeValue, float64(value), labels...)
	}
	all := c.all()
	for driver, sum := range byDriver(c.count(all)) {
		for kind, name := range kindNames {
			if !sum.kinds[kind] {
				continue
			}
			for state, n := range sum.devices[kind] {
				gauge(c.devices, n, driver, name, stateNames[state])
			}
			for state, n := range sum.pools[kind] {
				gauge(c.pools, n, driver, name, poolStates[state])
			}
		}
		if sum.kinds[ofNode] {
			for i, n := range sum.byRoom {
				gauge(c.room, n, driver, rooms[i].name)
			}
			gauge(c.most, sum.most, driver)
		}
	}
	var stores []cache.Indexer
	var waiting reasons.Counts
	for _, scheduler := range all {
		stores = append(stores, scheduler.State.Claims)
		for _, pods := range scheduler.Waiting {
			pods.Count(&waiting)
		}
	}
	for class, n := range byClass(stores) {
		gauge(c.classes, n, class)
	}
	for cause, n := range waiting {
		gauge(c.waiting, n, reasons.Cause(cause).String())
	}
}

// count counts the devices of all schedulers.
func (c *collector) count(all []Scheduler) (list []counts) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	known := make(map[*cluster.State]counts, len(all))
	for _, scheduler := range all {
		known[scheduler.State] = c.known[scheduler.State].next(scheduler.State)
		list = append(list, known[scheduler.State])
	}
	c.known = known
	return list
}
