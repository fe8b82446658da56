package gangplacement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// running summarizes the pods of a group that have a node.
type running struct {
	pods int
	// names are the domains that all these pods share, sorted; there may be several if nodes are in several domains.
	names []string
	// apart is set if names is empty: it names two pods in different domains, or a pod in no domain.
	apart string
}

// allows reports whether other pods of the group may be in a domain if all must share one.
func (r *running) allows(name string) bool { return r.pods == 0 || slices.Contains(r.names, name) }

// problem returns why no common domain is left, "" if one is.
func (r *running) problem(key domain.Key) string {
	if r.pods == 0 || len(r.names) > 0 {
		return ""
	}
	return fmt.Sprintf("the PodGroup needs a single domain by %s (%s) but %s; delete those pods or use %s",
		key, domain.RequiredAnnotation, r.apart, domain.PreferredAnnotation)
}

// runningDomains summarizes the pods of a group that have a node.
func (pl *Plugin) runningDomains(key domain.Key, group fwk.PodGroupInfo) (running, error) {
	state, err := pl.handle.SnapshotSharedLister().PodGroupStates().Get(group.GetNamespace(), group.GetName())
	if err != nil {
		return running{}, fmt.Errorf("find the pods of PodGroup %s/%s that have a node: %w", group.GetNamespace(), group.GetName(), err)
	}
	var r running
	pods := state.ScheduledPods()
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		names, err := pl.domainsOf(key, pod)
		if err != nil {
			return running{}, err
		}
		r.meet(pod, pods[0], names)
	}
	return r, nil
}

// meet adds a pod.
func (r *running) meet(pod, first *v1.Pod, names []string) {
	r.pods++
	switch {
	case r.apart != "":
	case len(names) == 0:
		r.names, r.apart = nil, fmt.Sprintf("its pod %s runs on node %s which is in none", pod.Name, pod.Spec.NodeName)
	case r.pods == 1:
		r.names = names
	default:
		common := slices.DeleteFunc(slices.Clone(r.names), func(name string) bool { return !slices.Contains(names, name) })
		if len(common) == 0 {
			r.apart = fmt.Sprintf("its pods run in several: %s in %s; %s in %s", first.Name, quoted(r.names), pod.Name, quoted(names))
		}
		r.names = common
	}
}

// domainsOf returns the domains of a pod on a node, sorted: those of its devices, or else those of the node.
func (pl *Plugin) domainsOf(key domain.Key, pod *v1.Pod) ([]string, error) {
	info, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(pod.Spec.NodeName)
	if err != nil {
		return nil, fmt.Errorf("find the node of pod %s: %w", klog.KObj(pod), err)
	}
	names := pl.domainsOfDevices(key, pod)
	if len(names) > 0 {
		return names, nil
	}
	for _, d := range domain.Split(key, []*v1.Node{info.Node()}, pl.poolsOf) {
		names = append(names, d.Name)
	}
	return names, nil
}

// domainsOfDevices returns the domains that all devices of a pod with the attribute share.
func (pl *Plugin) domainsOfDevices(key domain.Key, pod *v1.Pod) (common []string) {
	state := pl.state()
	if state == nil || key.Attribute == "" {
		return nil
	}
	first := true
	for _, claim := range pl.takesIn(state).claims.OfBound(pod) {
		for result := range ledger.Used(state.Ledger.UseOf(claim.UID).Allocation) {
			pool := state.Pool(ledger.PoolOf(result))
			if pool == nil {
				continue
			}
			device := pool.Device(result.Device)
			if device == nil {
				continue
			}
			names := domain.Names(key, device)
			switch {
			case len(names) == 0:
			case first:
				common, first = slices.Clone(names), false
			default:
				common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(names, name) })
			}
		}
	}
	slices.Sort(common)
	return slices.Compact(common)
}

// quoted joins quoted names for a message.
func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = strconv.Quote(name)
	}
	return strings.Join(list, " or ")
}
