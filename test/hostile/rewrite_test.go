package hostile

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// A driver rewrites its slices so often.
	rewritesPerSecond = 100
	// rewrites are enough for the scheduler's queue to fill up if it fell behind.
	rewrites = 600
	// rewrittenDevices are in each of the slices.
	rewrittenDevices = 32
)

// TestDriverThatRewrites has a driver rewrite one slice, or each of many in turn,
// with other attributes and a new generation each time. They are on the nodes of the
// ordinary pods, and other pods wait for devices of that driver.
func TestDriverThatRewrites(t *testing.T) {
	harness.Long(t, "a driver rewrites hundreds of slices")
	s := newStream(t, "rewrite")
	t.Log(s.run("none", baseline, nil))
	for _, slices := range []int{1, 50} {
		t.Log(s.run(fmt.Sprintf("rewrites-of-%d", slices), baseline, func() {
			d := newRewriter(s.space, slices)
			d.rewrite(t)
			d.remove(t)
		}))
	}
	t.Log(s.run("after", baseline, nil))
	panics, err := s.scheduler.LogLines("Observed a panic")
	require.NoError(t, err)
	require.Empty(t, panics)
}

// rewriter is a driver that rewrites its slices.
type rewriter struct {
	space  *harness.Space
	driver string
	slices []*resourceapi.ResourceSlice
	class  *resourceapi.DeviceClass
	waits  []string
}

func newRewriter(space *harness.Space, slices int) *rewriter {
	d := &rewriter{space: space, driver: fmt.Sprintf("rewrites-%d.%s", slices, space.Driver)}
	d.class = builder.Class(fmt.Sprintf("%s-rewritten-%d", space.Name, slices), builder.OfDriver(d.driver))
	space.Create(d.class)
	for i := range slices {
		name := fmt.Sprintf("%s-rewritten-%d-%d", space.Name, slices, i)
		slice := builder.NodeSlice(space.Node(i%2), builder.NumberedDevices("device", rewrittenDevices)...).
			OfDriver(d.driver).InPool(name, 1, 1).Obj()
		slice.Name = name
		created, err := cluster.Client.ResourceV1().ResourceSlices().Create(space.T.Context(), slice, metav1.CreateOptions{})
		require.NoError(space.T, err)
		d.slices = append(d.slices, created)
	}
	// These wait for what never comes, so that each rewrite is of interest to somebody.
	for i := range 10 {
		name := fmt.Sprintf("waits-%d-%d", slices, i)
		devices := builder.Request("gpu", d.class.Name).Where(fmt.Sprintf("device.attributes[%q].version == -1", d.driver))
		space.Create(builder.Claim(name, devices).Obj(), space.Pod(name, builder.Uses(name)))
		d.waits = append(d.waits, name)
	}
	return d
}

// rewrite changes the slices in turn, at a steady rate.
func (d *rewriter) rewrite(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(time.Second / rewritesPerSecond)
	defer ticker.Stop()
	start := time.Now()
	var mutex sync.Mutex
	var writers sync.WaitGroup
	errs := map[string]int{}
	written := 0
	next := make(chan int, rewrites)
	for range 4 {
		writers.Go(func() {
			for n := range next {
				err := d.rewriteOne(t, n)
				mutex.Lock()
				if err != nil {
					errs[err.Error()]++
				} else {
					written++
				}
				mutex.Unlock()
			}
		})
	}
	for n := range rewrites {
		<-ticker.C
		next <- n
	}
	close(next)
	writers.Wait()
	require.Empty(t, errs)
	t.Logf("%d rewrites of %d slices in %s: %.0f a second", written, len(d.slices), time.Since(start).Round(time.Millisecond), float64(written)/time.Since(start).Seconds())
}

// rewriteOne replaces a slice by its n-th version.
func (d *rewriter) rewriteOne(t *testing.T, n int) error {
	slice := d.slices[n%len(d.slices)].DeepCopy()
	slice.ResourceVersion = "" // Whoever is last wins.
	slice.Spec.Pool.Generation = int64(n + 2)
	for i := range slice.Spec.Devices {
		version := int64(n)
		slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"version": {IntValue: &version}}
	}
	_, err := cluster.Client.ResourceV1().ResourceSlices().Update(t.Context(), slice, metav1.UpdateOptions{})
	return err
}

// remove deletes what there is of the driver. Its pods have waited all the time.
func (d *rewriter) remove(t *testing.T) {
	t.Helper()
	for _, name := range d.waits {
		pod, err := d.space.KnownPod(name)
		require.NoError(t, err)
		require.Empty(t, pod.Spec.NodeName)
		d.space.DeletePod(name)
		d.space.Delete(builder.Claim(name, builder.Request("gpu", d.class.Name)).Obj())
	}
	for _, slice := range d.slices {
		d.space.Delete(slice)
	}
	d.space.Delete(d.class)
}
