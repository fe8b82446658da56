package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Question asks whether a pod would fit.
type Question struct {
	// Pod is a manifest with one pod, and with the claims, templates and classes that it needs and that do not exist.
	Pod string `json:"pod"`
	// Waiting is a pod of the cluster, as namespace/name, instead of a manifest.
	Waiting string `json:"waiting"`
	// Without and WithoutPods are claims and pods, as namespace/name, to ignore.
	Without     []string `json:"without"`
	WithoutPods []string `json:"withoutPods"`
}

// Placement says where a pod would go, or why it does not fit.
type Placement struct {
	Verdict whatif.Verdict `json:"verdict"`
	Pod     string         `json:"pod"`
	Node    string         `json:"node,omitempty"`
	// Devices are the devices that it would get, as driver/pool/device.
	Devices   []Planned `json:"devices"`
	Doubts    []string  `json:"doubts,omitempty"`
	Unchecked []string  `json:"unchecked,omitempty"`
	// Reasons says why it does not fit.
	Reasons *Reasons `json:"reasons,omitempty"`
}

// Planned is a device for a request.
type Planned struct {
	Device  string `json:"device"`
	Claim   string `json:"claim"`
	Request string `json:"request"`
}

// fit answers a Question with a Placement.
func (s *server) fit(ctx context.Context, r *http.Request) (any, error) {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		// Pages of other origins could send other content types without a CORS preflight request.
		return nil, refuse(http.StatusUnsupportedMediaType, "the question has to be application/json")
	}
	var question Question
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&question); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, err
		}
		return nil, refuse(http.StatusBadRequest, "the question is not the expected JSON: "+err.Error())
	}
	world, err := s.world()
	if err != nil {
		return nil, err
	}
	pod, more, err := question.about(world)
	if err != nil {
		return nil, err
	}
	if len(question.Without)+len(question.WithoutPods) > 0 {
		if world, err = world.Without(whatif.Removal{Claims: present(question.Without, world), Pods: presentPods(question.WithoutPods, world)}); err != nil {
			return nil, refuse(http.StatusBadRequest, err.Error())
		}
	}
	world = world.With(more)
	return placed(ctx, world, asNew(world, pod))
}

// about returns the pod of the question, and the objects that come with it.
func (q *Question) about(world *whatif.Snapshot) (*v1.Pod, whatif.Objects, error) {
	if q.Waiting != "" {
		namespace, name, _ := strings.Cut(q.Waiting, "/")
		if pod := world.Pod(namespace, name); pod != nil {
			return pod.DeepCopy(), whatif.Objects{}, nil
		}
		return nil, whatif.Objects{}, refuse(http.StatusNotFound, "there is no pod "+q.Waiting+" any more")
	}
	pod, more, err := manifest(q.Pod)
	if err != nil {
		return nil, more, refuse(http.StatusBadRequest, err.Error())
	}
	return pod, more, nil
}

// placed asks for a place for the pod.
func placed(ctx context.Context, world *whatif.Snapshot, pod *v1.Pod) (*Placement, error) {
	found, err := world.Fit(ctx, pod)
	if err != nil {
		return nil, err
	}
	placement := &Placement{Verdict: found.Verdict, Pod: whatif.Key(pod), Devices: []Planned{}, Doubts: found.Doubts, Unchecked: found.Unchecked}
	for _, plan := range found.Plans {
		placement.Node = plan.Node
		for _, claim := range plan.Claims {
			for i := range claim.Status.Allocation.Devices.Results {
				result := &claim.Status.Allocation.Devices.Results[i]
				placement.Devices = append(placement.Devices, Planned{
					Device: ledger.PoolOf(result).String() + "/" + result.Device, Claim: whatif.Key(claim), Request: result.Request,
				})
			}
		}
	}
	if len(found.Unplaced) > 0 {
		placement.Reasons, err = reasons(ctx, world, pod)
	}
	return placement, err
}

// asNew turns a pod, which may come from the cluster, into one that was never scheduled.
func asNew(world *whatif.Snapshot, pod *v1.Pod) *v1.Pod {
	pod.UID, pod.Spec.NodeName = "", ""
	pod.Status = v1.PodStatus{ResourceClaimStatuses: pod.Status.ResourceClaimStatuses}
	if pod.Namespace == "" {
		pod.Namespace = v1.NamespaceDefault
	}
	if pod.Name == "" {
		pod.Name = "what-if"
	}
	if existing := world.Pod(pod.Namespace, pod.Name); existing != nil {
		if existing.Spec.NodeName == "" {
			pod.UID, pod.Status.ResourceClaimStatuses = existing.UID, existing.Status.ResourceClaimStatuses
			return pod
		}
		pod.Name += "-again"
		pod.Status.ResourceClaimStatuses = nil
	}
	return pod
}

// present filters the claims that still exist: claims that the question ignores may be gone by now.
func present(claims []string, world *whatif.Snapshot) []string {
	return slices.DeleteFunc(claims, func(key string) bool {
		namespace, name, _ := strings.Cut(key, "/")
		return world.Claim(namespace, name) == nil
	})
}

func presentPods(pods []string, world *whatif.Snapshot) []string {
	return slices.DeleteFunc(pods, func(key string) bool {
		namespace, name, _ := strings.Cut(key, "/")
		return world.Pod(namespace, name) == nil
	})
}
