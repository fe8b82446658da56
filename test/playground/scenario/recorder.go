package scenario

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Recorder keeps the newest state of every pod and the newest allocation of each of its claims, even after their end:
// claims of finished pods are deallocated and deleted.
type Recorder struct {
	mu     sync.Mutex
	pods   map[types.UID]*corev1.Pod
	events map[types.UID]string
	// allocations has results by consumer, then by claimKey.
	allocations map[types.UID]map[string][]resourceapi.DeviceRequestAllocationResult
}

// NewRecorder returns a Recorder that has seen nothing.
func NewRecorder() *Recorder {
	return &Recorder{
		pods:        map[types.UID]*corev1.Pod{},
		events:      map[types.UID]string{},
		allocations: map[types.UID]map[string][]resourceapi.DeviceRequestAllocationResult{},
	}
}

func (r *Recorder) podSeen(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.UID] = pod
}

func (r *Recorder) claimSeen(claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, consumer := range claim.Status.ReservedFor {
		uid := cmp.Or(groupConsumer(claim.Namespace, consumer), consumer.UID)
		if r.allocations[uid] == nil {
			r.allocations[uid] = map[string][]resourceapi.DeviceRequestAllocationResult{}
		}
		r.allocations[uid][claimKey(claim)] = claim.Status.Allocation.Devices.Results
	}
}

// claimKey returns the pod's reference for a generated claim, and otherwise the claim's name. The status of a
// finished pod no longer lists its generated claims.
func claimKey(claim *resourceapi.ResourceClaim) string {
	if name := claim.Annotations[resourceapi.PodResourceClaimAnnotation]; name != "" {
		return name
	}
	if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
		return extendedTitle
	}
	return claim.Name
}

// extendedTitle stands for the claim that a scheduler made for a pod's extended resources.
// It is not the name of a claim.
const extendedTitle = "extended resources"

func (r *Recorder) eventSeen(event *corev1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[event.InvolvedObject.UID] = event.Reason + ": " + event.Message
}

// Row is a pod's row in the table.
type Row struct {
	Namespace, Pod string
	// Node is empty if the pod was never bound.
	Node string
	// Lines are "claim/request -> devices", one for each request, or the
	// reason why the pod waits.
	Lines []string
}

// Rows returns a row for every pod of a namespace that was ever seen, ordered
// by name.
func (r *Recorder) Rows(namespace string) []Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rows []Row
	for _, pod := range r.pods {
		if pod.Namespace != namespace {
			continue
		}
		row := Row{Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName}
		if pod.Spec.NodeName == "" {
			row.Lines = []string{shortReason(podReason(pod, []string{r.events[pod.UID]}))}
		} else {
			row.Lines = allocationLines(pod, r.allocationsFor(pod))
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Pod, b.Pod) })
	return rows
}

// allocationsFor returns the allocations of the claims that were reserved for a pod or its group. The caller holds
// the lock.
func (r *Recorder) allocationsFor(pod *corev1.Pod) map[string][]resourceapi.DeviceRequestAllocationResult {
	all := maps.Clone(r.allocations[podGroupOf(pod)])
	if all == nil {
		return r.allocations[pod.UID]
	}
	maps.Copy(all, r.allocations[pod.UID])
	return all
}

// shortReason removes kube-scheduler's text about preemption, which is the same for all pods.
func shortReason(reason string) string {
	if reason == "" {
		return "(the scheduler has not said why)"
	}
	short, _, _ := strings.Cut(reason, " preemption: ")
	return short
}

// allocationLines names each claim by its own name, or by that of its template.
func allocationLines(pod *corev1.Pod, allocations map[string][]resourceapi.DeviceRequestAllocationResult) []string {
	var lines []string
	for _, reference := range pod.Spec.ResourceClaims {
		title, key := reference.Name, reference.Name
		switch {
		case reference.ResourceClaimName != nil:
			title, key = *reference.ResourceClaimName, *reference.ResourceClaimName
		case reference.ResourceClaimTemplateName != nil:
			title = *reference.ResourceClaimTemplateName
		}
		lines = append(lines, requestLines(pod.Spec.NodeName, title, allocations[key])...)
	}
	return append(lines, requestLines(pod.Spec.NodeName, extendedTitle, allocations[extendedTitle])...)
}

// requestLines returns one line for each request of a claim, in the order of
// the results. Devices of a pool that is not the node's own carry its name.
func requestLines(node, claim string, results []resourceapi.DeviceRequestAllocationResult) []string {
	var requests []string
	devices := map[string][]string{}
	for _, result := range results {
		device := result.Device
		if result.Pool != node {
			device = result.Pool + "/" + device
		}
		if result.AdminAccess != nil && *result.AdminAccess {
			device += " (admin)"
		}
		if len(devices[result.Request]) == 0 {
			requests = append(requests, result.Request)
		}
		devices[result.Request] = append(devices[result.Request], device)
	}
	lines := make([]string, 0, len(requests))
	for _, request := range requests {
		lines = append(lines, claim+"/"+request+" -> "+strings.Join(devices[request], " "))
	}
	return lines
}
