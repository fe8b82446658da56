package web

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

const (
	// problemsAtMost bounds the problems that are listed, and waitingAtMost the waiting pods.
	problemsAtMost = 50
	waitingAtMost  = 2000
	// attributesAtMost bounds the names of attributes that are offered.
	attributesAtMost = 500
	// messageAtMost bounds the length of a scheduler's message.
	messageAtMost = 1000
)

// describe returns everything apart from the tiles.
func describe(s *whatif.Snapshot, tiles []*sheet) Meta {
	meta := Meta{Classes: []string{}, Waiting: waiting(s), Namespaces: namespaces(s)}
	for _, class := range s.Classes() {
		meta.Classes = append(meta.Classes, class.Name)
	}
	meta.Attributes, meta.Problems = attributesAndProblems(s)
	withDevices := 0
	for _, tile := range tiles {
		if !tile.shared && s.Node(tile.name) != nil {
			withDevices++
		}
	}
	meta.Without = len(s.Nodes()) - withDevices
	return meta
}

// namespaces returns the namespaces with allocated claims.
func namespaces(s *whatif.Snapshot) []string {
	seen := make(map[string]bool)
	for _, claim := range s.Claims() {
		if claim.Status.Allocation != nil {
			seen[claim.Namespace] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(seen))...)
}

// waiting lists the pods without a node that ask for devices, in the order of a scheduler's queue.
func waiting(s *whatif.Snapshot) []Waiting {
	classes := s.Classes()
	all := []Waiting{}
	var pods []*v1.Pod
	for _, pod := range s.Pods() {
		if pod.Spec.NodeName == "" && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed && asksForDevices(pod, classes) {
			pods = append(pods, pod)
		}
	}
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	for _, pod := range pods[:min(len(pods), waitingAtMost)] {
		w := Waiting{Pod: whatif.Key(pod), Priority: corev1helpers.PodPriority(pod)}
		if !pod.CreationTimestamp.IsZero() {
			w.Since = pod.CreationTimestamp.Unix()
		}
		if _, scheduled := podutil.GetPodCondition(&pod.Status, v1.PodScheduled); scheduled != nil && scheduled.Status == v1.ConditionFalse {
			w.Message = shortened(scheduled.Message, messageAtMost)
		}
		if held := dra.HeldFor(pod); held != nil {
			w.Held = shortened(held.Message, messageAtMost)
		}
		all = append(all, w)
	}
	return all
}

func asksForDevices(pod *v1.Pod, classes []*resourceapi.DeviceClass) bool {
	return len(pod.Spec.ResourceClaims) > 0 || slices.ContainsFunc(classes, func(class *resourceapi.DeviceClass) bool {
		return extended.AsksFor(pod, class)
	})
}

func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// attributesAndProblems returns the names of all attributes, and problems of the objects.
func attributesAndProblems(s *whatif.Snapshot) (attributes, problems []string) {
	names := make(map[string]bool)
	problems = []string{}
	count := 0
	tell := func(format string, arguments ...any) {
		if count++; count <= problemsAtMost {
			problems = append(problems, fmt.Sprintf(format, arguments...))
		}
	}
	for _, missing := range s.Missing() {
		tell("%s could not be read: %s", missing.Resource, missing.Why)
	}
	looks := make(map[*inventory.Content]bool)
	for _, pool := range s.Pools() {
		if pool.State != inventory.Complete {
			tell("pool %s is %s: %s", pool.ID, strings.ToLower(pool.State.String()), pool.Reason)
		}
		tellUnpublished(s, pool, tell)
		if pool.Content != nil && looks[pool.Content] {
			continue
		}
		looks[pool.Content] = true
		for i := range pool.Devices {
			for name := range pool.Devices[i].Attributes {
				names[qualified(name, pool.ID.Driver)] = true
			}
		}
	}
	if count > problemsAtMost {
		problems = append(problems, fmt.Sprintf("and %d more", count-problemsAtMost))
	}
	attributes = append([]string{}, slices.Sorted(maps.Keys(names))...)
	return attributes[:min(len(attributes), attributesAtMost)], problems
}

// tellUnpublished reports allocated devices that are not published. It skips incomplete pools, whose devices are
// unknown.
func tellUnpublished(s *whatif.Snapshot, pool *inventory.NodePool, tell func(string, ...any)) {
	if pool.State != inventory.Complete {
		return
	}
	var lines []string
	for name, use := range ledger.Of(s.Usage(), pool).All() {
		if pool.Device(name) == nil {
			lines = append(lines, fmt.Sprintf("device %s/%s is not published, and held by %s", pool.ID, name, strings.Join(holders(use), ", ")))
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		tell("%s", line)
	}
}

// qualified returns the name of an attribute with its domain, which is the driver unless the name has one.
func qualified(name resourceapi.QualifiedName, driver string) string {
	if strings.Contains(string(name), "/") {
		return string(name)
	}
	return driver + "/" + string(name)
}

// published returns a hash that changes with devices, classes and labels of nodes, based on the versions of the
// objects.
func published(s *whatif.Snapshot) uint64 {
	hash := fnv.New64a()
	write := func(parts ...string) {
		for _, part := range parts {
			hash.Write([]byte(part))
			hash.Write([]byte{0})
		}
	}
	for _, class := range s.Classes() {
		write(class.Name, string(class.UID), class.ResourceVersion)
	}
	for _, pool := range s.Pools() {
		var last *inventory.Slice
		for i := range pool.Devices {
			if slice := pool.Devices[i].Slice; slice != last {
				last = slice
				write(slice.Name, string(slice.UID), slice.ResourceVersion)
			}
		}
	}
	for _, node := range s.Nodes() {
		write(node.Name)
		for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
			write(key, node.Labels[key])
		}
	}
	return hash.Sum64()
}
