// Command schedulerlibrary answers with sigs.k8s.io/scheduler-library, and thus with the plugins of kube-scheduler, where pods fit. It
// reads worlds from standard input and writes answers to standard output, one after another, as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"sigs.k8s.io/scheduler-library/pkg/framework"
	"sigs.k8s.io/scheduler-library/pkg/upstreamsync/snapshot"
)

// world is a cluster with questions.
type world struct {
	Nodes   []*v1.Node                   `json:"nodes"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Pods    []*v1.Pod                    `json:"pods"`
	// Asked are the pods whose nodes are asked for. They are not in the cluster's scheduler.
	Asked []*v1.Pod `json:"asked"`
}

// answer answers the questions of a world.
type answer struct {
	// Fits are the nodes that fit, sorted, for each asked pod alone.
	Fits [][]string `json:"fits"`
	// Placed is the number of asked pods that have a place one after another.
	Placed int `json:"placed"`
	// Alone and InTurn are the times of these answers.
	Alone  time.Duration `json:"alone"`
	InTurn time.Duration `json:"inTurn"`
}

func main() {
	worlds, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var w world
		err := worlds.Decode(&w)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			var a *answer
			if a, err = w.answer(); err == nil {
				err = answers.Encode(a)
			}
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

// answer answers the questions.
func (w *world) answer() (*answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	now, err := w.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, node := range w.Nodes {
		names = append(names, node.Name)
	}
	everywhere, err := now.MakePlacement(names)
	if err != nil {
		return nil, err
	}
	var a answer
	start := time.Now()
	for _, pod := range w.Asked {
		fits, _, err := now.CanSchedulePod(ctx, pod, everywhere)
		if err != nil {
			return nil, fmt.Errorf("ask where pod %s fits: %w", pod.Name, err)
		}
		slices.Sort(fits)
		a.Fits = append(a.Fits, fits)
	}
	a.Alone, start = time.Since(start), time.Now()
	results, err := now.SchedulePods(ctx, w.Asked, everywhere, snapshot.SchedulePodsOptions{})
	if err != nil {
		return nil, fmt.Errorf("place the pods one after another: %w", err)
	}
	a.InTurn = time.Since(start)
	for _, result := range results {
		if result.Status.IsSuccess() {
			a.Placed++
		}
	}
	return &a, nil
}

// snapshot gives the world to the library, with kube-scheduler's default configuration.
func (w *world) snapshot(ctx context.Context) (*snapshot.ClusterSnapshot, error) {
	config, err := latest.Default()
	if err != nil {
		return nil, err
	}
	client := fake.NewSimpleClientset(w.objects()...) // Without field management, which nothing here needs.
	factory := informers.NewSharedInformerFactory(client, 0)
	state := cache.NewSnapshot(w.Pods, w.Nodes)
	profiles, err := framework.NewProfileMap(ctx, client, factory, state, config)
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	if result := factory.WaitForCacheSyncWithContext(ctx); result.Err != nil {
		return nil, result.Err
	}
	if err := w.awaitClaims(ctx, profiles.Map[v1.DefaultSchedulerName].SharedDRAManager().ResourceClaims()); err != nil {
		return nil, err
	}
	return snapshot.New(state, profiles), nil
}

// awaitClaims waits until the plugin knows all claims and the devices in use. The library does not: it waits for the informers only.
func (w *world) awaitClaims(ctx context.Context, known fwk.ResourceClaimTracker) error {
	inUse := 0
	for _, claim := range w.Claims {
		if claim.Status.Allocation != nil {
			inUse += len(claim.Status.Allocation.Devices.Results)
		}
	}
	return wait.PollUntilContextTimeout(ctx, time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		claims, err := known.List()
		if err != nil {
			return false, err
		}
		devices, err := known.ListAllAllocatedDevices() // It fails while claims change.
		return err == nil && len(claims) == len(w.Claims) && devices.Len() == inUse, nil
	})
}

// objects returns all objects.
func (w *world) objects() []runtime.Object {
	return slices.Concat(objectsOf(w.Nodes), objectsOf(w.Slices), objectsOf(w.Claims), objectsOf(w.Classes), objectsOf(w.Pods), objectsOf(w.Asked))
}

func objectsOf[T runtime.Object](typed []T) (objects []runtime.Object) {
	for _, object := range typed {
		objects = append(objects, object)
	}
	return objects
}
